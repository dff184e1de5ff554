#include <sys/stat.h>
#include <sys/wait.h>

#include <string>

#include "core/ledger.h"
#include "tests/unit/stager_test.h"

using namespace monarch;

namespace {

Ledger open_ledger(const TestFolder& f) {
    auto ledger = Ledger::open(f / "ledger.db");
    REQUIRE(ledger);
    return std::move(*ledger);
}

StoreRow store_of(int64_t uid, const std::string& source) {
    StoreRow row;
    row.uid = uid;
    row.gid = uid;
    row.name = "set";
    row.source = source;
    row.boot_id = "boot";
    row.created_at = 1;
    return row;
}

LeaseRow lease_of(const std::string& job, std::optional<int64_t> store) {
    LeaseRow row;
    row.job = job;
    row.store_id = store;
    row.outcome = "attached";
    row.boot_id = "boot";
    return row;
}

constexpr uint64_t capacity = 1000, each = 150;

// What attach does, in one process of its own: reserves when there is room. Exit status 0 reserved, 1 no
// room, 2 failed.
int reserve_in_child(const std::string& path, int n) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    auto ledger = Ledger::open(path, 60000);
    if (!ledger || !ledger->begin()) _exit(2);
    if (ledger->used("/tier") + each > capacity) _exit(1);
    auto id = ledger->add_store(store_of(1000, "/source/" + std::to_string(n)));
    if (!id || !ledger->reserve(*id, {0, "t", "/tier", false, each}) || !ledger->commit()) _exit(2);
    _exit(0);
}

}  // namespace

TEST_CASE("ledger: stores, reservations and leases come back as they were put") {
    TestFolder f;
    Ledger ledger = open_ledger(f);
    struct stat st;
    REQUIRE(stat((f / "ledger.db").c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0600);
    std::string source("/new\nline/\xff");
    auto id = ledger.add_store(store_of(7, source));
    REQUIRE(id);
    REQUIRE(ledger.reserve(*id, {1, "nvme", "/slow", false, 50}));
    REQUIRE(ledger.reserve(*id, {0, "ram", "/fast", true, 100}));
    REQUIRE(ledger.set_stager(*id, 123, 456));
    REQUIRE(ledger.set_config(*id, std::string("a=1\0b=2\0", 8)));
    auto found = ledger.find_store(7, source);
    REQUIRE(found);
    CHECK(found->id == *id);
    CHECK(found->source == source);
    CHECK(found->stager_pid == 123);
    CHECK(found->stager_start == 456);
    CHECK(found->config == std::string("a=1\0b=2\0", 8));
    REQUIRE(found->tiers.size() == 2);
    CHECK(found->tiers[0].tier == "ram");
    CHECK(found->tiers[0].tmpfs);
    CHECK(found->tiers[1].bytes == 50);
    CHECK_FALSE(ledger.find_store(8, source));
    CHECK_FALSE(ledger.find_store(7, "/new"));
    CHECK_FALSE(ledger.add_store(store_of(7, source)));  // one store a user and source
    CHECK(ledger.add_store(store_of(8, source)));
    auto lease = ledger.add_lease(lease_of("job", *id));
    REQUIRE(lease);
    REQUIRE(ledger.add_lease(lease_of("other", *id)));
    CHECK(ledger.live_leases().size() == 2);
    CHECK(ledger.live_leases_of_job("job").size() == 1);
    CHECK(ledger.live_leases_of_store(*id).size() == 2);
    Counters c{};
    for (size_t n = 0; n < counter_names.size(); n++) counter(c, n) = n + 1;
    REQUIRE(ledger.end_lease(*lease, "detached", c, "name"));
    REQUIRE(ledger.end_lease(*lease, "lost", Counters{}, ""));  // what has ended stays as it ended
    CHECK(ledger.live_leases_of_job("job").empty());
    auto rows = ledger.leases_of_job("job");
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].outcome == "detached");
    CHECK(rows[0].predictor == "name");
    for (size_t n = 0; n < counter_names.size(); n++) CHECK(counter(rows[0].counters, n) == n + 1);
    CHECK(ledger.all_leases().size() == 2);
}

TEST_CASE("ledger: a refused lease gives its store back and lives until the job ends") {
    TestFolder f;
    Ledger ledger = open_ledger(f);
    auto id = ledger.add_store(store_of(1, "/s"));
    auto lease = ledger.add_lease(lease_of("job", *id));
    REQUIRE(ledger.refuse_lease(*lease, "failed", "why"));
    CHECK(ledger.live_leases_of_store(*id).empty());
    auto live = ledger.live_leases_of_job("job");
    REQUIRE(live.size() == 1);
    CHECK_FALSE(live[0].store_id);
    CHECK(live[0].note == "why");
}

