// What the tests of stager/ share: folders that go with the test, and a source that fails on demand.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/os.h"
#include "stager/manifest.h"
#include "stager/source/source.h"

namespace monarch {

struct TestFolder {
    std::string path;
    TestFolder() {
        std::string name = std::filesystem::temp_directory_path().string() + "/monarch_test.XXXXXX";
        path = std::filesystem::canonical(mkdtemp(name.data())).string();
    }
    ~TestFolder() { remove_tree(path); }
    std::string operator/(const std::string& name) const { return path + "/" + name; }
};

inline void put(const std::string& path, std::string_view bytes) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
    REQUIRE(write_all(fd.get(), bytes));
}

inline std::string get(const std::string& path) {
    auto bytes = read_file(path, 1 << 26);
    return bytes ? *bytes : "error: " + bytes.error();
}

// A source of strings. The n-th step of all (a call, or a block of a file) does what `fault` says.
class FakeSource : public Source {
  public:
    enum Fault { none, fail, full, shrink, grow, change, hang };
    std::map<std::string, std::string> files;
    std::function<Fault(unsigned step)> fault = [](unsigned) { return none; };
    std::atomic<unsigned> steps{0};
    std::atomic<unsigned> fetches{0};

    Result<std::string> canonical() override { return std::string("/source"); }
    Status list(Manifest& manifest, Listing& listing) override {
        for (const auto& [path, bytes] : files) manifest.add(path, bytes.size(), mtime_ns);
        listing.files = manifest.size();
        return Done{};
    }
    Result<Fetched> fetch(std::string_view path, int out,
                          const std::function<bool(uint64_t)>& took) override {
        fetches++;
        std::string bytes = files.at(std::string(path));
        Fault doing = fault(steps++);
        if (doing == fail) return Error{"open " + std::string(path) + ": Input/output error"};
        if (doing == hang) wait_released();
        if (doing == shrink) bytes.resize(bytes.size() / 2);
        if (doing == grow) bytes += bytes + std::string(100000, 'g');
        for (size_t at = 0; at < bytes.size(); at += block) {
            Fault now = fault(steps++);
            if (now == hang) wait_released();
            if (now == full) {
                errno = ENOSPC;
                return Error{"write: No space left on device"};
            }
            if (now == fail) return Error{"read " + std::string(path) + ": Input/output error"};
            if (now == change) return Error{std::string(path) + ": changed while it was copied"};
            std::string_view part = std::string_view(bytes).substr(at, block);
            if (!write_all(out, part)) return os_error("write", path);
            if (!took(part.size())) return Error{"stopped"};
        }
        return Fetched{bytes.size(), mtime_ns, {1, 2, 0100644, 3, 4, 1}};
    }

    void release() {
        std::lock_guard lock(mutex_);
        released_ = true;
        changed_.notify_all();
    }
    unsigned hanging() {
        std::lock_guard lock(mutex_);
        return hanging_;
    }

    static constexpr size_t block = 4000;
    static constexpr int64_t mtime_ns = 1234567890123456789;

  private:
    void wait_released() {
        std::unique_lock lock(mutex_);
        hanging_++;
        changed_.wait(lock, [this] { return released_; });
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    bool released_ = false;
    unsigned hanging_ = 0;
};

}  // namespace monarch
