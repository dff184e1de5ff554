#include "core/tier.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/layout.h"
#include "core/os.h"

namespace monarch {
namespace {

constexpr mode_t folder_mode = 0711;
constexpr const char* init_advice = ": run `monarchctl tier init` on this node as root";

bool inside(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
}

// `path` with its links resolved; `path` itself when that fails.
std::string resolved(const std::string& path) {
    std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), free);
    return real ? real.get() : path;
}

std::string parent_of(const std::string& path) {
    size_t slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

// Private in many jobs and swept by systemd.
std::string check_place(const std::string& path) {
    for (const char* folder : {"/tmp", "/var/tmp", "/dev/shm"})
        if (inside(path, folder) || inside(resolved(path), folder))
            return "it lies in " + std::string(folder) +
                   ", which jobs may see as their own: use another folder";
    return "";
}

// Root's, and nobody else can add or rename entries (where the sticky bit is set: entries of root).
bool only_root_writes(const struct stat& st, bool sticky_is_enough) {
    bool others_write = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    return st.st_uid == 0 && (!others_write || (sticky_is_enough && (st.st_mode & S_ISVTX)));
}

std::string check_parents(const std::string& path) {
    std::string folder = resolved(parent_of(path));
    for (;; folder = parent_of(folder)) {
        struct stat st {};
        if (stat(folder.c_str(), &st) != 0)
            return printable(folder) + ": " + strerror(errno) + ": mount the disk or make the folder first";
        if (!only_root_writes(st, true))
            return "others than root can write to " + printable(folder) + ": make it root's, mode 0755";
        if (folder == "/") return "";
    }
}

std::string check_file_system(const struct stat& st, bool on_root) {
    struct stat root {};
    if (on_root || stat("/", &root) != 0 || root.st_dev != st.st_dev) return "";
    return "it is on the root file system: mount a disk there, or set on_root = true";
}

// What is wrong with `name` in `dir` as a folder of Monarch; errno tells about a missing one.
std::string check_folder(int dir, const std::string& name, struct stat& st) {
    Fd fd(openat(dir, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd && errno == ENOENT) return "missing";
    if (!fd && (errno == ENOTDIR || errno == ELOOP)) return "it is a link or no folder: use a real folder";
    if (!fd || fstat(fd.get(), &st) != 0) return std::string(strerror(errno)) + ": see to its rights";
    if (!only_root_writes(st, false)) return "others than root can write to it: make it root's, mode 0711";
    return "";
}

std::string check_marker(int dir) {
    Fd fd(openat(dir, tier_marker, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat st {};
    if (!fd && errno == ENOENT) return std::string("no marker") + init_advice;
    if (!fd || fstat(fd.get(), &st) != 0)
        return std::string(tier_marker) + ": " + strerror(errno) + ": remove it" + init_advice;
    if (S_ISREG(st.st_mode) && only_root_writes(st, false)) return "";
    return std::string(tier_marker) + " is not root's own file: remove it and" + (init_advice + 1);
}

uint64_t physical_memory() {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

// Why the disk tier's folder cannot be used; "" and `capacity` when it can.
std::string inspect_disk(const TierConfig& tier, const std::string& path, uint64_t& capacity) {
    std::string why = check_place(path);
    if (!why.empty()) return why;
    struct stat st {};
    why = check_folder(AT_FDCWD, path, st);
    if (why == "missing") return why + init_advice;
    if (why.empty()) why = check_parents(path);
    if (why.empty()) why = check_file_system(st, tier.on_root);
    if (!why.empty()) return why;
    Fd dir(open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    why = check_marker(dir.get());
    struct statvfs fs {};
    if (why.empty() && fstatvfs(dir.get(), &fs) != 0)
        why = std::string(strerror(errno)) + ": see to the disk";
    if (!why.empty()) return why;
    uint64_t whole = static_cast<uint64_t>(fs.f_blocks) * fs.f_frsize;
    capacity = std::min(tier.capacity.of(whole), whole);
    return "";
}

// Makes the folder `name` in `dir`, or checks the one there; `path` is for messages.
Status make_folder(int dir, const std::string& name, const std::string& path,
                   std::vector<std::string>& done) {
    struct stat st {};
    std::string why = check_folder(dir, name, st);
    if (why == "missing") {
        if (mkdirat(dir, name.c_str(), 0700) != 0)
            return Error{printable(path) + ": " + strerror(errno) + ": see to the disk"};
        done.push_back("made " + printable(path));
        st.st_mode = 0;
    } else if (!why.empty()) {
        return Error{printable(path) + ": " + why};
    }
    // Users pass through to their own stores.
    if ((st.st_mode & 0111) == 0111) return Done{};
    if (fchmodat(dir, name.c_str(), folder_mode, 0) != 0)
        return Error{printable(path) + ": " + strerror(errno) + ": set its mode to 0711"};
    if (st.st_mode != 0) done.push_back("set the mode of " + printable(path) + " to 0711");
    return Done{};
}

Status make_marker(int dir, const std::string& path, std::vector<std::string>& done) {
    Fd fd(openat(dir, tier_marker, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!fd && errno == EEXIST) {
        std::string why = check_marker(dir);
        return why.empty() ? Status(Done{}) : Error{printable(path) + ": " + why};
    }
    constexpr std::string_view text =
        "This folder is a tier of Monarch (monarchctl tier init). Without this file it is not used.\n";
    if (!fd || !write_all(fd.get(), text) || fchmod(fd.get(), 0644) != 0 || fsync(fd.get()) != 0)
        return Error{printable(path) + "/" + tier_marker + ": " + strerror(errno) + ": see to the disk"};
    done.push_back("made " + printable(path) + "/" + tier_marker);
    return Done{};
}

// Whether a folder may become a tier; a missing one would be on its parent's file system.
std::string check_before_init(const TierConfig& tier, const std::string& path) {
    std::string why = check_place(path);
    if (why.empty()) why = check_parents(path);
    if (!why.empty()) return why;
    struct stat st {};
    why = check_folder(AT_FDCWD, path, st);
    if (why == "missing" && stat(parent_of(path).c_str(), &st) == 0) why.clear();
    return why.empty() ? check_file_system(st, tier.on_root) : why;
}

}  // namespace

TierState inspect_tier(const TierConfig& tier, const Config& config) {
    TierState state;
    state.path = tier_path(tier, config);
    if (tier.tmpfs)
        state.capacity_bytes = tier.capacity.of(physical_memory());
    else
        state.why = inspect_disk(tier, state.path, state.capacity_bytes);
    state.ready = state.why.empty();
    return state;
}

std::string overlap(const std::string& source, const std::string& name, const std::string& path) {
    std::string tier = "tier " + name + " (" + printable(path) + ")";
    for (const std::string& folder : {path, resolved(path)}) {
        if (inside(folder, source))
            return tier + " lies in the data set " + printable(source) + ": use another folder for the tier";
        if (inside(source, folder))
            return "the data set " + printable(source) + " lies in " + tier +
                   ": keep data sets outside the tiers";
    }
    return "";
}

Result<std::vector<std::string>> init_tier(const TierConfig& tier, const Config& config) {
    std::vector<std::string> done;
    if (tier.tmpfs) return done;
    if (geteuid() != 0) return Error{"only root can make a tier: run it as root"};
    std::string path = tier_path(tier, config);
    std::string why = check_before_init(tier, path);
    if (!why.empty()) return Error{printable(path) + ": " + why};
    Fd parent(open(parent_of(path).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    std::string name = path.substr(path.rfind('/') + 1);
    if (Status made = make_folder(parent.get(), name, path, done); !made) return Error{made.error()};
    Fd dir(openat(parent.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    for (const std::string& folder : {tier_stores(path), tier_trash(path)}) {
        Status made = make_folder(dir.get(), folder.substr(folder.rfind('/') + 1), folder, done);
        if (!made) return Error{made.error()};
    }
    Status marked = make_marker(dir.get(), path, done);
    return marked ? Result<std::vector<std::string>>(done) : Error{marked.error()};
}

}  // namespace monarch
