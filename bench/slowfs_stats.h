// What slowfs counts, and the file that shows it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace slowfs {

// The kinds of request that are told apart; the names are those of the stats file and of the control file.
enum class Op { lookup, getattr, open, read, write, opendir, readdir, other };
constexpr std::array<const char*, 8> kOpNames = {"lookup", "getattr", "open",    "read",
                                                 "write",  "opendir", "readdir", "other"};

inline std::optional<Op> op_named(std::string_view name) {
    auto at = std::find(kOpNames.begin(), kOpNames.end(), name);
    if (at == kOpNames.end()) return {};
    return static_cast<Op>(at - kOpNames.begin());
}

class Stats {
  public:
    // A request is counted when it arrives, so that who has its answer finds it counted.
    void count(Op op) { ops_[static_cast<size_t>(op)]++; }

    void begin() {
        uint64_t now = ++inflight_;
        uint64_t most = inflight_max_;
        while (now > most && !inflight_max_.compare_exchange_weak(most, now)) {
        }
    }
    void end() { inflight_--; }

    // Replaces the file at `path` by rename: a reader sees the old counters or the new ones, never a mixture.
    // The sequence number is fixed before the counters are read (see bench/README.md). False: not written.
    bool write(const std::string& path) {
        std::string temp = path + ".tmp";
        std::string text = json();
        FILE* file = fopen(temp.c_str(), "we");
        if (!file) return false;
        bool ok = fwrite(text.data(), 1, text.size(), file) == text.size();
        ok = fclose(file) == 0 && ok;
        return ok && rename(temp.c_str(), path.c_str()) == 0;
    }

    std::atomic<uint64_t> bytes_read = 0, bytes_written = 0, control_loads = 0, control_errors = 0;

  private:
    std::string json() {
        std::string text = "{\n";
        auto line = [&](const char* key, uint64_t value) {
            text += "  \"" + std::string(key) + "\": " + std::to_string(value) + ",\n";
        };
        line("sequence", ++sequence_);
        for (size_t i = 0; i < ops_.size(); i++) line(kOpNames[i], ops_[i]);
        line("bytes_read", bytes_read);
        line("bytes_written", bytes_written);
        line("inflight", inflight_);
        line("inflight_max", inflight_max_);
        line("control_loads", control_loads);
        line("control_errors", control_errors);
        text.resize(text.size() - 2);
        return text + "\n}\n";
    }

    std::array<std::atomic<uint64_t>, kOpNames.size()> ops_{};
    std::atomic<uint64_t> inflight_ = 0, inflight_max_ = 0;
    uint64_t sequence_ = 0;
};

}  // namespace slowfs
