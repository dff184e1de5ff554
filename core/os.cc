#include "core/os.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#ifndef MONARCH_LIBEXECDIR
#define MONARCH_LIBEXECDIR "/usr/libexec/monarch"
#endif

namespace monarch {

void Fd::reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
}

Error os_error(std::string_view what, std::string_view path) {
    int error = errno;
    return Error{std::string(what) + " " + std::string(path) + ": " + strerror(error)};
}

Result<std::string> read_fd(int fd, size_t limit) {
    std::string bytes;
    char block[65536];
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return os_error("read", "");
        if (n == 0) return bytes;
        bytes.append(block, static_cast<size_t>(n));
        if (bytes.size() > limit) return Error{"larger than " + std::to_string(limit) + " bytes"};
    }
}

Result<std::string> read_file(const std::string& path, size_t limit) {
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) return os_error("open", path);
    struct stat st;
    if (fstat(fd.get(), &st) != 0) return os_error("stat", path);
    if (!S_ISREG(st.st_mode)) return Error{path + ": not a regular file"};
    return read_fd(fd.get(), limit);
}

bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        ssize_t n = write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
}

Status write_file(const std::string& path, std::string_view bytes, mode_t mode, uid_t uid, gid_t gid) {
    std::string temporary = path + ".new." + std::to_string(getpid());
    unlink(temporary.c_str());
    Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return os_error("create", temporary);
    bool good = write_all(fd.get(), bytes);
    if (good && (uid != uid_t(-1) || gid != gid_t(-1))) good = fchown(fd.get(), uid, gid) == 0;
    if (good) good = fchmod(fd.get(), mode) == 0;
    if (good) good = rename(temporary.c_str(), path.c_str()) == 0;
    if (good) return Done{};
    Error error = os_error("write", path);
    unlink(temporary.c_str());
    return error;
}

Status make_dir(const std::string& path, mode_t mode, uid_t uid, gid_t gid) {
    bool made = mkdir(path.c_str(), 0700) == 0;
    if (!made && errno != EEXIST) return os_error("mkdir", path);
    Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return os_error("open folder", path);
    struct stat st;
    if (fstat(fd.get(), &st) != 0) return os_error("stat", path);
    if (made) {
        if (uid != uid_t(-1) && uid != st.st_uid && fchown(fd.get(), uid, gid) != 0)
            return os_error("chown", path);
        if (fchmod(fd.get(), mode) != 0) return os_error("chmod", path);
    } else if (uid != uid_t(-1) && st.st_uid != uid) {
        return Error{path + ": belongs to uid " + std::to_string(st.st_uid) + ", not " + std::to_string(uid)};
    }
    return Done{};
}

Status make_dirs(const std::string& path, mode_t mode) {
    for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
        std::string part = path.substr(0, slash);
        // Parents may be links that the administrator made; only the last one must be a real folder.
        if (slash == std::string::npos) return make_dir(path, mode);
        if (mkdir(part.c_str(), mode) != 0 && errno != EEXIST) return os_error("mkdir", part);
    }
}

namespace {
struct CloseDir {
    void operator()(DIR* d) const { closedir(d); }
};

// `number` counts what was moved.
bool move_up(int dir, const char* name, int top, uint64_t& number) {
    for (uint64_t n = number;; n++) {
        if (renameat2(dir, name, top, ("removed." + std::to_string(n)).c_str(), RENAME_NOREPLACE) == 0) {
            number = n + 1;
            return true;
        }
        if (errno != EEXIST) return errno == ENOENT;
    }
}

// One removal of a tree under way.
struct Removal {
    const std::function<void(uint64_t)>& freed;
    uint64_t number = 0;  // of the next folder that moves up

