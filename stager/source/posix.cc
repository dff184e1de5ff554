// A data set in a directory: Lustre, NFS, a local disk.
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "core/os.h"
#include "stager/source/source.h"

namespace monarch {

namespace {

bool same_file(const struct stat& a, const struct stat& b) {
    return a.st_size == b.st_size && a.st_ino == b.st_ino && a.st_dev == b.st_dev &&
           mtime_ns(a) == mtime_ns(b) && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
           a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

// One parallel walk. Folders wait in a queue; each thread takes one, lists it and queues its sub-folders.
class Walk {
  public:
    Walk(int root, Listing& listing) : root_(root), listing_(listing) { queue_.push_back(""); }

    void run(unsigned threads, Manifest& into) {
        std::vector<Manifest> parts(threads);
        std::vector<std::thread> workers;
        for (unsigned n = 0; n < threads; n++) workers.emplace_back([this, &parts, n] { work(parts[n]); });
        for (auto& w : workers) w.join();
        for (const auto& part : parts) into.append(part);
    }

  private:
    void work(Manifest& part) {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return !queue_.empty() || busy_ == 0; });
            if (queue_.empty() || listing_.stop) return changed_.notify_all();
            std::string folder = std::move(queue_.front());
            queue_.pop_front();
            busy_++;
            lock.unlock();
            std::vector<std::string> found;
            list_folder(folder, part, found);
            lock.lock();
            for (auto& f : found) queue_.push_back(std::move(f));
            busy_--;
            changed_.notify_all();
        }
    }

    void list_folder(const std::string& folder, Manifest& part, std::vector<std::string>& found) {
        int fd = openat(root_, folder.empty() ? "." : folder.c_str(),
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR* dir = fd < 0 ? nullptr : fdopendir(fd);
        if (!dir) {
            if (fd >= 0) close(fd);
            listing_.unlisted++;
            return;
        }
        while (!listing_.stop) {
            errno = 0;
            dirent* e = readdir(dir);
            if (!e) {
                if (errno) listing_.unlisted++;
                break;
            }
            if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
            std::string path = folder.empty() ? e->d_name : folder + "/" + e->d_name;
            add(dirfd(dir), *e, path, part, found);
        }
        closedir(dir);
    }

    void add(int dir, const dirent& e, const std::string& path, Manifest& part,
             std::vector<std::string>& found) {
        if (e.d_type == DT_DIR) return found.push_back(path);
        struct stat st;
        if (fstatat(dir, e.d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            listing_.unlisted += errno != ENOENT;
        } else if (S_ISREG(st.st_mode)) {
            listing_.files++;
            part.add(path, static_cast<uint64_t>(st.st_size), mtime_ns(st));
        } else if (S_ISDIR(st.st_mode)) {
            found.push_back(path);
        } else if (S_ISLNK(st.st_mode)) {
            char target[PATH_MAX];
            ssize_t n = readlinkat(dir, e.d_name, target, sizeof target);
            if (n > 0 && n < PATH_MAX) part.add_link(path, std::string_view(target, static_cast<size_t>(n)));
        }  // devices, fifos and sockets are no data
    }

    int root_;
    Listing& listing_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::string> queue_;
    unsigned busy_ = 0;
};

class PosixSource : public Source {
  public:
    PosixSource(std::string root, unsigned threads) : root_(std::move(root)), threads_(threads) {}

    Result<std::string> canonical() override {
        if (Status s = open_root(); !s.ok()) return Error{s.error()};
        char* path = realpath(root_.c_str(), nullptr);
        if (!path) return os_error("cannot reach the source", root_);
        std::string result = path;
        free(path);
        return result;
    }

    Status list(Manifest& manifest, Listing& listing) override {
        if (Status s = open_root(); !s.ok()) return s;
        Walk(fd_.get(), listing).run(threads_, manifest);
        return Done{};
    }

    Result<Fetched> fetch(std::string_view path, int out,
                          const std::function<bool(uint64_t)>& took) override {
        std::string name(path);
        // O_NONBLOCK: a fifo put there since the listing must not hang a stream.
        Fd in(openat(fd_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        if (!in) return os_error("open", name);
        struct stat before, after;
        if (fstat(in.get(), &before) != 0) return os_error("stat", name);
        if (!S_ISREG(before.st_mode)) return Error{name + ": not a regular file any more"};
        uint64_t copied = 0;
        if (Status s = copy(in.get(), out, name, took, copied); !s.ok()) return Error{s.error()};
        if (fstat(in.get(), &after) != 0) return os_error("stat", name);
        if (!same_file(before, after) || copied != static_cast<uint64_t>(before.st_size))
            return Error{name + ": changed while it was copied"};
        Fetched f;
        f.size = copied;
        f.mtime_ns = mtime_ns(before);
        f.id = {before.st_dev, before.st_ino, before.st_mode,
                before.st_uid, before.st_gid, static_cast<uint32_t>(before.st_nlink)};
        return f;
    }

  private:
    Status open_root() {
        if (!fd_) fd_ = Fd(open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!fd_) return os_error("cannot open the source", root_);
        return Done{};
    }

    static Status copy(int in, int out, const std::string& name, const std::function<bool(uint64_t)>& took,
                       uint64_t& copied) {
        static thread_local std::vector<char> block(1 << 20);
        for (;;) {
            ssize_t n = read(in, block.data(), block.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return os_error("read", name);
            if (n == 0) return Done{};
            if (!write_all(out, {block.data(), static_cast<size_t>(n)}))
                return os_error("write", "the copy of " + name);
            copied += static_cast<uint64_t>(n);
            if (!took(static_cast<uint64_t>(n))) {
                errno = ECANCELED;
                return os_error("copy", name);
            }
        }
    }

    std::string root_;
    unsigned threads_;
    Fd fd_;
};

}  // namespace

std::unique_ptr<Source> posix_source(std::string root, unsigned threads) {
    return std::make_unique<PosixSource>(std::move(root), threads);
}

}  // namespace monarch
