#include <sys/mman.h>

#include <string>
#include <vector>

#include "stager/session.h"
#include "tests/unit/stager_test.h"

using namespace monarch;

namespace {

// A session's folder as attach makes it, and the writer's side of its page and ring.
struct TestSession {
    TestFolder folder;
    monarch_page* page;
    monarch_ring* ring;
    std::unique_ptr<Session> session;

    explicit TestSession(const std::string& wait = "none", unsigned percent = 0) {
        page = static_cast<monarch_page*>(map("page", sizeof *page));
        ring = static_cast<monarch_ring*>(map("ring", sizeof *ring));
        put(folder / "note", "");
        Fields m;
        m.add("session", folder.path);
        m.add("job", "1");
        m.add("wait", wait);
        m.add("wait_percent", std::to_string(percent));
        m.add("results", "/results/1");
        auto opened = Session::open(m);
        REQUIRE(opened);
        session = std::move(*opened);
    }
    ~TestSession() {
        munmap(page, sizeof *page);
        munmap(ring, sizeof *ring);
    }
    void* map(const std::string& name, size_t bytes) {
        Fd fd(open((folder / name).c_str(), O_RDWR | O_CREAT, 0600));
        REQUIRE(ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
        void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
        REQUIRE(at != MAP_FAILED);
        return at;
    }
    uint64_t take() { return ring->head++; }
    void fill(uint64_t number) {
        monarch_record& r = ring->slot[number % MONARCH_RING_SLOTS];
        r = {number + 1, number, 0, 1, MONARCH_OPEN, 0, 0};
    }
    void write(unsigned count) {
        for (unsigned n = 0; n < count; n++) fill(take());
    }
    std::vector<uint64_t> drain() {
        std::vector<uint64_t> got;
        session->drain([&](const monarch_record& r) { got.push_back(r.hash); });
        return got;
    }
};

using Progress = Session::Progress;

uint32_t decide(const std::string& wait, unsigned percent, const Progress& p) {
    TestSession t(wait, percent);
    t.session->decide_wait(p);
    return t.page->wait;
}

}  // namespace

TEST_CASE("session: records come in order, each once") {
    TestSession t;
    CHECK(t.drain().empty());
    t.write(3);
    CHECK(t.drain() == std::vector<uint64_t>{0, 1, 2});
    CHECK(t.drain().empty());
    t.write(2);
    CHECK(t.drain() == std::vector<uint64_t>{3, 4});
    CHECK(t.page->ring_tail == 5);
    CHECK(t.page->ring_lost == 0);
    CHECK(t.session->job() == "1");
    CHECK(t.session->results() == "/results/1");
}

TEST_CASE("session: a full ring is read whole, an overwritten one counts what is lost") {
    TestSession t;
    t.write(MONARCH_RING_SLOTS);
    CHECK(t.drain().size() == MONARCH_RING_SLOTS);
    t.write(MONARCH_RING_SLOTS + 100);
    auto got = t.drain();
    REQUIRE(got.size() == MONARCH_RING_SLOTS);
    CHECK(got.front() == MONARCH_RING_SLOTS + 100);
    CHECK(t.page->ring_lost == 100);
}

TEST_CASE("session: a record that a killed writer left is waited for, and lost when the session ends") {
    TestSession t;
    t.write(1);
    uint64_t torn = t.take();
    t.write(2);
    CHECK(t.drain() == std::vector<uint64_t>{0});
    CHECK(t.drain().empty());
    SUBCASE("it was only slow") {
        t.fill(torn);
        CHECK(t.drain() == std::vector<uint64_t>{1, 2, 3});
        CHECK(t.page->ring_lost == 0);
    }
    SUBCASE("the session ends") {
        t.page->ended = 1;
        CHECK(t.session->ended());
        CHECK(t.drain() == std::vector<uint64_t>{2, 3});
        CHECK(t.page->ring_lost == 1);
    }
}

TEST_CASE("session: another stager goes on where the last one was") {
    TestSession t;
    t.write(5);
    CHECK(t.drain().size() == 5);
    t.write(1);
    Fields m;
    m.add("session", t.folder.path);
    auto again = Session::open(m);
    REQUIRE(again);
    std::vector<uint64_t> got;
    (*again)->drain([&](const monarch_record& r) { got.push_back(r.hash); });
    CHECK(got == std::vector<uint64_t>{5});
}

TEST_CASE("session: nonsense in head and tail costs records, and nothing else") {
    for (uint64_t head :
         {uint64_t{0}, uint64_t{1}, uint64_t{MONARCH_RING_SLOTS}, UINT64_MAX, uint64_t{1} << 63}) {
        for (uint64_t tail :
             {uint64_t{0}, uint64_t{5}, UINT64_MAX, UINT64_MAX - MONARCH_RING_SLOTS, uint64_t{1} << 63}) {
            TestSession t;
            t.write(10);
            t.ring->head = head;
            t.page->ring_tail = tail;
            CHECK(t.drain().size() <= MONARCH_RING_SLOTS);
            t.page->ended = 1;
            CHECK(t.drain().size() <= MONARCH_RING_SLOTS);
            CHECK(t.page->ring_tail == head);
        }
    }
}

TEST_CASE("session: what is not attach's is refused") {
    TestFolder f;
    Fields m;
    m.add("session", f.path);
    CHECK_FALSE(Session::open(m));
    put(f / "page", "short");
    put(f / "ring", "short");
    CHECK_FALSE(Session::open(m));
    TestSession t;
    REQUIRE(rename((t.folder / "ring").c_str(), (t.folder / "real").c_str()) == 0);
    std::filesystem::create_symlink("real", t.folder / "ring");
    Fields linked;
    linked.add("session", t.folder.path);
    CHECK_FALSE(Session::open(linked));
}

TEST_CASE("session: a note replaces the one before") {
    TestSession t;
    t.session->note("a longer first reason");
    t.session->note("why");
    CHECK(get(t.folder / "note") == "why\n");
}

TEST_CASE("session: wait none goes at once") {
    CHECK(decide("none", 0, {}) == MONARCH_WAIT_GO);
}

TEST_CASE("session: a share is held until it is staged") {
    CHECK(decide("threshold", 60, {}) == MONARCH_WAIT_HOLD);
    CHECK(decide("threshold", 60, {true, false, 9, 9, 1000, 599}) == MONARCH_WAIT_HOLD);
    CHECK(decide("threshold", 60, {true, false, 9, 9, 1000, 600}) == MONARCH_WAIT_GO);
    CHECK(decide("threshold", 100, {true, false, 9, 9, 1000, 999}) == MONARCH_WAIT_HOLD);
    CHECK(decide("threshold", 100, {true, false, 9, 9, uint64_t{1} << 62, (uint64_t{1} << 62) / 2}) ==
          MONARCH_WAIT_HOLD);
    // Nothing planned, or nothing more to come.
    CHECK(decide("threshold", 60, {true, false, 0, 0, 0, 0}) == MONARCH_WAIT_GO);
    CHECK(decide("threshold", 60, {true, true, 9, 9, 1000, 10}) == MONARCH_WAIT_GO);
    CHECK(decide("threshold", 60, {false, true, 0, 0, 0, 0}) == MONARCH_WAIT_GO);
}

TEST_CASE("session: a time alone is held until everything is staged") {
    CHECK(decide("threshold", 0, {true, false, 9, 9, 1000, 999}) == MONARCH_WAIT_HOLD);
    CHECK(decide("threshold", 0, {true, true, 9, 9, 1000, 1000}) == MONARCH_WAIT_GO);
}

TEST_CASE("session: auto holds for few files, and never for many") {
    CHECK(decide("auto", 0, {}) == MONARCH_WAIT_UNDECIDED);
    CHECK(decide("auto", 0, {false, false, 63, 0, 0, 0}) == MONARCH_WAIT_UNDECIDED);
    CHECK(decide("auto", 0, {false, false, 64, 0, 0, 0}) == MONARCH_WAIT_GO);
    CHECK(decide("auto", 0, {true, false, 63, 63, 1000, 0}) == MONARCH_WAIT_HOLD);
    CHECK(decide("auto", 0, {true, false, 64, 64, 1000, 0}) == MONARCH_WAIT_GO);
    CHECK(decide("auto", 0, {true, true, 63, 63, 1000, 1000}) == MONARCH_WAIT_GO);
}

TEST_CASE("session: auto that has said go does not hold again") {
    TestSession t("auto");
    t.page->wait = MONARCH_WAIT_GO;
    t.session->decide_wait({true, false, 10, 10, 1000, 0});
    CHECK(t.page->wait == MONARCH_WAIT_GO);
}
