// Who may use how much of one tier: a pure function of its capacity, what its trash still holds, and what the
// stores on it have, were promised and need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace monarch {

// A store gets no less of a tier: its state file and log may take half of it.
inline constexpr uint64_t smallest_share = 1 << 20;

// One store on the tier. All numbers are bytes.
struct Claim {
    int64_t store = 0;
    std::string job;               // whose `most` it counts against
    uint64_t bytes = 0;            // may be used now; <= share
    uint64_t share = 0;            // promised
    uint64_t most = 0;             // for all stores of its job together
    std::optional<uint64_t> need;  // what its plan takes here at most; unknown before it is listed
};

// Sets `bytes` and `share` of each claim anew, `claims` being in the order in which the stores were made:
// - A store whose need is known gives back what it does not need.
// - What nobody is promised goes to those that need more, evenly, up to their job's most.
// - `bytes` grows towards `share`, the oldest first, as far as capacity and trash (`trash` bytes) leave room.
// - What is stuck in the trash (`stuck` bytes of it) is promised to nobody: the newest shares are cut first.
// Afterwards the bytes and the trash are no more than the capacity, nor are the shares and what is stuck, if
// they were not before; no `bytes` has shrunk but to its need.
void settle(uint64_t capacity, uint64_t trash, uint64_t stuck, std::vector<Claim>& claims);

}  // namespace monarch
