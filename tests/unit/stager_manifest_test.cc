#include <sys/stat.h>

#include <string>

#include "stager/manifest.h"
#include "stager/source/source.h"
#include "tests/unit/stager_test.h"

using namespace monarch;

TEST_CASE("manifest: ids follow the paths' bytes") {
    Manifest a, b;
    a.add("b/2", 2, 20);
    a.add("\xff", 3, 30);
    a.add_link("z", "b");
    b.add("a", 1, 10);
    b.add("b/1", 4, 40);
    b.add_link("y", "nowhere");
    a.append(b);
    a.sort();
    REQUIRE(a.size() == 4);
    const char* order[] = {"a", "b/1", "b/2", "\xff"};
    for (uint32_t id = 0; id < 4; id++) CHECK(a.path(id) == order[id]);
    CHECK(a.bytes(2) == 2);
    CHECK(a.mtime_ns(3) == 30);
    CHECK(a.total_bytes() == 10);
    REQUIRE(a.links().size() == 2);
    CHECK(a.links()[0].path == "y");
    CHECK(a.links()[0].target == "nowhere");
}

TEST_CASE("posix source: lists files and links of any name, nothing else, and follows no link") {
    TestFolder f;
    put(f / "set/a/1", "one");
    put(f / "set/new\nline/\xff\xfe", "x");
    put(f / "set/a/b/c/d/e/f", "deep");
    put(f / "outside/secret", "s");
    std::string longest(255, 'n');
    put(f / ("set/" + longest), "long");
    std::filesystem::create_symlink("../outside", f / "set/out");
    std::filesystem::create_symlink("loop", f / "set/loop");
    REQUIRE(mkfifo((f / "set/fifo").c_str(), 0600) == 0);
    for (unsigned threads : {1u, 8u}) {
        auto source = posix_source(f / "set", threads);
        auto canonical = source->canonical();
        REQUIRE(canonical);
        CHECK(*canonical == f / "set");
        Manifest m;
        Listing listing;
        REQUIRE(source->list(m, listing));
        m.sort();
        REQUIRE(m.size() == 4);
        CHECK(m.path(0) == "a/1");
        CHECK(m.path(1) == "a/b/c/d/e/f");
        CHECK(m.path(2) == "new\nline/\xff\xfe");
        CHECK(m.path(3) == longest);
        CHECK(listing.files == 4);
        CHECK(listing.unlisted == 0);
        CHECK(m.links().size() == 2);
    }
    auto missing = posix_source(f / "missing", 2)->canonical();
    REQUIRE_FALSE(missing);
    CHECK(missing.error().find("No such file") != std::string::npos);
}

TEST_CASE(
    "posix source: fetches the bytes and what the copy has to look like; refuses what is no file any more") {
    TestFolder f;
    std::string bytes(3000000, 'x');
    bytes[1500000] = 'y';
    put(f / "set/a", bytes);
    std::filesystem::create_symlink("a", f / "set/link");
    REQUIRE(mkfifo((f / "set/fifo").c_str(), 0600) == 0);
    auto source = posix_source(f / "set", 1);
    REQUIRE(source->canonical());
    Fd out(open((f / "copy").c_str(), O_RDWR | O_CREAT, 0600));
    uint64_t took = 0;
    auto fetched = source->fetch("a", out.get(), [&](uint64_t n) { return took += n, true; });
    REQUIRE(fetched);
    struct stat st;
    REQUIRE(stat((f / "set/a").c_str(), &st) == 0);
    CHECK(fetched->size == bytes.size());
    CHECK(took == bytes.size());
    CHECK(fetched->mtime_ns == st.st_mtim.tv_sec * int64_t{1000000000} + st.st_mtim.tv_nsec);
    CHECK(fetched->id.ino == st.st_ino);
    CHECK(fetched->id.dev == st.st_dev);
    CHECK(fetched->id.mode == st.st_mode);
    CHECK(get(f / "copy") == bytes);
    auto on = [](uint64_t) { return true; };
    CHECK_FALSE(source->fetch("link", out.get(), on));
    CHECK_FALSE(source->fetch("fifo", out.get(), on));
    CHECK_FALSE(source->fetch("missing", out.get(), on));
    CHECK_FALSE(source->fetch(".", out.get(), on));
    CHECK_FALSE(source->fetch("a", out.get(), [](uint64_t) { return false; }));
    // Changed in the middle, in each way.
    for (int way = 0; way < 3; way++) {
        put(f / "set/b", bytes);
        Fd copy(open((f / "copy2").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600));
        bool done = false;
        auto changed = source->fetch("b", copy.get(), [&](uint64_t) {
            if (std::exchange(done, true)) return true;
            if (way == 0) put(f / "set/b", "short");
            if (way == 1) CHECK(truncate((f / "set/b").c_str(), 4000000) == 0);
            if (way == 2) {
                Fd again(open((f / "set/b").c_str(), O_WRONLY));
                timespec times[2] = {{0, UTIME_NOW}, {12345, 0}};
                CHECK(pwrite(again.get(), "z", 1, 0) == 1);
                CHECK(futimens(again.get(), times) == 0);
            }
            return true;
        });
        REQUIRE_FALSE(changed);
        CHECK(changed.error() == "b: changed while it was copied");
    }
}
