#include <random>

#include "doctest/doctest.h"
#include "stager/space.h"

using namespace monarch;

namespace {
constexpr uint64_t mib = 1 << 20;

Claim claim(const std::string& job, uint64_t bytes, uint64_t share, uint64_t most,
            std::optional<uint64_t> need = {}) {
    return {0,           job,        bytes * mib,
            share * mib, most * mib, need ? std::optional<uint64_t>(*need * mib) : std::nullopt};
}
}  // namespace

TEST_CASE("space: a share comes over as the trash is deleted") {
    std::vector<Claim> c = {claim("a", 0, 100, 100)};
    for (uint64_t trash : {100, 70, 70, 1, 0}) {
        settle(100 * mib, trash * mib, 0, c);
        CHECK(c[0].bytes == (100 - trash) * mib);
        CHECK(c[0].share == 100 * mib);
    }
    std::vector<Claim> two = {claim("a", 0, 50, 50), claim("b", 0, 50, 50)};
    settle(100 * mib, 30 * mib, 0, two);
    CHECK(two[0].bytes == 50 * mib);  // who came first
    CHECK(two[1].bytes == 20 * mib);
}

TEST_CASE("space: what a plan does not need is given back, and is no more promised") {
    std::vector<Claim> c = {claim("a", 100, 100, 100, 3)};
    settle(100 * mib, 0, 0, c);
    CHECK(c[0].bytes == 3 * mib);
    CHECK(c[0].share == 3 * mib);
}

TEST_CASE("space: two data sets of one job share by need once their sizes are known") {
    std::vector<Claim> c = {claim("a", 50, 50, 100), claim("a", 50, 50, 100, 90)};
    settle(200 * mib, 0, 0, c);
    CHECK(c[1].share == 50 * mib);  // the other may need its half
    c[0].need = 20 * mib;
    settle(200 * mib, 0, 0, c);
    CHECK(c[0].bytes == 20 * mib);
    CHECK(c[1].bytes == 80 * mib);
    c = {claim("a", 50, 50, 100, 300), claim("a", 50, 50, 100, 90)};
    settle(200 * mib, 0, 0, c);
    CHECK(c[0].bytes == 50 * mib);
    CHECK(c[1].bytes == 50 * mib);
    // Three, of which the smallest gives to both others.
    c = {claim("a", 30, 30, 90, 10), claim("a", 30, 30, 90, 35), claim("a", 30, 30, 90, 200)};
    settle(90 * mib, 0, 0, c);
    CHECK(c[0].bytes == 10 * mib);
    CHECK(c[1].bytes == 35 * mib);
    CHECK(c[2].bytes == 45 * mib);
}

TEST_CASE("space: a job that found the tier taken gets more when others give it back, never past its most") {
    std::vector<Claim> c = {claim("a", 90, 90, 100, 10), claim("b", 10, 10, 60, 500)};
    settle(100 * mib, 0, 0, c);
    CHECK(c[0].bytes == 10 * mib);
    CHECK(c[1].bytes == 60 * mib);
}

TEST_CASE("space: what cannot be deleted is promised to nobody") {
    std::vector<Claim> c = {claim("a", 40, 40, 40), claim("b", 0, 60, 60)};
    settle(100 * mib, 50 * mib, 50 * mib, c);
    CHECK(c[0].share == 40 * mib);
    CHECK(c[1].share == 10 * mib);
    CHECK(c[1].bytes == 10 * mib);
}

TEST_CASE("space: whatever comes and goes, bytes and trash never pass the capacity, nor do the shares") {
    std::mt19937_64 random(1);
    auto some = [&](uint64_t most) { return random() % (most + 1); };
    for (int round = 0; round < 2000; round++) {
        const uint64_t capacity = some(1000) * 1024;
        uint64_t trash = 0, stuck = 0;
        std::vector<Claim> c;
        for (int step = 0; step < 30; step++) {
            uint64_t shares = stuck;
            for (const auto& one : c) shares += one.share;
            if (some(2) == 0) {
                uint64_t share = some(capacity - std::min(capacity, shares));
                c.push_back({step, std::to_string(some(2)), 0, share, share + some(capacity), {}});
            } else if (!c.empty() && some(2) == 0) {
                auto gone = c.begin() + static_cast<long>(some(c.size() - 1));
                trash += gone->bytes;
                c.erase(gone);
            } else if (!c.empty()) {
                Claim& one = c[some(c.size() - 1)];
                if (!one.need) one.need = some(capacity);
            }
            trash -= some(trash - stuck);
            if (some(20) == 0) stuck = trash;
            auto before = c;
            settle(capacity, trash, stuck, c);
            uint64_t bytes = trash;
            shares = stuck;
            for (size_t n = 0; n < c.size(); n++) {
                bytes += c[n].bytes;
                shares += c[n].share;
                REQUIRE(c[n].bytes <= c[n].share);
                REQUIRE(c[n].bytes >= std::min(before[n].bytes, c[n].need.value_or(UINT64_MAX)));
                if (c[n].share > before[n].share) REQUIRE(c[n].share <= *c[n].need);
            }
            REQUIRE(bytes <= capacity);
            REQUIRE(shares <= std::max(capacity, bytes));
        }
    }
}
