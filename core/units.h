// Sizes, times and names as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace monarch {

// An amount of space: bytes, or a share of something (percent > 0, bytes unused).
struct Size {
    uint64_t bytes = 0;
    double percent = 0;
    // `whole` in bytes; a share is rounded down.
    uint64_t of(uint64_t whole) const;
};

// "500GiB", "1.5TB", "4096", "90%": powers of 1024 for KiB…PiB and for single letters (K, M, G, T, P, as
// Slurm's
// --mem), of 1000 for KB…PB. Errors: empty, negative, unknown unit, over 2^63, over 100 %.
Result<Size> parse_size(std::string_view text);
// "90s", "5m", "24h", "7d", "1h30m", "0"; a bare number counts seconds. Returns seconds.
Result<uint64_t> parse_duration(std::string_view text);
Result<uint64_t> parse_count(std::string_view text, uint64_t min, uint64_t max);

std::string format_bytes(uint64_t bytes);       // "1.5 GiB"
std::string format_duration(uint64_t seconds);  // "1h30m"

// Bytes as printable ASCII on one line: control and non-ASCII-UTF-8 bytes as \xNN, backslash doubled. Valid
// UTF-8 stays.
std::string printable(std::string_view bytes);
// The start of `bytes` for an error message: printable, in quotes, "..." where it was cut.
std::string brief(std::string_view bytes);

// Shell-style pattern over whole strings: * (not '/'), ** (anything), ?, [set].
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace monarch
