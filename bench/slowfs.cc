// slowfs: shows a directory through FUSE as a slow shared file system would: latency per request, an optional
// bandwidth cap, faults on demand, and a count of every request that reaches it. See bench/README.md.
#define FUSE_USE_VERSION 312

#include <dirent.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <getopt.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "slowfs_control.h"
#include "slowfs_stats.h"

namespace slowfs {
namespace {

using std::chrono::microseconds;
using Clock = Conditions::Clock;

struct Options {
    Control control;  // what holds where the control file says nothing
    uint64_t max_inflight = 0;
    uint64_t threads = 256;
    double attr_timeout_s = 5;
    bool foreground = false;
    std::string source, mountpoint, stats_file, control_file, pid_file;
};

Options options;
Stats stats;
Conditions conditions;
Gate gate;

// ---- Inodes ----

// A file that the kernel knows. Its O_PATH descriptor keeps it the same file when it is renamed or removed,
// and its number from being used again meanwhile.
struct Inode {
    int fd = -1;
    uint64_t lookups = 0;
    std::pair<dev_t, ino_t> key;
};

Inode root;
std::string root_path;  // as /proc names it
std::mutex inodes_mutex;
std::map<std::pair<dev_t, ino_t>, std::unique_ptr<Inode>> inodes;

Inode& inode_of(fuse_ino_t ino) {
    return ino == FUSE_ROOT_ID ? root : *reinterpret_cast<Inode*>(ino);
}
int fd_of(fuse_ino_t ino) {
    return inode_of(ino).fd;
}

// A name of the file that calls without an O_PATH variant accept; it also leads to removed files.
std::string proc_path(int fd) {
    return "/proc/self/fd/" + std::to_string(fd);
}

// The errno of a system call that returned `result`.
int status(int64_t result) {
    return result < 0 ? errno : 0;
}

int stat_fd(int fd, struct stat* attr) {
    return status(fstatat(fd, "", attr, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
}

// Takes the open `fd` over; returns the inode, one lookup richer.
Inode* remember(int fd, const struct stat& attr) {
    std::lock_guard lock(inodes_mutex);
    std::unique_ptr<Inode>& inode = inodes[{attr.st_dev, attr.st_ino}];
    if (inode) {
        close(fd);
    } else {
        inode.reset(new Inode{fd, 0, {attr.st_dev, attr.st_ino}});
    }
    inode->lookups++;
    return inode.get();
}

void forget(fuse_ino_t ino, uint64_t lookups) {
    if (ino == FUSE_ROOT_ID) return;
    Inode& inode = inode_of(ino);
    std::lock_guard lock(inodes_mutex);
    inode.lookups -= lookups;
    if (inode.lookups > 0) return;
    close(inode.fd);
    inodes.erase(std::pair(inode.key));
}

// Fills `entry` for a name; returns an errno.
int look_up(fuse_ino_t parent, const char* name, fuse_entry_param* entry) {
    *entry = {};
    entry->attr_timeout = entry->entry_timeout = options.attr_timeout_s;
    int fd = openat(fd_of(parent), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno;
    if (int error = stat_fd(fd, &entry->attr)) {
        close(fd);
        return error;
    }
    entry->ino = reinterpret_cast<fuse_ino_t>(remember(fd, entry->attr));
    return 0;
}

// ---- The way of a request ----

// The path below the source, for the globs of the control file.
std::string path_of(fuse_ino_t ino, const char* name) {
    char buffer[PATH_MAX];
    ssize_t length = readlink(proc_path(fd_of(ino)).c_str(), buffer, sizeof buffer);
    std::string path(buffer, std::max<ssize_t>(length, 0));
    path.erase(0, std::min(path.size(), root_path.size()));
    if (name) path += std::string("/") + name;
    return path.substr(path.starts_with('/'));
}

bool moves_data(Op op) {
    return op == Op::read || op == Op::write;
}

// Counts a request, applies the control file's faults, waits for a slot and for the latency. The slot is held
// until the request is answered; a request that hangs holds none.
class Request {
  public:
    Request(Op op, fuse_ino_t ino, const char* name) {
        stats.count(op);
        apply_faults(op, ino, name);
        gate.enter(options.max_inflight);
        stats.begin();
        auto latency = moves_data(op) ? control_->data_latency_us : control_->metadata_latency_us;
        if (latency > 0) conditions.sleep_until(Clock::now() + microseconds(latency));
    }
    ~Request() {
        stats.end();
        gate.leave(options.max_inflight);
    }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    int error() const { return error_; }
    bool shortened() const { return shortened_; }

    // Waits until `bytes` have passed the bandwidth cap.
    void pace(uint64_t bytes) const {
        if (control_->bandwidth_mbs == 0) return;
        conditions.sleep_until(conditions.book(bytes, control_->bandwidth_mbs));
    }

  private:
    void apply_faults(Op op, fuse_ino_t ino, const char* name) {
        for (;;) {
            control_ = conditions.now();
            if (control_->rules.empty()) return;
            const Rule* rule = control_->match(op, path_of(ino, name));
            if (!rule) return;
            shortened_ = rule->fault == Rule::Fault::shorten;
            error_ = rule->error;
            if (rule->fault != Rule::Fault::hang) return;
            if (conditions.wait_for_change(control_)) continue;
            error_ = EIO;
            return;
        }
    }

    std::shared_ptr<const Control> control_;
    int error_ = 0;
    bool shortened_ = false;
};

constexpr int kAnswered = -1;

// Lets a request pass, then has `work` do it. `work` returns an errno (0: done, nothing to tell), or
// kAnswered.
template <typename Work>
void serve(fuse_req_t req, Op op, fuse_ino_t ino, const char* name, Work work) {
    Request request(op, ino, name);
    int error = request.error();
    if (error == 0) error = work(request);
    if (error != kAnswered) fuse_reply_err(req, error);
}

int reply_entry(fuse_req_t req, fuse_ino_t parent, const char* name) {
    fuse_entry_param entry;
    if (int error = look_up(parent, name, &entry)) return error;
    // The kernel did not take the answer (its caller was killed): it will not send a forget either.
    if (fuse_reply_entry(req, &entry) != 0) forget(entry.ino, 1);
    return kAnswered;
}

int reply_attr(fuse_req_t req, fuse_ino_t ino) {
    struct stat attr;
    if (int error = stat_fd(fd_of(ino), &attr)) return error;
    fuse_reply_attr(req, &attr, options.attr_timeout_s);
    return kAnswered;
}

// What root creates for a caller is the caller's; in a set-group-ID directory the group is the directory's.
int give_to_caller(fuse_req_t req, fuse_ino_t parent, const char* name) {
    const fuse_ctx* caller = fuse_req_ctx(req);
    if (geteuid() != 0 || (caller->uid == 0 && caller->gid == 0)) return 0;
    struct stat directory;
    if (int error = stat_fd(fd_of(parent), &directory)) return error;
    gid_t gid = directory.st_mode & S_ISGID ? static_cast<gid_t>(-1) : caller->gid;
    return status(fchownat(fd_of(parent), name, caller->uid, gid, AT_SYMLINK_NOFOLLOW));
}

// Ends the making of a name: `error` is how it went.
int finish_new(fuse_req_t req, fuse_ino_t parent, const char* name, int error) {
    if (error == 0) error = give_to_caller(req, parent, name);
    return error ? error : reply_entry(req, parent, name);
}

// ---- Metadata ----

void on_init(void*, fuse_conn_info* connection) {
    connection->want |= connection->capable & FUSE_CAP_PARALLEL_DIROPS;
    // Readahead counts as background work, of which the kernel else lets 12 requests be in flight.
    connection->max_background = options.threads;
    connection->congestion_threshold = options.threads;
}

void on_lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
    serve(req, Op::lookup, parent, name, [&](Request&) { return reply_entry(req, parent, name); });
}

void on_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups) {
    forget(ino, lookups);
    fuse_reply_none(req);
}

void on_forget_multi(fuse_req_t req, size_t count, fuse_forget_data* forgets) {
    for (size_t i = 0; i < count; i++) forget(forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

void on_getattr(fuse_req_t req, fuse_ino_t ino, fuse_file_info*) {
    serve(req, Op::getattr, ino, nullptr, [&](Request&) { return reply_attr(req, ino); });
}

timespec time_to_set(int set, int given, int now, timespec value) {
    if (set & now) return {0, UTIME_NOW};
    if (set & given) return value;
    return {0, UTIME_OMIT};
}

int set_owner(int fd, const struct stat* attr, int set) {
    uid_t uid = set & FUSE_SET_ATTR_UID ? attr->st_uid : static_cast<uid_t>(-1);
    gid_t gid = set & FUSE_SET_ATTR_GID ? attr->st_gid : static_cast<gid_t>(-1);
    return status(fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
}

int set_times(int fd, const struct stat* attr, int set) {
    timespec times[2] = {time_to_set(set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, attr->st_atim),
                         time_to_set(set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, attr->st_mtim)};
    return status(utimensat(fd, "", times, AT_EMPTY_PATH));
}

int set_attributes(int fd, const struct stat* attr, int set, const fuse_file_info* file) {
    constexpr int kTimes =
        FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
    int error = 0;
    if (!error && set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) error = set_owner(fd, attr, set);
    // After the owner, whose change clears set-user-ID.
    if (!error && set & FUSE_SET_ATTR_MODE) error = status(chmod(proc_path(fd).c_str(), attr->st_mode));
    if (!error && set & FUSE_SET_ATTR_SIZE) {
        error = status(file ? ftruncate(file->fh, attr->st_size)
                            : truncate(proc_path(fd).c_str(), attr->st_size));
    }
    if (!error && set & kTimes) error = set_times(fd, attr, set);
    return error;
}

void on_setattr(fuse_req_t req, fuse_ino_t ino, struct stat* attr, int set, fuse_file_info* file) {
    serve(req, Op::other, ino, nullptr, [&](Request&) {
        int error = set_attributes(fd_of(ino), attr, set, file);
        return error ? error : reply_attr(req, ino);
    });
}

void on_readlink(fuse_req_t req, fuse_ino_t ino) {
    serve(req, Op::other, ino, nullptr, [&](Request&) {
        char target[PATH_MAX + 1];
        ssize_t length = readlinkat(fd_of(ino), "", target, PATH_MAX);
        if (length < 0) return errno;
        target[length] = 0;
        fuse_reply_readlink(req, target);
        return kAnswered;
    });
}

void on_mknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
    serve(req, Op::other, parent, name, [&](Request&) {
        return finish_new(req, parent, name, status(mknodat(fd_of(parent), name, mode, device)));
    });
}

void on_mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
    serve(req, Op::other, parent, name, [&](Request&) {
        return finish_new(req, parent, name, status(mkdirat(fd_of(parent), name, mode)));
    });
}

void on_symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
    serve(req, Op::other, parent, name, [&](Request&) {
        return finish_new(req, parent, name, status(symlinkat(target, fd_of(parent), name)));
    });
}

void on_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char* name) {
    serve(req, Op::other, parent, name, [&](Request&) {
        std::string from = proc_path(fd_of(ino));
        int error = status(linkat(AT_FDCWD, from.c_str(), fd_of(parent), name, AT_SYMLINK_FOLLOW));
        return error ? error : reply_entry(req, parent, name);
    });
}

void on_unlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
    serve(req, Op::other, parent, name, [&](Request&) { return status(unlinkat(fd_of(parent), name, 0)); });
}

void on_rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
    serve(req, Op::other, parent, name,
          [&](Request&) { return status(unlinkat(fd_of(parent), name, AT_REMOVEDIR)); });
}