TEST_CASE("ledger: trash counts as used until it is gone, a store's space goes with it") {
    TestFolder f;
    Ledger ledger = open_ledger(f);
    CHECK(ledger.used("/tier") == 0);
    auto id = ledger.add_store(store_of(1, "/s"));
    REQUIRE(ledger.reserve(*id, {0, "t", "/tier", false, 100}));
    CHECK(ledger.used("/tier") == 100);
    REQUIRE(ledger.reserve(*id, {0, "t", "/tier", false, 70}));
    CHECK(ledger.used("/tier") == 70);
    CHECK(ledger.used("/other") == 0);
    REQUIRE(ledger.add_trash({"/tier/trash/1", "/tier", false, 70}));
    REQUIRE(ledger.remove_store(*id));
    CHECK(ledger.used("/tier") == 70);
    CHECK_FALSE(ledger.store(*id));
    REQUIRE(ledger.trash().size() == 1);
    REQUIRE(ledger.remove_trash("/tier/trash/1"));
    CHECK(ledger.used("/tier") == 0);
    // A number is never given again: what is left of the old one is not the new one's.
    auto next = ledger.add_store(store_of(1, "/s"));
    CHECK(*next > *id);
}

TEST_CASE("ledger: what is not committed did not happen") {
    TestFolder f;
    Ledger ledger = open_ledger(f);
    REQUIRE(ledger.begin());
    auto id = ledger.add_store(store_of(1, "/s"));
    REQUIRE(ledger.reserve(*id, {0, "t", "/tier", false, 100}));
    CHECK(ledger.used("/tier") == 100);
    ledger.rollback();
    CHECK(ledger.used("/tier") == 0);
    CHECK(ledger.stores().empty());
}

TEST_CASE("ledger: processes that reserve at once never take more than there is") {
    TestFolder f;
    std::vector<int> children;
    for (int n = 0; n < 12; n++) children.push_back(reserve_in_child(f / "ledger.db", n));
    int reserved = 0, no_room = 0;
    for (int pid : children) {
        int status = 0;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        REQUIRE(WIFEXITED(status));
        reserved += WEXITSTATUS(status) == 0;
        no_room += WEXITSTATUS(status) == 1;
    }
    CHECK(reserved == static_cast<int>(capacity / each));
    CHECK(no_room == 12 - reserved);
    CHECK(open_ledger(f).used("/tier") == capacity / each * each);
}

TEST_CASE("ledger: processes that make it at once all get it") {
    for (int round = 0; round < 20; round++) {
        TestFolder f;
        std::vector<int> children;
        for (int n = 0; n < 8; n++) {
            children.push_back(fork());
            if (children.back() != 0) continue;
            auto ledger = Ledger::open(f / "ledger.db", 60000);
            _exit(ledger && ledger->begin() && ledger->commit() ? 0 : 1);
        }
        for (int pid : children) {
            int status = 0;
            REQUIRE(waitpid(pid, &status, 0) == pid);
            CHECK(status == 0);
        }
    }
}

TEST_CASE("ledger: a process killed in a transaction leaves nothing of it") {
    TestFolder f;
    open_ledger(f);
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        auto ledger = Ledger::open(f / "ledger.db");
        bool good = ledger && ledger->begin() && ledger->add_store(store_of(1, "/s"));
        (void)!write(ends[1], good ? "1" : "0", 1);
        pause();
    }
    char good = 0;
    REQUIRE(read(ends[0], &good, 1) == 1);
    CHECK(good == '1');
    auto locked = Ledger::open(f / "ledger.db", 0);
    REQUIRE(locked);
    CHECK_FALSE(locked->begin());
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(ends[0]);
    close(ends[1]);
    CHECK(locked->begin());
    CHECK(locked->stores().empty());
    locked->rollback();
}

TEST_CASE("ledger: a newer schema, a damaged file, a link and a missing folder are refused in one line") {
    TestFolder f;
    { open_ledger(f); }
    {
        auto db = Db::open(f / "ledger.db", SQLITE_OPEN_READWRITE, 1000);
        REQUIRE(db);
        REQUIRE(db->exec("PRAGMA user_version = 99"));
    }
    auto newer = Ledger::open(f / "ledger.db");
    REQUIRE_FALSE(newer);
    CHECK(newer.error().find("newer than this program's") != std::string::npos);
    put(f / "damaged.db", std::string(8192, 'x'));
    auto damaged = Ledger::open(f / "damaged.db");
    REQUIRE_FALSE(damaged);
    CHECK(damaged.error().find("not a database") != std::string::npos);
    std::filesystem::create_symlink("ledger.db", f / "link.db");
    CHECK_FALSE(Ledger::open(f / "link.db"));
    CHECK_FALSE(Ledger::open(f / "missing/ledger.db"));
    for (const auto& e : {newer.error(), damaged.error()}) CHECK(e.find('\n') == std::string::npos);
}

TEST_CASE("ledger: a file with a damaged table counts as full, not as empty") {
    TestFolder f;
    Ledger ledger = open_ledger(f);
    auto db = Db::open(f / "ledger.db", SQLITE_OPEN_READWRITE, 1000);
    REQUIRE(db->exec("DROP TABLE trash"));
    CHECK(ledger.used("/tier") == UINT64_MAX);
    CHECK(ledger.promised("/tier") == UINT64_MAX);
    CHECK_FALSE(ledger.failed());
    CHECK(ledger.trash().empty());
    CHECK(ledger.failed());
}