    bool unlink(int dir, const char* name) {
        struct stat st;
        uint64_t bytes = 0;
        if (freed && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_nlink == 1)
            bytes = static_cast<uint64_t>(st.st_blocks) * 512;
        if (unlinkat(dir, name, 0) != 0) return false;
        if (bytes) freed(bytes);
        return true;
    }
};

// Removes what `dir` holds but for folders in it that are not empty: these move into `top` under numbers, so
// that neither the stack nor the descriptors grow with the depth of a tree that a user made. Returns how many
// entries stay for good.
uint64_t empty_folder(int dir, int top, Removal& removal);

// A folder of the tree in `parent`. Takes what is in it apart; empty, it goes.
uint64_t remove_folder(int parent, const char* name, dev_t device, int top, Removal& removal) {
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
    Fd dir(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    // Its owner may have taken the rights from itself.
    if (!dir && errno == EACCES && fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        dir = Fd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat st;
    if (!dir) return errno == ENOENT ? 0 : 1;
    if (fstat(dir.get(), &st) != 0 || st.st_dev != device) return 1;
    if ((st.st_mode & 0700) != 0700) fchmod(dir.get(), 0700);
    uint64_t left = empty_folder(dir.get(), top < 0 ? dir.get() : top, removal);
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return left;
    return left + 1;
}

uint64_t empty_folder(int dir, int top, Removal& removal) {
    struct stat st;
    if (fstat(dir, &st) != 0) return 1;
    uint64_t left = 0;
    for (bool again = true; again;) {
        again = false;
        left = 0;
        int listed = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        std::unique_ptr<DIR, CloseDir> entries(listed < 0 ? nullptr : fdopendir(listed));
        if (!entries) {
            if (listed >= 0) close(listed);
            return 1;
        }
        while (dirent* e = readdir(entries.get())) {
            if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
            if (removal.unlink(dir, e->d_name) || errno == ENOENT) continue;
            if (errno != EISDIR && errno != EPERM) {
                left++;
                continue;
            }
            uint64_t before = removal.number;
            if (dir == top) {
                left += remove_folder(dir, e->d_name, st.st_dev, top, removal);
                again = again || removal.number != before;  // what moved up has to be seen
                continue;
            }
            if (unlinkat(dir, e->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT) continue;
            (void)fchmodat(dir, e->d_name, 0700, AT_SYMLINK_NOFOLLOW);  // moving it writes to it
            left += !move_up(dir, e->d_name, top, removal.number);
        }
    }
    return left;
}
}  // namespace

uint64_t remove_tree(const std::string& path, const std::function<void(uint64_t)>& freed) {
    struct stat st;
    if (lstat(path.c_str(), &st) != 0) return errno == ENOENT ? 0 : 1;
    if (!S_ISDIR(st.st_mode)) return unlink(path.c_str()) == 0 || errno == ENOENT ? 0 : 1;
    Removal removal{freed};
    return remove_folder(AT_FDCWD, path.c_str(), st.st_dev, -1, removal);
}

void set_io_idle(bool idle) {
    constexpr int no_class = 0, idle_class = 3 << 13, who_process = 1;  // IOPRIO_CLASS_*, IOPRIO_WHO_PROCESS
    syscall(SYS_ioprio_set, who_process, 0, idle ? idle_class : no_class);
}

bool lock_within(int fd, unsigned milliseconds) {
    uint64_t until = monotonic_ns() + uint64_t{milliseconds} * 1000000;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || monotonic_ns() > until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

int64_t mtime_ns(const struct stat& st) {
    return int64_t{st.st_mtim.tv_sec} * 1000000000 + st.st_mtim.tv_nsec;
}

std::string boot_id() {
    auto id = read_file("/proc/sys/kernel/random/boot_id", 100);
    if (!id) return "";
    return id->substr(0, id->find('\n'));
}

uint64_t process_start(pid_t pid) {
    if (pid <= 0) return 0;
    auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
    if (!stat) return 0;
    size_t close_paren = stat->rfind(')');
    if (close_paren == std::string::npos || close_paren + 2 >= stat->size()) return 0;
    if ((*stat)[close_paren + 2] == 'Z') return 0;
    size_t at = close_paren + 2;  // field 3
    for (int field = 3; field < 22; field++) {
        at = stat->find(' ', at);
        if (at == std::string::npos) return 0;
        at++;
    }
    return strtoull(stat->c_str() + at, nullptr, 10);
}

int64_t now_s() {
    return time(nullptr);
}

uint64_t monotonic_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

std::string program_dir() {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0 || n == sizeof path) return "";
    std::string_view whole(path, static_cast<size_t>(n));
    return std::string(whole.substr(0, whole.rfind('/')));
}

std::string find_program(const std::string& name) {
    for (const char* folder : {"/", "/../libexec/monarch/"}) {
        std::string path = program_dir() + folder + name;
        if (access(path.c_str(), F_OK) == 0) return path;
    }
    return std::string(MONARCH_LIBEXECDIR) + "/" + name;
}

void log_line(int level, std::string_view text) {
    openlog("monarch", LOG_PID, LOG_DAEMON);
    syslog(level, "%.*s", static_cast<int>(text.size()), text.data());
    std::string line = std::string(text) + "\n";
    (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace monarch
