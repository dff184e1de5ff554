#include <set>
#include <string>

#include "stager/order/order.h"
#include "stager/plan.h"
#include "tests/unit/stager_test.h"

using namespace monarch;

namespace {

Manifest files(unsigned count, uint64_t bytes, const std::string& folder = "") {
    Manifest m;
    for (unsigned n = 0; n < count; n++) m.add(folder + std::to_string(1000 + n), bytes, 0);
    m.sort();
    return m;
}

// What the plan's copies take on each tier, folders included, counted anew.
std::vector<uint64_t> taken(const Manifest& m, const Plan& plan, size_t tiers) {
    std::vector<uint64_t> sum(tiers);
    std::vector<std::set<std::string>> folders(tiers);
    for (const auto& c : plan.copies) {
        sum[c.tier] += space_of(m.bytes(c.file));
        std::string path(m.path(c.file));
        for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
            folders[c.tier].insert(path.substr(0, at));
    }
    for (size_t t = 0; t < tiers; t++) sum[t] += folders[t].size() * 4096;
    return sum;
}

}  // namespace

TEST_CASE("plan: everything fits") {
    Manifest m = files(10, 5000);
    Plan p = make_plan(m, order_manifest(m), {1 << 20}, {});
    CHECK(p.files == 10);
    CHECK(p.bytes == 50000);
    REQUIRE(p.copies.size() == 10);
    for (uint32_t n = 0; n < 10; n++) CHECK(p.copies[n].file == n);
}

TEST_CASE("plan: no files, no tiers, no room") {
    CHECK(make_plan(Manifest(), {}, {1 << 20}, {}).copies.empty());
    Manifest m = files(3, 5000);
    CHECK(make_plan(m, order_manifest(m), {}, {}).copies.empty());
    CHECK(make_plan(m, order_manifest(m), {0, 0}, {}).copies.empty());
    CHECK(make_plan(m, order_manifest(m), {space_of(5000) - 1}, {}).copies.empty());
    CHECK(make_plan(m, order_manifest(m), {space_of(5000)}, {}).copies.size() == 1);
}

TEST_CASE("plan: the first part of the sequence, fastest tier first, never more than there is") {
    Manifest m;
    unsigned state = 7;
    for (unsigned n = 0; n < 400; n++) {
        state = state * 1103515245 + 12345;
        m.add("c" + std::to_string(n % 7) + "/d" + std::to_string(n % 3) + "/" + std::to_string(n),
              state / 65536 % 40000, 0);
    }
    m.sort();
    auto sequence = order_name(m);
    for (uint64_t fast : {0ull, 100000ull, 1000000ull, 3000000ull}) {
        for (uint64_t slow : {0ull, 50000ull, 2000000ull, 20000000ull}) {
            Plan p = make_plan(m, sequence, {fast, slow}, {});
            auto sum = taken(m, p, 2);
            CHECK(sum[0] <= fast);
            CHECK(sum[1] <= slow);
            CHECK(p.files == p.copies.size());
            for (size_t n = 0; n < p.copies.size(); n++) CHECK(p.copies[n].file == sequence[n]);
            // What comes next fits nowhere.
            if (p.copies.size() < m.size()) {
                uint64_t next = space_of(m.bytes(sequence[p.copies.size()])) + 2 * 4096;
                CHECK(sum[0] + next > fast);
                CHECK(sum[1] + next > slow);
            }
        }
    }
}

TEST_CASE("plan: a file larger than every tier is passed over, others are not") {
    Manifest m;
    m.add("a", 5000, 0);
    m.add("b", 1 << 30, 0);
    m.add("c", 5000, 0);
    Plan p = make_plan(m, {0, 1, 2}, {1 << 20, 1 << 20}, {});
    REQUIRE(p.copies.size() == 2);
    CHECK(p.copies[1].file == 2);
}

TEST_CASE("plan: what is placed takes its space and is not copied again") {
    Manifest m = files(4, 4000);
    Plan p =
        make_plan(m, order_manifest(m), {2 * space_of(4000), space_of(4000)}, {no_tier, no_tier, 0, no_tier});
    CHECK(p.files == 3);
    CHECK(p.bytes == 12000);
    REQUIRE(p.copies.size() == 2);
    CHECK(p.copies[0].file == 0);
    CHECK(p.copies[0].tier == 0);
    CHECK(p.copies[1].file == 1);
    CHECK(p.copies[1].tier == 1);
}

TEST_CASE("plan: each new folder costs a block, once a tier") {
    Manifest m = files(2, 1, "a/b/");
    uint64_t one = space_of(1) + 2 * 4096;
    CHECK(make_plan(m, {0, 1}, {one - 1}, {}).copies.empty());
    CHECK(make_plan(m, {0, 1}, {one}, {}).copies.size() == 1);
    CHECK(make_plan(m, {0, 1}, {one + space_of(1)}, {}).copies.size() == 2);
}

TEST_CASE("plan: sizes near 2^63 do not wrap") {
    Manifest m;
    m.add("a", (uint64_t{1} << 63) - 1, 0);
    m.add("b", 10, 0);
    Plan p = make_plan(m, {0, 1}, {1 << 20}, {});
    REQUIRE(p.copies.size() == 1);
    CHECK(p.copies[0].file == 1);
}

TEST_CASE("plan: a million files within seconds") {
    Manifest m;
    for (unsigned n = 0; n < 1000000; n++)
        m.add("c" + std::to_string(n / 1000) + "/" + std::to_string(n), 100000, 0);
    m.sort();
    Plan p = make_plan(m, order_name(m), {uint64_t{1} << 36, uint64_t{1} << 40}, {});
    CHECK(p.files == 1000000);
}