void on_rename(fuse_req_t req, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
               const char* new_name, unsigned flags) {
    serve(req, Op::other, parent, name, [&](Request&) {
        return status(renameat2(fd_of(parent), name, fd_of(new_parent), new_name, flags));
    });
}

void on_statfs(fuse_req_t req, fuse_ino_t ino) {
    serve(req, Op::other, ino, nullptr, [&](Request&) {
        struct statvfs result;
        if (fstatvfs(fd_of(ino), &result) != 0) return errno;
        fuse_reply_statfs(req, &result);
        return kAnswered;
    });
}

// ---- Files ----

// The flags for the source: O_PATH descriptors are opened anew through a symlink in /proc; O_DIRECT is
// between the caller and the kernel, since our buffers are not aligned.
int source_flags(const fuse_file_info* file) {
    return (file->flags & ~(O_NOFOLLOW | O_DIRECT)) | O_CLOEXEC;
}

void on_open(fuse_req_t req, fuse_ino_t ino, fuse_file_info* file) {
    serve(req, Op::open, ino, nullptr, [&](Request&) {
        int fd = open(proc_path(fd_of(ino)).c_str(), source_flags(file) & ~(O_CREAT | O_EXCL));
        if (fd < 0) return errno;
        file->fh = fd;
        // keep_cache and direct_io stay 0: an open drops what the kernel kept of the file, yet mmap works.
        if (fuse_reply_open(req, file) != 0) close(fd);
        return kAnswered;
    });
}

