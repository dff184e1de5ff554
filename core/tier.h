// The folders of the tiers on this node: whether they may be used, and making them usable. A tier's folder
// belongs to root, lies outside the folders that anybody may write to, and holds a marker, so that a disk
// that failed to mount is noticed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config.h"
#include "core/result.h"

namespace monarch {

inline constexpr const char* tier_marker = ".monarch-tier";

struct TierState {
    std::string path;
    bool ready = false;
    std::string why;  // not ready: "what is wrong: what to do"
    uint64_t capacity_bytes =
        0;  // the most that the configuration and the file system allow; 0 when not ready
};

// Looks at the tier without changing anything; needs no right but to pass through its parents. A tmpfs tier
// is always ready (attach mounts it), its capacity is its size, a share being one of the physical memory.
TierState inspect_tier(const TierConfig& tier, const Config& config);

// Why `source` cannot be staged when the tier `name` is in the folder `path`: one lies in the other, as they
// are named or, the tier's links resolved, as it lies. "" when neither does.
std::string overlap(const std::string& source, const std::string& name, const std::string& path);

// Makes what is missing of a disk tier (root alone): its folder (its parent must exist), `stores`, `trash`
// and last the marker. Returns one line for each thing done, none when it was ready. A tmpfs tier needs
// nothing.
Result<std::vector<std::string>> init_tier(const TierConfig& tier, const Config& config);

}  // namespace monarch
