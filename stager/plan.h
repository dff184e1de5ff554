// The planner: a pure function of manifest, sequence, capacities and what is placed already.
#pragma once

#include <cstdint>
#include <vector>

#include "stager/manifest.h"

namespace monarch {

inline constexpr uint8_t no_tier = 255;

struct Placement {
    uint32_t file;
    uint8_t tier;
    uint64_t until =
        0;  // bytes of the tier that are taken once it is copied, with all that the plan put there before
};

// What there is on a tier for files and folders.
struct Room {
    uint64_t bytes = 0;
    uint64_t inodes = UINT64_MAX;
};

struct Plan {
    std::vector<Placement> copies;  // in the order of copying; what is placed already is not among them
    uint64_t files = 0;             // placed or to be copied
    uint64_t bytes = 0;             // their manifest sizes
};

// What a file of `bytes` takes on a tier: whole blocks of 4 KiB and its folder entry.
uint64_t space_of(uint64_t bytes);

// What the data set's symbolic links and their folders take on each tier, where all of them are made: bytes,
// and as many inodes.
Room links_space(const Manifest& manifest);

// What lies on each of `tiers` tiers whatever is staged: the links and, on the last, state file and log.
// Bytes.
std::vector<uint64_t> fixed_space(const Manifest& manifest, size_t tiers);

// What the files and folders take at most, on whichever of `tiers` tiers they are.
uint64_t files_space(const Manifest& manifest, size_t tiers);

// Takes files in the order of `sequence`, each to the fastest tier that has room, until one fits nowhere:
// what is staged is always a first part of the sequence. Only a file larger than every tier is passed over.
// `room`: of each tier, fastest first. `placed`: file id → tier it is on already or no_tier; empty = nothing
// is. A new folder costs one block and one inode on each tier that gets a file of it, a file one inode.
Plan make_plan(const Manifest& manifest, const std::vector<uint32_t>& sequence, std::vector<Room> room,
               const std::vector<uint8_t>& placed);

}  // namespace monarch