// Opens a new file for the caller, or one that came to be since the kernel looked. Returns an errno.
int open_new(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* file) {
    int flags = source_flags(file);
    int fd = openat(fd_of(parent), name, flags | O_CREAT | O_EXCL, mode);
    bool made = fd >= 0;
    if (!made && errno == EEXIST && !(flags & O_EXCL)) {
        fd = openat(fd_of(parent), name, (flags & ~O_CREAT) | O_NOFOLLOW);
    }
    if (fd < 0) return errno;
    file->fh = fd;
    int error = made ? give_to_caller(req, parent, name) : 0;
    if (error) close(fd);
    return error;
}

void on_create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* file) {
    serve(req, Op::other, parent, name, [&](Request&) {
        if (int error = open_new(req, parent, name, mode, file)) return error;
        fuse_entry_param entry;
        if (int error = look_up(parent, name, &entry)) {
            close(file->fh);
            return error;
        }
        if (fuse_reply_create(req, &entry, file) != 0) {
            close(file->fh);
            forget(entry.ino, 1);
        }
        return kAnswered;
    });
}

void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* file) {
    serve(req, Op::read, ino, nullptr, [&](Request& request) {
        thread_local std::vector<char> buffer;
        if (buffer.size() < size) buffer.resize(size);
        ssize_t bytes = pread(file->fh, buffer.data(), size, offset);
        if (bytes < 0) return errno;
        if (request.shortened()) bytes /= 2;
        stats.bytes_read += bytes;
        request.pace(bytes);
        fuse_reply_buf(req, buffer.data(), bytes);
        return kAnswered;
    });
}

