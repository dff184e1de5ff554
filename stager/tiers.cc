#include "stager/tiers.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace monarch {

namespace {
bool no_room(int error) {
    return error == ENOSPC || error == EDQUOT;
}

Fd open_folder(const std::string& path) {
    return Fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Whether files in `dir` take user attributes.
bool takes_attributes(int dir) {
    Fd probe(openat(dir, "attributes", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    monarch_source_id id{};
    bool takes = probe && fsetxattr(probe.get(), MONARCH_XATTR, &id, sizeof id, 0) == 0;
    unlinkat(dir, "attributes", 0);
    return takes;
}
}  // namespace

Result<std::unique_ptr<TierStore>> TierStore::open(std::string name, const std::string& data) {
    std::unique_ptr<TierStore> t(new TierStore);
    t->name_ = std::move(name);
    t->data_ = data;
    remove_tree(data + "/tmp");
    for (const char* folder : {"/tmp", "/files"})
        if (Status s = make_dir(data + folder, 0700); !s.ok()) return Error{s.error()};
    t->files_ = open_folder(data + "/files");
    t->tmp_ = open_folder(data + "/tmp");
    if (!t->files_ || !t->tmp_) return os_error("open tier folder", data);
    t->attributes_ = takes_attributes(t->tmp_.get());
    return t;
}

Fd TierStore::create(std::string& temporary) {
    temporary = std::to_string(next_++);
    return Fd(
        openat(tmp_.get(), temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
}

void TierStore::discard(const std::string& temporary) {
    unlinkat(tmp_.get(), temporary.c_str(), 0);
}

bool TierStore::identify(int fd, const monarch_source_id& id) {
    if (attributes_) return fsetxattr(fd, MONARCH_XATTR, &id, sizeof id, 0) == 0;
    struct stat st;
    if (!ids_ || fstat(fd, &st) != 0) return false;
    std::lock_guard lock(mutex_);
    for (uint64_t n = 0, at = st.st_ino % ids_->slots; n < ids_->slots; n++, at = (at + 1) % ids_->slots) {
        monarch_ids_entry& e = ids_->entry[at];
        if (e.ino != 0 && e.ino != st.st_ino) continue;
        e.id = id;
        __atomic_store_n(&e.ino, st.st_ino, __ATOMIC_RELEASE);
        return true;
    }
    errno = ENOSPC;
    return false;
}

bool TierStore::make_parents(std::string_view path) {
    size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return true;
    std::string folder(path.substr(0, slash));
    {
        std::lock_guard lock(mutex_);
        if (folders_.contains(folder)) return true;
    }
    for (size_t at = folder.find('/');; at = folder.find('/', at + 1)) {
        if (mkdirat(files_.get(), folder.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) return false;
        if (at == std::string::npos) break;
    }
    std::lock_guard lock(mutex_);
    folders_.insert(folder);
    return true;
}

Publish TierStore::publish(int fd, const std::string& temporary, std::string_view path,
                           const Fetched& source) {
    auto outcome = [&] {
        timespec times[2] = {{0, UTIME_OMIT}, {source.mtime_ns / 1000000000, source.mtime_ns % 1000000000}};
        if (times[1].tv_nsec < 0) times[1] = {times[1].tv_sec - 1, times[1].tv_nsec + 1000000000};
        std::string name(path);
        // The owner must be able to read what the source let the user read.
        if (!identify(fd, source.id) || fchmod(fd, (source.id.mode & 0777) | 0400) != 0 ||
            futimens(fd, times) != 0)
            return false;
        if (!make_parents(path)) return false;
        return renameat2(tmp_.get(), temporary.c_str(), files_.get(), name.c_str(), RENAME_NOREPLACE) == 0;
    }();
    if (outcome) return Publish::done;
    int error = errno;
    discard(temporary);
    errno = error;
    if (no_room(error)) return Publish::full;
    // A folder that the job renamed or removed is a dangling link now, or was moved away: its files are
    // retired.
    if (error == EEXIST || error == ENOENT || error == ENOTDIR || error == ELOOP) return Publish::taken;
    return Publish::failed;
}

void TierStore::link(const std::string& target, std::string_view path) {
    if (make_parents(path)) (void)!symlinkat(target.c_str(), files_.get(), std::string(path).c_str());
}

bool TierStore::holds(std::string_view path, uint64_t size, int64_t mtime_ns) const {
    struct stat st;
    if (fstatat(files_.get(), std::string(path).c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode))
        return false;
    return static_cast<uint64_t>(st.st_size) == size && monarch::mtime_ns(st) == mtime_ns;
}

void TierStore::remove(std::string_view path) {
    unlinkat(files_.get(), std::string(path).c_str(), 0);
}

uint64_t TierStore::free_inodes() const {
    struct statvfs fs;
    // Some file systems make inodes as they need them, and say 0 of 0.
    return fstatvfs(tmp_.get(), &fs) != 0 || fs.f_files == 0 ? UINT64_MAX : fs.f_favail;
}

namespace {
uint64_t ids_slots(uint64_t files) {
    return std::bit_ceil(files * 2 + 16);
}
}  // namespace

uint64_t TierStore::ids_bytes(uint64_t files) {
    return sizeof(monarch_ids) + ids_slots(files) * sizeof(monarch_ids_entry);
}

Status TierStore::make_ids(uint64_t files) {
    std::string path = data_ + "/ids";
    uint64_t slots = ids_slots(files);
    size_t bytes = ids_bytes(files);
    Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    // Allocated in full: a sparse map on a full disk would kill whoever touches it.
    if (!fd || posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)) != 0) return os_error("make", path);
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) return os_error("map", path);
    ids_ = static_cast<monarch_ids*>(at);
    ids_->slots = slots;
    __atomic_store_n(&ids_->magic, MONARCH_IDS_MAGIC, __ATOMIC_RELEASE);
    return Done{};
}

}  // namespace monarch
