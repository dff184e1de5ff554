// What a store's stager finds out before it copies: the data set's files, the order in which they will be
// read, what lies on the tiers already, and how much space it all needs.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/fields.h"
#include "stager/manifest.h"
#include "stager/order/order.h"
#include "stager/plan.h"
#include "stager/source/source.h"
#include "stager/tiers.h"

namespace monarch {

// The space that the node gave the store, from its grant (stager/node.h); each list a tier, fastest first.
struct Grant {
    std::vector<uint64_t> bytes;  // to be used now
    std::vector<uint64_t> share;  // what they grow to
    bool settled = false;         // the shares follow from what the plan needs
};
Result<Grant> parse_grant(const std::string& text);

struct Prepared {
    std::string canonical;
    struct stat root {};  // what `canonical` names
    Manifest manifest;
    Prediction prediction;
    std::vector<uint8_t> placed;  // file id → the tier where it is, or is being copied to
    std::vector<uint32_t> place;  // file id → its place in the sequence
    std::vector<std::pair<uint64_t, uint32_t>> by_hash;     // of files, sorted
    std::vector<std::pair<uint64_t, std::string>> folders;  // of folders, sorted by hash
    uint64_t need_bytes = 0;                                // files_space()
    std::vector<uint64_t> fixed;                            // on each tier in any case: links, state, tables
    std::vector<uint64_t> inodes;                           // on each tier for files and folders
    Plan plan;                                              // the first one
    std::vector<uint64_t> planned_on;                       // its shares
    std::string error;

    // What a grant leaves for files and folders on each tier.
    std::vector<Room> rooms(const Grant& grant) const;
    // The file of that hash, or the manifest's size.
    uint32_t file_of(uint64_t hash) const;
    // The files below the folder of that hash.
    std::vector<uint32_t> files_below(uint64_t hash) const;
};

// Fills `p` in; may take as long as the source likes. `canonical_known` is set as soon as `p.canonical` and
// `p.root` are. `say` gets warnings. Stops early, with nothing complete, when listing.stop is set.
void prepare(Prepared& p, Source& source, const Fields& config, const Grant& grant,
             std::vector<std::unique_ptr<TierStore>>& tiers, Listing& listing,
             std::atomic<bool>& canonical_known, const std::function<void(const std::string&)>& say);

// Whether the data set under `root` still is what was listed: its root's mtime, size and mtime of `samples`
// files evenly spread. Returns what is different, "" when nothing is.
std::string changed_since(const Prepared& p, unsigned samples);

}  // namespace monarch