void on_write(fuse_req_t req, fuse_ino_t ino, const char* data, size_t size, off_t offset,
              fuse_file_info* file) {
    serve(req, Op::write, ino, nullptr, [&](Request& request) {
        ssize_t bytes = pwrite(file->fh, data, size, offset);
        if (bytes < 0) return errno;
        stats.bytes_written += bytes;
        request.pace(bytes);
        fuse_reply_write(req, bytes);
        return kAnswered;
    });
}

void on_release(fuse_req_t req, fuse_ino_t, fuse_file_info* file) {
    close(file->fh);  // nobody waits for it, so it is neither slow nor counted
    fuse_reply_err(req, 0);
}

void on_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, fuse_file_info* file) {
    serve(req, Op::other, ino, nullptr,
          [&](Request&) { return status(data_only ? fdatasync(file->fh) : fsync(file->fh)); });
}

void on_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                  fuse_file_info* file) {
    serve(req, Op::other, ino, nullptr,
          [&](Request&) { return status(fallocate(file->fh, mode, offset, length)); });
}

// ---- Directories ----

struct Directory {
    DIR* stream;
    off_t offset = 0;         // where the next entry lies
    dirent* entry = nullptr;  // read, but not yet given out
};

Directory& directory_of(const fuse_file_info* file) {
    return *reinterpret_cast<Directory*>(file->fh);
}

