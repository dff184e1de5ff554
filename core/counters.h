// The counters' names, the same in JSON, ledger columns, reports and metrics (core/shm.h gives their order).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/shm.h"

namespace monarch {

using Counters = monarch_counters;

inline constexpr std::array<const char*, 13> counter_names = {
    "files_total",  "bytes_total",  "files_planned",  "bytes_planned", "files_staged",
    "bytes_staged", "files_failed", "opens_local",    "opens_source",  "bytes_local",
    "bytes_source", "source_reads", "prediction_hits"};
static_assert(sizeof(Counters) == counter_names.size() * sizeof(uint64_t));

inline uint64_t& counter(Counters& c, size_t n) {
    return reinterpret_cast<uint64_t*>(&c)[n];
}
inline uint64_t counter(const Counters& c, size_t n) {
    return reinterpret_cast<const uint64_t*>(&c)[n];
}

}  // namespace monarch
