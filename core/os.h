// The few things asked of the operating system in more than one place.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace monarch {

// An owned file descriptor, -1 when empty.
class Fd {
  public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        if (this != &other) reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~Fd() { reset(); }
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void reset(int fd = -1);

  private:
    int fd_;
};

// "what: path: strerror(errno)" of the call that just failed.
Error os_error(std::string_view what, std::string_view path);

// The whole of a descriptor up to `limit` bytes; an error beyond it.
Result<std::string> read_fd(int fd, size_t limit);
// The same of a regular file, opened without following a link at its end.
Result<std::string> read_file(const std::string& path, size_t limit);
// Writes under a temporary name in the same folder, then renames. `uid`/`gid` -1: left alone.
Status write_file(const std::string& path, std::string_view bytes, mode_t mode, uid_t uid = uid_t(-1),
                  gid_t gid = gid_t(-1));
bool write_all(int fd, std::string_view bytes);

// Makes one folder; one that is there already must be a real folder of `uid` (-1: anyone).
Status make_dir(const std::string& path, mode_t mode, uid_t uid = uid_t(-1), gid_t gid = gid_t(-1));
// make_dir for each missing component.
Status make_dirs(const std::string& path, mode_t mode);

// Removes a tree without following links or leaving its file system; what is gone already is no error.
// Returns how many entries could not be removed. `freed`, if any, is called with the bytes of disk that each
// file held which is gone now.
uint64_t remove_tree(const std::string& path, const std::function<void(uint64_t)>& freed = {});

// This process's I/O goes after everybody else's, or as is usual again.
void set_io_idle(bool idle);

// flock(LOCK_EX), waiting `milliseconds` at most; whether it is held.
bool lock_within(int fd, unsigned milliseconds);

// st_mtim in nanoseconds.
int64_t mtime_ns(const struct stat& st);

// /proc/sys/kernel/random/boot_id, "" when unreadable.
std::string boot_id();
// Start time of a process in clock ticks (field 22 of /proc/PID/stat), 0 when there is none or it is a
// zombie.
uint64_t process_start(pid_t pid);

int64_t now_s();          // CLOCK_REALTIME
uint64_t monotonic_ns();  // CLOCK_MONOTONIC

// The folder of the running program, for finding the others beside it.
std::string program_dir();
// `name` in the folder of the running program, in ../libexec/monarch seen from there (an installation under
// any prefix) or, failing that, in MONARCH_LIBEXECDIR.
std::string find_program(const std::string& name);

// One line to syslog (tag monarch) and to standard error. `level` as in syslog(3).
void log_line(int level, std::string_view text);

}  // namespace monarch