void on_opendir(fuse_req_t req, fuse_ino_t ino, fuse_file_info* file) {
    serve(req, Op::opendir, ino, nullptr, [&](Request&) {
        int fd = openat(fd_of(ino), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) return errno;
        DIR* stream = fdopendir(fd);
        if (!stream) {
            close(fd);
            return ENOMEM;
        }
        file->fh = reinterpret_cast<uint64_t>(new Directory{stream});
        fuse_reply_open(req, file);
        return kAnswered;
    });
}

void on_releasedir(fuse_req_t req, fuse_ino_t, fuse_file_info* file) {
    Directory* directory = &directory_of(file);
    closedir(directory->stream);
    delete directory;
    fuse_reply_err(req, 0);
}

// The next entry, which stays the next until it is taken; null at the end or with `error` set.
dirent* peek(Directory& directory, int& error) {
    if (!directory.entry) {
        errno = 0;
        directory.entry = readdir(directory.stream);
        error = directory.entry ? 0 : errno;
    }
    return directory.entry;
}

void take(Directory& directory) {
    directory.offset = directory.entry->d_off;
    directory.entry = nullptr;
}

void seek(Directory& directory, off_t offset) {
    if (directory.offset == offset) return;
    seekdir(directory.stream, offset);
    directory.offset = offset;
    directory.entry = nullptr;
}

// What readdir tells of an entry; with `plus` also what a lookup would. An entry that cannot be looked up (it
// just went, or no descriptor is left) is given without: the kernel asks again if it needs to know.
fuse_entry_param describe(fuse_ino_t parent, const dirent& entry, bool plus) {
    fuse_entry_param result{};
    std::string_view name = entry.d_name;
    if (plus && name != "." && name != ".." && look_up(parent, entry.d_name, &result) == 0) return result;
    result = {};
    result.attr.st_ino = entry.d_ino;
    result.attr.st_mode = DTTOIF(entry.d_type);
    return result;
}

size_t entry_size(fuse_req_t req, const char* name, bool plus) {
    return plus ? fuse_add_direntry_plus(req, nullptr, 0, name, nullptr, 0)
                : fuse_add_direntry(req, nullptr, 0, name, nullptr, 0);
}

int reply_entries(fuse_req_t req, fuse_ino_t ino, size_t size, Directory& directory, bool plus) {
    std::vector<char> buffer(size);
    size_t used = 0;
    int error = 0;
    while (dirent* entry = peek(directory, error)) {
        // Asked before the lookup, so that none has to be taken back.
        size_t needed = entry_size(req, entry->d_name, plus);
        if (needed > size - used) break;
        fuse_entry_param param = describe(ino, *entry, plus);
        char* at = buffer.data() + used;
        used += needed;
        plus ? fuse_add_direntry_plus(req, at, needed, entry->d_name, &param, entry->d_off)
             : fuse_add_direntry(req, at, needed, entry->d_name, &param.attr, entry->d_off);
        take(directory);
    }
    if (error && used == 0) return error;
    fuse_reply_buf(req, buffer.data(), used);
    return kAnswered;
}

void read_directory(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* file,
                    bool plus) {
    serve(req, Op::readdir, ino, nullptr, [&](Request&) {
        Directory& directory = directory_of(file);
        seek(directory, offset);
        return reply_entries(req, ino, size, directory, plus);
    });
}

void on_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* file) {
    read_directory(req, ino, size, offset, file, false);
}

void on_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* file) {
    read_directory(req, ino, size, offset, file, true);
}

void on_fsyncdir(fuse_req_t req, fuse_ino_t ino, int, fuse_file_info* file) {
    serve(req, Op::other, ino, nullptr,
          [&](Request&) { return status(fsync(dirfd(directory_of(file).stream))); });
}

