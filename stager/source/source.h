// Where a data set's bytes live. The engine sees files by their path relative to the root and never more of
// the source than this interface, so that a test can put a faulty one in its place.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/shm.h"
#include "stager/manifest.h"

namespace monarch {

// What a copy has to look like.
struct Fetched {
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    monarch_source_id id{};
};

// A listing under way: read by others while it runs.
struct Listing {
    std::atomic<uint64_t> files{0};
    std::atomic<uint64_t> unlisted{0};  // entries or folders that could not be looked at
    std::atomic<bool> stop{false};      // set by whoever wants it to end early
};

class Source {
  public:
    virtual ~Source() = default;
    // Opens the source; the root with every symbolic link resolved. Comes first. May block as long as the
    // source does.
    virtual Result<std::string> canonical() = 0;
    // Adds every regular file and every symbolic link to `manifest`, in no order. What cannot be looked at is
    // skipped and counted; an unreadable root is an error.
    virtual Status list(Manifest& manifest, Listing& listing) = 0;
    // Writes the whole file `path` to `out` (at offset 0, empty before) in blocks, calling `took(bytes)`
    // after each, which says whether to go on. An error for a file that cannot be read, is not a regular file
    // any more, or changed while it was read.
    virtual Result<Fetched> fetch(std::string_view path, int out,
                                  const std::function<bool(uint64_t)>& took) = 0;
};

// A directory. `threads` list it in parallel.
std::unique_ptr<Source> posix_source(std::string root, unsigned threads);

}  // namespace monarch
