#include "stager/space.h"

#include <algorithm>
#include <map>

namespace monarch {

namespace {

constexpr uint64_t block = 4096;

uint64_t minus(uint64_t a, uint64_t b) {
    return a - std::min(a, b);
}

uint64_t shares_of(const std::vector<Claim>& claims) {
    uint64_t sum = 0;
    for (const auto& c : claims) sum += c.share;
    return sum;
}

void give_back(std::vector<Claim>& claims) {
    for (auto& c : claims) {
        if (!c.need) continue;
        c.share = std::min(c.share, *c.need);
        c.bytes = std::min(c.bytes, c.share);
    }
}

void cut(uint64_t capacity, std::vector<Claim>& claims) {
    uint64_t over = minus(shares_of(claims), capacity);
    for (auto c = claims.rbegin(); c != claims.rend() && over > 0; ++c) {
        uint64_t less = std::min(over, c->share - c->bytes);
        c->share -= less;
        over -= less;
    }
}

// Evenly: each round gives every store that needs more the same part of what is there.
void hand_out(uint64_t capacity, std::vector<Claim>& claims) {
    for (;;) {
        uint64_t spare = minus(capacity, shares_of(claims));
        std::map<std::string, uint64_t> promised;
        for (const auto& c : claims) promised[c.job] += c.share;
        std::map<std::string, uint64_t> wanting;  // job → its stores that can have more
        uint64_t all = 0;
        auto wants = [&](const Claim& c) { return minus(minus(c.need.value_or(0), c.share), block - 1) > 0; };
        for (const auto& c : claims)
            if (wants(c)) wanting[c.job]++, all++;
        uint64_t given = 0;
        for (auto& c : claims) {
            if (!wants(c)) continue;
            uint64_t part = std::min({spare / all, minus(c.most, promised[c.job]) / wanting[c.job],
                                      minus(c.need.value_or(0), c.share)});
            part = part / block * block;
            c.share += part;
            given += part;
        }
        if (given == 0) return;
    }
}

}  // namespace

void settle(uint64_t capacity, uint64_t trash, uint64_t stuck, std::vector<Claim>& claims) {
    give_back(claims);
    cut(minus(capacity, stuck), claims);
    hand_out(minus(capacity, stuck), claims);
    uint64_t room = minus(capacity, trash);
    for (const auto& c : claims) room = minus(room, c.bytes);
    for (auto& c : claims) {
        uint64_t more = std::min(c.share - c.bytes, room);
        if (more < c.share - c.bytes) more = more / block * block;
        c.bytes += more;
        room -= more;
    }
}

}  // namespace monarch