// No flush: closing costs a network file system's reader nothing. No xattr, lock or copy_file_range: the
// kernel answers "not supported", keeps locks on this node, and copies by read and write.
fuse_lowlevel_ops operations() {
    fuse_lowlevel_ops ops{};
    ops.init = on_init;
    ops.lookup = on_lookup;
    ops.forget = on_forget;
    ops.forget_multi = on_forget_multi;
    ops.getattr = on_getattr;
    ops.setattr = on_setattr;
    ops.readlink = on_readlink;
    ops.mknod = on_mknod;
    ops.mkdir = on_mkdir;
    ops.symlink = on_symlink;
    ops.link = on_link;
    ops.unlink = on_unlink;
    ops.rmdir = on_rmdir;
    ops.rename = on_rename;
    ops.statfs = on_statfs;
    ops.open = on_open;
    ops.create = on_create;
    ops.read = on_read;
    ops.write = on_write;
    ops.release = on_release;
    ops.fsync = on_fsync;
    ops.fallocate = on_fallocate;
    ops.opendir = on_opendir;
    ops.readdir = on_readdir;
    ops.readdirplus = on_readdirplus;
    ops.releasedir = on_releasedir;
    ops.fsyncdir = on_fsyncdir;
    return ops;
}

// ---- Housekeeping: signals, stats file, control file ----

// Tells one state of the control file from another; all zero: there is none.
std::array<int64_t, 4> control_version() {
    struct stat attr;
    if (stat(options.control_file.c_str(), &attr) != 0) return {};
    return {static_cast<int64_t>(attr.st_ino), attr.st_size, attr.st_mtim.tv_sec, attr.st_mtim.tv_nsec};
}

// The state that was read last. Taken before reading: a change in between is seen the next time.
std::array<int64_t, 4> loaded_version{};

// Reads the control file and lets it hold. A file that is wrong changes nothing; no file means no rules.
// Returns the number of the wrong line, or 0.
int load_control() {
    loaded_version = control_version();
    std::ifstream file(options.control_file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    Control control = options.control;
    if (int line = parse_control(text, control)) {
        stats.control_errors++;
        fprintf(stderr, "slowfs: %s:%d: not understood: see bench/README.md\n", options.control_file.c_str(),
                line);
        return line;
    }
    conditions.set(std::move(control));
    stats.control_loads++;
    return 0;
}

sigset_t housekeeping_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&signals, signal);
    return signals;
}

bool write_stats() {
    return options.stats_file.empty() || stats.write(options.stats_file);
}

// One thread takes all signals; it looks at the control file and rewrites the stats every 100 ms.
class Housekeeper {
  public:
    Housekeeper(fuse_session* session, pthread_t main) : session_(session), main_(main) {
        thread_ = std::thread([this] { run(); });
    }
    ~Housekeeper() {
        over_ = true;
        thread_.join();
    }

  private:
    void run() {
        sigset_t signals = housekeeping_signals();
        timespec pause = {0, 100'000'000};
        while (!over_) {
            int signal = sigtimedwait(&signals, nullptr, &pause);
            if (signal == SIGTERM || signal == SIGINT) return end_session();
            check_control(signal == SIGHUP);
            write_stats();
        }
    }

    void check_control(bool asked) {
        if (options.control_file.empty()) return;
        if (asked || control_version() != loaded_version) load_control();
    }

