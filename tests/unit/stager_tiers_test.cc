#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <string>

#include "stager/tiers.h"
#include "tests/unit/stager_test.h"

using namespace monarch;

// A tier that runs full is in tests/programs/run.bats, which can mount one.

namespace {

const Fetched some{5, 1234567890123456789, {11, 22, 0100640, 33, 44, 2}};

std::unique_ptr<TierStore> open_tier(const TestFolder& f) {
    auto tier = TierStore::open("t", f.path);
    REQUIRE(tier);
    return std::move(*tier);
}

Publish copy_of(TierStore& tier, const std::string& path, const std::string& bytes,
                const Fetched& source = some) {
    std::string temporary;
    Fd out = tier.create(temporary);
    REQUIRE(out);
    REQUIRE(write_all(out.get(), bytes));
    return tier.publish(out.get(), temporary, path, source);
}

bool empty(const std::string& folder) {
    return std::filesystem::is_empty(folder);
}

}  // namespace

TEST_CASE("tiers: a published copy has the source's bytes, mode, time and identity") {
    TestFolder f;
    auto tier = open_tier(f);
    if (tier->needs_ids()) REQUIRE(tier->make_ids(10));
    CHECK(copy_of(*tier, "a/b/c", "bytes") == Publish::done);
    CHECK(get(f / "files/a/b/c") == "bytes");
    struct stat st;
    REQUIRE(stat((f / "files/a/b/c").c_str(), &st) == 0);
    CHECK((st.st_mode & 07777) == 0640);
    CHECK(st.st_mtim.tv_sec == 1234567890);
    CHECK(st.st_mtim.tv_nsec == 123456789);
    if (!tier->needs_ids()) {
        monarch_source_id id{};
        REQUIRE(getxattr((f / "files/a/b/c").c_str(), MONARCH_XATTR, &id, sizeof id) == sizeof id);
        CHECK(memcmp(&id, &some.id, sizeof id) == 0);
    }
    CHECK(tier->holds("a/b/c", 5, some.mtime_ns));
    CHECK_FALSE(tier->holds("a/b/c", 6, some.mtime_ns));
    CHECK_FALSE(tier->holds("a/b/c", 5, some.mtime_ns + 1));
    CHECK_FALSE(tier->holds("a/b", 5, some.mtime_ns));
    CHECK(empty(f / "tmp"));
    tier->remove("a/b/c");
    CHECK_FALSE(tier->holds("a/b/c", 5, some.mtime_ns));
}

TEST_CASE("tiers: a mode without the owner's read, set-user-id bits and times before 1970") {
    TestFolder f;
    auto tier = open_tier(f);
    if (tier->needs_ids()) REQUIRE(tier->make_ids(10));
    Fetched odd = some;
    odd.id.mode = 0106004;
    odd.mtime_ns = -1500000000;
    CHECK(copy_of(*tier, "x", "12345", odd) == Publish::done);
    struct stat st;
    REQUIRE(stat((f / "files/x").c_str(), &st) == 0);
    CHECK((st.st_mode & 07777) == 0404);
    CHECK(st.st_mtim.tv_sec == -2);
    CHECK(st.st_mtim.tv_nsec == 500000000);
    CHECK(tier->holds("x", 5, odd.mtime_ns));
}

TEST_CASE("tiers: publishing never replaces a name") {
    TestFolder f;
    auto tier = open_tier(f);
    if (tier->needs_ids()) REQUIRE(tier->make_ids(10));
    CHECK(copy_of(*tier, "x", "first") == Publish::done);
    CHECK(copy_of(*tier, "x", "other") == Publish::taken);
    CHECK(get(f / "files/x") == "first");
    std::filesystem::create_symlink(MONARCH_RETIRED_TARGET, f / "files/retired");
    CHECK(copy_of(*tier, "retired", "bytes") == Publish::taken);
    CHECK(copy_of(*tier, "retired/below", "bytes") == Publish::taken);
    CHECK(copy_of(*tier, "x/below", "bytes") == Publish::taken);
    CHECK(std::filesystem::is_symlink(f / "files/retired"));
    std::filesystem::create_directory(f / "files/folder");
    CHECK(copy_of(*tier, "folder", "bytes") == Publish::taken);
    CHECK(empty(f / "tmp"));
}

TEST_CASE("tiers: a folder that the job renamed away and retired takes no more copies") {
    TestFolder f;
    auto tier = open_tier(f);
    if (tier->needs_ids()) REQUIRE(tier->make_ids(10));
    CHECK(copy_of(*tier, "d/e/1", "bytes") == Publish::done);
    REQUIRE(rename((f / "files/d").c_str(), (f / "tmp/retired-1").c_str()) == 0);
    CHECK(copy_of(*tier, "d/e/2", "bytes") == Publish::taken);
    std::filesystem::create_symlink(MONARCH_RETIRED_TARGET, f / "files/d");
    CHECK(copy_of(*tier, "d/e/3", "bytes") == Publish::taken);
    CHECK(copy_of(*tier, "d/new/4", "bytes") == Publish::taken);
    CHECK_FALSE(tier->holds("d/e/1", 5, some.mtime_ns));
}

TEST_CASE("tiers: what is being written has no name among the files, and is gone after a restart") {
    TestFolder f;
    {
        auto tier = open_tier(f);
        if (tier->needs_ids()) REQUIRE(tier->make_ids(10));
        CHECK(copy_of(*tier, "kept", "bytes") == Publish::done);
        std::string one, two;
        Fd a = tier->create(one), b = tier->create(two);
        REQUIRE(a);
        REQUIRE(b);
        CHECK(one != two);
        CHECK(write_all(a.get(), "half"));
        tier->discard(two);
        CHECK_FALSE(tier->holds(one, 4, 0));
    }
    CHECK_FALSE(empty(f / "tmp"));
    auto tier = open_tier(f);
    CHECK(empty(f / "tmp"));
    CHECK(tier->holds("kept", 5, some.mtime_ns));
}

TEST_CASE("tiers: links stand beside the copies, and one that is there stays") {
    TestFolder f;
    auto tier = open_tier(f);
    tier->link("target", "a/link");
    tier->link("other", "a/link");
    CHECK(std::filesystem::read_symlink(f / "files/a/link") == "target");
}

TEST_CASE("tiers: a link instead of a folder is refused") {
    TestFolder f, elsewhere;
    std::filesystem::create_directory_symlink(elsewhere.path, f / "files");
    CHECK_FALSE(TierStore::open("t", f.path));
    CHECK_FALSE(TierStore::open("t", f / "missing"));
    CHECK(empty(elsewhere.path));
}

TEST_CASE("tiers: the table of identities has room for every file that was said") {
    TestFolder f;
    auto tier = open_tier(f);
    REQUIRE(tier->make_ids(3));
    CHECK(std::filesystem::file_size(f / "ids") == TierStore::ids_bytes(3));
    CHECK(TierStore::ids_bytes(0) > sizeof(monarch_ids));
    for (uint64_t n : {0ull, 1ull, 7ull, 8ull, 1000ull, 10000000ull})
        CHECK(TierStore::ids_bytes(n) >= sizeof(monarch_ids) + 2 * n * sizeof(monarch_ids_entry));
}
