// The stager's side of the tiers: a store's folders on each of them, publishing, and what lies there already.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/os.h"
#include "core/result.h"
#include "core/shm.h"
#include "stager/source/source.h"

namespace monarch {

enum class Publish {
    done,
    taken,   // the name is there already: retired by the job, or copied before
    full,    // no space or no inodes left: nothing more goes to this tier
    failed,  // anything else; errno tells
};

// One tier's part of one store. `data` belongs to the user: data/files holds complete copies only, data/tmp
// what is being written or was moved out of the way.
class TierStore {
  public:
    // Makes files/ and tmp/ and empties tmp/.
    static Result<std::unique_ptr<TierStore>> open(std::string name, const std::string& data);

    const std::string& name() const { return name_; }
    bool full() const { return full_; }
    void set_full() { full_ = true; }

    // A new file for a copy, or an empty Fd (errno). `temporary` is its name for publish() or discard().
    Fd create(std::string& temporary);
    void discard(const std::string& temporary);
    // Sets size, mode, mtime and identity on the written file and gives it its name, atomically, never
    // replacing one.
    Publish publish(int fd, const std::string& temporary, std::string_view path, const Fetched& source);
    // Makes a symbolic link beside the copies; one that is there stays.
    void link(const std::string& target, std::string_view path);

    // Whether the complete copy of `path` is there with this size and mtime.
    bool holds(std::string_view path, uint64_t size, int64_t mtime_ns) const;
    // Removes a copy (the stager's own eviction): unlink, never truncate.
    void remove(std::string_view path);

    // How many files can still be made on its file system; UINT64_MAX where nobody can tell or there is no
    // limit.
    uint64_t free_inodes() const;

    // Where the tier has no user attributes: makes the table for `files` copies, at data/ids.
    Status make_ids(uint64_t files);
    bool needs_ids() const { return !attributes_; }
    // How large that table is.
    static uint64_t ids_bytes(uint64_t files);

  private:
    TierStore() = default;
    bool make_parents(std::string_view path);
    bool identify(int fd, const monarch_source_id& id);

    std::string name_, data_;
    bool attributes_ = true;
    Fd files_, tmp_;
    std::atomic<bool> full_{false};
    std::atomic<uint64_t> next_{0};
    std::mutex mutex_;
    std::unordered_set<std::string> folders_;
    monarch_ids* ids_ = nullptr;
};

}  // namespace monarch