    // Releases who hangs or sleeps, then wakes the main thread out of its wait: again and again, since a
    // signal that comes just before it waits is lost.
    void end_session() {
        conditions.end();
        fuse_session_exit(session_);
        while (!over_) {
            pthread_kill(main_, SIGUSR2);
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }

    fuse_session* session_;
    pthread_t main_;
    std::atomic<bool> over_ = false;
    std::thread thread_;
};

// ---- Start and end ----

// Every file that the kernel knows costs a descriptor.
void raise_descriptor_limit() {
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    uint64_t most = limit.rlim_max;
    std::ifstream("/proc/sys/fs/nr_open") >> most;
    rlimit wanted = {most, most};
    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int failed(const std::string& what) {
    fprintf(stderr, "slowfs: %s: %s\n", what.c_str(), strerror(errno));
    return 1;
}

// Opens the source and makes the mount point's path absolute. Returns the exit status.
int open_folders() {
    root.fd = open(options.source.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root.fd < 0) return failed(options.source);
    root_path = std::filesystem::read_symlink(proc_path(root.fd)).string();
    if (root_path == "/") root_path.clear();
    char* absolute = realpath(options.mountpoint.c_str(), nullptr);
    if (!absolute) return failed(options.mountpoint);
    options.mountpoint = absolute;
    free(absolute);
    return 0;
}

fuse_session* make_session() {
    std::string mount_options = "default_permissions,fsname=slowfs,subtype=slowfs";
    if (geteuid() == 0) mount_options += ",allow_other";
    fuse_args args = FUSE_ARGS_INIT(0, nullptr);
    for (const char* argument : {"slowfs", "-o", mount_options.c_str()}) fuse_opt_add_arg(&args, argument);
    fuse_lowlevel_ops ops = operations();
    fuse_session* session = fuse_session_new(&args, &ops, sizeof ops, nullptr);
    fuse_opt_free_args(&args);
    return session;
}

// Forks; the parent returns to the caller as soon as the child says that the mount works, or has failed.
class Daemon {
  public:
    void start() {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) _exit(1);
        pid_t child = fork();
        if (child < 0) _exit(1);
        if (child > 0) {
            close(ends[1]);
            wait_for_child(child, ends[0]);
        }
        close(ends[0]);
        ready_ = ends[1];
        setsid();
    }

    void ready() {
        if (ready_ < 0) return;
        if (chdir("/") != 0) return;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int fd : {0, 1, 2}) dup2(null, fd);
        close(null);
        if (::write(ready_, "", 1) != 1) return;
        close(ready_);
    }

  private:
    [[noreturn]] static void wait_for_child(pid_t child, int ready) {
        char byte;
        if (read(ready, &byte, 1) == 1) _exit(0);
        int status = 0;
        waitpid(child, &status, 0);
        _exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
    }

    int ready_ = -1;
};

bool write_pid_file() {
    if (options.pid_file.empty()) return true;
    std::ofstream file(options.pid_file);
    file << getpid() << std::endl;
    return file.good();
}

void remove_pid_file() {
    if (!options.pid_file.empty()) unlink(options.pid_file.c_str());
}

int loop(fuse_session* session) {
    fuse_loop_config* config = fuse_loop_cfg_create();
    fuse_loop_cfg_set_clone_fd(config, 1);
    fuse_loop_cfg_set_max_threads(config, options.threads);
    int result = fuse_session_loop_mt(session, config);
    fuse_loop_cfg_destroy(config);
    return result;
}

// Blocks the housekeeper's signals in every thread; SIGUSR2 only interrupts the main thread's wait.
void prepare_signals() {
    sigset_t signals = housekeeping_signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    struct sigaction interrupt {};
    interrupt.sa_handler = [](int) {};
    sigaction(SIGUSR2, &interrupt, nullptr);
    signal(SIGPIPE, SIG_IGN);
}

// Serves until the mount ends or a signal says so.
int run_session(fuse_session* session) {
    Housekeeper housekeeper(session, pthread_self());
    return loop(session);
}

int serve_mount(Daemon& daemon) {
    prctl(PR_SET_TIMERSLACK, 1);  // inherited by all threads: else each sleep is 50 us too long
    umask(0);                     // the caller's has been applied by the kernel
    prepare_signals();
    if (!write_stats()) return failed(options.stats_file);
    fuse_session* session = make_session();
    if (!session || fuse_session_mount(session, options.mountpoint.c_str()) != 0)
        return 1;  // libfuse said why
    if (!write_pid_file()) {
        fuse_session_unmount(session);
        return failed(options.pid_file);
    }
    daemon.ready();  // whoever comes now is answered as soon as the loop runs
    int result = run_session(session);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    write_stats();
    remove_pid_file();
    return result < 0 ? 1 : 0;
}

// ---- Command line ----

struct OptionRow {
    const char* name;
    const char* argument;  // null: takes none
    const char* help;
    std::function<bool(const char*)> set;  // false: the argument is wrong
};

