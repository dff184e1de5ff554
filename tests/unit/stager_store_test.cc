#include <sys/resource.h>

#include <csignal>
#include <string>

#include "stager/store.h"
#include "tests/unit/stager_test.h"

using namespace monarch;

namespace {

Manifest many(uint32_t count) {
    Manifest m;
    for (uint32_t n = 0; n < count; n++) m.add("f" + std::to_string(1000000 + n), n, n);
    m.sort();
    return m;
}

int64_t count(const std::string& path, const std::string& where) {
    auto db = Db::open(path, SQLITE_OPEN_READONLY, 1000);
    REQUIRE(db);
    Stmt get = db->prepare("SELECT count(*) FROM file " + where);
    REQUIRE(get.step());
    return get.integer(0);
}

}  // namespace

TEST_CASE("store: rows say what was set, whether before or after their flush") {
    TestFolder f;
    std::string path = f / "store.db";
    Manifest m;
    m.add(std::string("new\nline/\xff"), 5, -7);
    m.add("z", 6, 8);
    m.sort();
    auto db = StoreDb::create(path, {"ram", "nvme"});
    REQUIRE(db);
    db->set(0, FileState::staged, 1);
    db->use(&m);
    CHECK_FALSE(db->flushed());
    REQUIRE(db->flush());
    CHECK(db->flushed());
    CHECK(count(path, "") == 2);
    CHECK(count(path,
                "WHERE id = 0 AND state = 'staged' AND tier = 'nvme' AND path = x'6e65770a6c696e652fff' AND "
                "size = 5 AND mtime_ns = -7") == 1);
    CHECK(count(path, "WHERE id = 1 AND state = 'source' AND tier IS NULL") == 1);
    db->set(0, FileState::retired, 255);
    db->set(1, FileState::staged, 0);
    db->set(1, FileState::failed, 255);
    REQUIRE(db->flush());
    CHECK(count(path, "WHERE id = 0 AND state = 'retired' AND tier IS NULL") == 1);
    CHECK(count(path, "WHERE id = 1 AND state = 'failed'") == 1);
    CHECK(db->state(1) == FileState::failed);
    CHECK(db->state(99) == FileState::source);
    REQUIRE(db->flush());
}

TEST_CASE("store: a large manifest takes many flushes, with changes in between") {
    TestFolder f;
    std::string path = f / "store.db";
    Manifest m = many(70000);
    auto db = StoreDb::create(path, {"a"});
    REQUIRE(db);
    db->use(&m);
    unsigned flushes = 0;
    for (uint32_t id = 0; !db->flushed() || id < m.size(); flushes++) {
        for (uint32_t end = std::min(m.size(), id + 15000); id < end; id++) db->set(id, FileState::staged, 0);
        REQUIRE(db->flush());
    }
    CHECK(flushes > 3);
    CHECK(count(path, "WHERE state = 'staged' AND tier = 'a'") == 70000);
}

TEST_CASE("store: an old file is replaced, a link or folder in its place is refused") {
    TestFolder f;
    put(f / "store.db", "of a stager that was killed");
    put(f / "store.db-journal", "of a stager that was killed");
    REQUIRE(StoreDb::create(f / "store.db", {"a"}));
    CHECK(count(f / "store.db", "") == 0);
    std::filesystem::create_directory(f / "folder.db");
    CHECK_FALSE(StoreDb::create(f / "folder.db", {"a"}));
    CHECK_FALSE(StoreDb::create(f / "missing/store.db", {"a"}));
}

TEST_CASE("store: a disk that fails loses nothing that was queued") {
    TestFolder f;
    std::string path = f / "store.db";
    Manifest m = many(30000);
    auto db = StoreDb::create(path, {"a"});
    REQUIRE(db);
    db->use(&m);
    REQUIRE(db->flush());
    signal(SIGXFSZ, SIG_IGN);
    rlimit before, small;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = std::filesystem::file_size(path);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    for (uint32_t id = 0; id < 25000; id++) db->set(id, FileState::staged, 0);
    Status failed = db->flush();
    bool waiting = !db->flushed();
    Status again = db->flush();
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_FALSE(failed);
    CHECK_FALSE(again);
    CHECK(waiting);
    while (!db->flushed()) REQUIRE(db->flush());
    CHECK(count(path, "") == 30000);
    CHECK(count(path, "WHERE state = 'staged'") == 25000);
}
