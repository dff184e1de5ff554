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

Plan plan_of(const Manifest& m, const std::vector<uint32_t>& sequence, const std::vector<uint64_t>& bytes,
             const std::vector<uint8_t>& placed = {}) {
    std::vector<Room> room;
    for (uint64_t b : bytes) room.push_back({b});
    return make_plan(m, sequence, room, placed);
}

}  // namespace

TEST_CASE("plan: everything fits") {
    Manifest m = files(10, 5000);
    Plan p = plan_of(m, order_manifest(m), {1 << 20});
    CHECK(p.files == 10);
    CHECK(p.bytes == 50000);
    REQUIRE(p.copies.size() == 10);
    for (uint32_t n = 0; n < 10; n++) CHECK(p.copies[n].file == n);
}

TEST_CASE("plan: no files, no tiers, no room") {
    CHECK(plan_of(Manifest(), {}, {1 << 20}).copies.empty());
    Manifest m = files(3, 5000);
    CHECK(plan_of(m, order_manifest(m), {}).copies.empty());
    CHECK(plan_of(m, order_manifest(m), {0, 0}).copies.empty());
    CHECK(plan_of(m, order_manifest(m), {space_of(5000) - 1}).copies.empty());
    CHECK(plan_of(m, order_manifest(m), {space_of(5000)}).copies.size() == 1);
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
            Plan p = plan_of(m, sequence, {fast, slow});
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
    Plan p = plan_of(m, {0, 1, 2}, {1 << 20, 1 << 20});
    REQUIRE(p.copies.size() == 2);
    CHECK(p.copies[1].file == 2);
}

TEST_CASE("plan: what is placed takes its space and is not copied again") {
    Manifest m = files(4, 4000);
    Plan p =
        plan_of(m, order_manifest(m), {2 * space_of(4000), space_of(4000)}, {no_tier, no_tier, 0, no_tier});
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
    CHECK(plan_of(m, {0, 1}, {one - 1}).copies.empty());
    CHECK(plan_of(m, {0, 1}, {one}).copies.size() == 1);
    CHECK(plan_of(m, {0, 1}, {one + space_of(1)}).copies.size() == 2);
}

TEST_CASE("plan: sizes near 2^63 do not wrap") {
    Manifest m;
    m.add("a", (uint64_t{1} << 63) - 1, 0);
    m.add("b", 10, 0);
    Plan p = plan_of(m, {0, 1}, {1 << 20});
    REQUIRE(p.copies.size() == 1);
    CHECK(p.copies[0].file == 1);
}

TEST_CASE("plan: a million files within seconds") {
    Manifest m;
    for (unsigned n = 0; n < 1000000; n++)
        m.add("c" + std::to_string(n / 1000) + "/" + std::to_string(n), 100000, 0);
    m.sort();
    Plan p = plan_of(m, order_name(m), {uint64_t{1} << 36, uint64_t{1} << 40});
    CHECK(p.files == 1000000);
}

TEST_CASE("plan: no more files and folders than there are inodes") {
    Manifest m = files(10, 1, "a/b/");
    CHECK(make_plan(m, order_manifest(m), {{1 << 20, 2}}, {}).copies.empty());
    CHECK(make_plan(m, order_manifest(m), {{1 << 20, 3}}, {}).copies.size() == 1);
    CHECK(make_plan(m, order_manifest(m), {{1 << 20, 7}}, {}).copies.size() == 5);
    Plan p = make_plan(m, order_manifest(m), {{1 << 20, 7}, {1 << 20, 100}}, {});
    REQUIRE(p.copies.size() == 10);
    CHECK(p.copies[4].tier == 0);
    CHECK(p.copies[5].tier == 1);
}

TEST_CASE("plan: each copy says how much of its tier is taken then") {
    Manifest m = files(6, 5000, "a/");
    Plan p = plan_of(m, order_manifest(m), {4096 + 2 * space_of(5000), 1 << 20});
    REQUIRE(p.copies.size() == 6);
    CHECK(p.copies[0].until == 4096 + space_of(5000));
    CHECK(p.copies[1].until == 4096 + 2 * space_of(5000));
    CHECK(p.copies[2].until == 4096 + space_of(5000));
    CHECK(p.copies[5].until == taken(m, p, 2)[1]);
}

TEST_CASE("plan: symbolic links and their folders take space and inodes") {
    Manifest m;
    CHECK(links_space(m).bytes == 0);
    CHECK(links_space(m).inodes == 0);
    m.add_link("a/b/short", "x");
    m.add_link("a/long", std::string(60, 'x'));
    CHECK(links_space(m).bytes == 2 * 64 + 4096 + 2 * 4096);
    CHECK(links_space(m).inodes == 4);
}

TEST_CASE("plan: what the files take at most is enough however the tiers are cut") {
    Manifest m;
    unsigned state = 3;
    for (unsigned n = 0; n < 300; n++) {
        state = state * 1103515245 + 12345;
        m.add("c" + std::to_string(n % 5) + "/" + std::to_string(n), state / 65536 % 60000, 0);
    }
    m.sort();
    uint64_t all = files_space(m, 2);
    for (uint64_t fast = 0; fast <= all; fast += all / 37)
        CHECK(plan_of(m, order_name(m), {fast, all - fast}).files == m.size());
    CHECK(plan_of(m, order_name(m), {files_space(m, 1)}).files == m.size());
    m.add("huge", UINT64_MAX / 2, 0);
    CHECK(files_space(m, 2) >= UINT64_MAX / 4);
}