std::function<bool(const char*)> number(uint64_t& target, uint64_t least = 0) {
    return [&target, least](const char* text) {
        std::optional<uint64_t> value = parse_number(text);
        target = value.value_or(0);
        return value && *value >= least;
    };
}

std::function<bool(const char*)> file(std::string& target) {
    // Absolute, since a daemon leaves its folder.
    return [&target](const char* text) {
        target = std::filesystem::absolute(text).string();
        return *text != 0;
    };
}

bool set_attr_timeout(const char* text) {
    char* end;
    options.attr_timeout_s = strtod(text, &end);
    return end != text && *end == 0 && options.attr_timeout_s >= 0;
}

void print_help();

const std::vector<OptionRow>& option_rows() {
    static const std::vector<OptionRow> rows = {
        {"metadata-latency-us", "N", "wait before each request but reads and writes (0)",
         number(options.control.metadata_latency_us)},
        {"data-latency-us", "N", "wait before each read and write request (0)",
         number(options.control.data_latency_us)},
        {"bandwidth-mbs", "N", "cap of all reads and writes together, in 10^6 bytes a second (no cap)",
         number(options.control.bandwidth_mbs)},
        {"max-inflight", "N", "serve at most N requests at a time (no cap)", number(options.max_inflight)},
        {"attr-timeout-s", "S", "how long the kernel trusts names and attributes (5)", set_attr_timeout},
        {"threads", "N", "requests that can wait at the same time (256)", number(options.threads, 1)},
        {"stats", "FILE", "counters as JSON, rewritten every 100 ms and on SIGUSR1",
         file(options.stats_file)},
        {"control", "FILE", "latency and faults, read when it changes and on SIGHUP",
         file(options.control_file)},
        {"pidfile", "FILE", "the process that serves the mount; removed when it ends",
         file(options.pid_file)},
        {"foreground", nullptr, "do not become a daemon",
         [](const char*) { return options.foreground = true; }},
        {"help", nullptr, "this text",
         [](const char*) {
             print_help();
             exit(0);
             return true;
         }},
    };
    return rows;
}

void print_help() {
    printf(
        "usage: slowfs [options] SOURCE MOUNTPOINT\n\n"
        "Shows the directory SOURCE at MOUNTPOINT as a slow shared file system would, for tests.\n"
        "Returns when the mount works; SIGTERM unmounts and ends it.\n\n");
    for (const OptionRow& row : option_rows()) {
        std::string name =
            "--" + std::string(row.name) + (row.argument ? std::string("=") + row.argument : "");
        printf("  %-26s %s\n", name.c_str(), row.help);
    }
}

bool wrong_call(const std::string& what) {
    fprintf(stderr, "slowfs: %s: try slowfs --help\n", what.c_str());
    return false;
}

bool parse_options(int argc, char** argv) {
    std::vector<option> table;
    for (const OptionRow& row : option_rows()) {
        table.push_back({row.name, row.argument ? required_argument : no_argument, nullptr, 0});
    }
    table.push_back({});
    for (int index = 0, got; (got = getopt_long(argc, argv, "", table.data(), &index)) != -1;) {
        if (got != 0) return wrong_call("wrong option");
        const OptionRow& row = option_rows()[index];
        if (!row.set(optarg)) return wrong_call(std::string("--") + row.name + ": wrong value " + optarg);
    }
    return true;
}

bool parse_folders(int argc, char** argv) {
    if (argc - optind != 2) return wrong_call("a source and a mount point are needed");
    options.source = argv[optind];
    options.mountpoint = argv[optind + 1];
    return true;
}

}  // namespace
}  // namespace slowfs

int main(int argc, char** argv) {
    using namespace slowfs;
    if (!parse_options(argc, argv) || !parse_folders(argc, argv)) return 2;
    // A daemon must not hold what its caller waits to be closed.
    if (!options.foreground) close_range(3, ~0U, 0);
    raise_descriptor_limit();
    if (int failure = open_folders()) return failure;
    conditions.set(options.control);
    if (!options.control_file.empty() && load_control() != 0) return 2;
    Daemon daemon;
    if (!options.foreground) daemon.start();
    return serve_mount(daemon);
}
