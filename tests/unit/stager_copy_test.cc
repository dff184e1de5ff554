#include <set>
#include <string>

#include "stager/copy.h"
#include "tests/unit/stager_test.h"

using namespace monarch;

namespace {

struct Engine {
    FakeSource source;
    Manifest manifest;
    std::vector<TestFolder> folders;
    std::vector<std::unique_ptr<TierStore>> tiers;
    std::unique_ptr<Copier> copier;

    Engine(unsigned files, unsigned tier_count) : folders(tier_count) {
        for (unsigned n = 0; n < files; n++)
            source.files["d" + std::to_string(n % 3) + "/" + std::to_string(n)] =
                std::string(3000 * n + 1, static_cast<char>('a' + n));
        Listing listing;
        REQUIRE(source.list(manifest, listing));
        manifest.sort();
        for (auto& f : folders) {
            auto tier = TierStore::open("t" + std::to_string(tiers.size()), f.path);
            REQUIRE(tier);
            if ((*tier)->needs_ids()) REQUIRE((*tier)->make_ids(files));
            tiers.push_back(std::move(*tier));
        }
    }
    // A test that failed must not free what a stream still uses.
    ~Engine() {
        source.release();
        if (!copier) return;
        copier->stop();
        while (!copier->wait_stopped(1000)) {
        }
    }

    std::vector<Placement> all(uint8_t tier = 0) const {
        std::vector<Placement> copies;
        for (uint32_t id = 0; id < manifest.size(); id++) copies.push_back({id, tier});
        return copies;
    }
    void start(unsigned streams, uint64_t bytes_per_s = 0, std::vector<Placement> copies = {}) {
        copier = std::make_unique<Copier>(source, manifest, tiers, streams, bytes_per_s);
        copier->add(copies.empty() ? all() : std::move(copies));
        copier->start();
    }
    // Until everything has its result, or it was stopped.
    std::vector<CopyResult> finish() {
        while (!copier->finished() && !copier->wait_stopped(1)) {
        }
        return copier->take_results();
    }
    // Whatever has a name is complete and right; nothing else is left.
    std::set<std::pair<std::string, size_t>> names() const {
        std::set<std::pair<std::string, size_t>> found;
        for (size_t t = 0; t < tiers.size(); t++) {
            CHECK(std::filesystem::is_empty(folders[t] / "tmp"));
            for (const auto& e : std::filesystem::recursive_directory_iterator(folders[t] / "files")) {
                if (!e.is_regular_file()) continue;
                std::string path = e.path().string().substr((folders[t] / "files/").size());
                auto right = source.files.find(path);
                REQUIRE(right != source.files.end());
                CHECK(get(e.path().string()) == right->second);
                found.emplace(path, t);
            }
        }
        return found;
    }
};

// Each placement has exactly one result, and the names are those that it says.
void check_results(const Engine& e, const std::vector<CopyResult>& results, size_t placements) {
    std::set<uint32_t> seen;
    std::set<std::pair<std::string, size_t>> staged;
    for (const auto& r : results) {
        CHECK(seen.insert(r.file).second);
        if (r.what == Copied::staged) staged.emplace(std::string(e.manifest.path(r.file)), r.tier);
        if (r.what == Copied::failed) CHECK_FALSE(r.why.empty());
    }
    CHECK(results.size() == placements);
    CHECK(staged == e.names());
}

}  // namespace

TEST_CASE("copy: everything arrives, from many streams") {
    for (unsigned streams : {1u, 16u}) {
        Engine e(20, 1);
        e.start(streams);
        auto results = e.finish();
        CHECK(e.copier->finished());
        check_results(e, results, 20);
        for (const auto& r : results) {
            CHECK(r.what == Copied::staged);
            CHECK(r.read);
        }
        CHECK(e.copier->take_results().empty());
    }
}

TEST_CASE("copy: nothing to do is finished at once") {
    Engine e(0, 1);
    e.start(4);
    CHECK(e.copier->finished());
    CHECK(e.finish().empty());
}

TEST_CASE("copy: one stream copies in the plan's order") {
    Engine e(10, 1);
    auto copies = e.all();
    std::reverse(copies.begin(), copies.end());
    e.start(1, 0, copies);
    auto results = e.finish();
    REQUIRE(results.size() == 10);
    for (size_t n = 0; n < results.size(); n++) CHECK(results[n].file == copies[n].file);
}

TEST_CASE("copy: whichever step fails, in whatever way, each name is a complete right file") {
    constexpr unsigned files = 7;
    unsigned steps;
    {
        Engine e(files, 1);
        e.start(1);
        e.finish();
        steps = e.source.steps;
    }
    REQUIRE(steps > files);
    for (auto fault : {FakeSource::fail, FakeSource::shrink, FakeSource::grow, FakeSource::change}) {
        for (unsigned n = 0; n < steps; n++) {
            Engine e(files, 1);
            CAPTURE(fault);
            CAPTURE(n);
            e.source.fault = [=](unsigned step) { return step == n ? fault : FakeSource::none; };
            e.start(1);
            auto results = e.finish();
            CHECK(e.copier->finished());
            if (fault == FakeSource::shrink) {  // a shorter file is complete as well
                CHECK(results.size() == files);
                for (const auto& r : results) CHECK(r.what == Copied::staged);
                continue;
            }
            check_results(e, results, files);
            CHECK(std::count_if(results.begin(), results.end(),
                                [](const auto& r) { return r.what == Copied::failed; }) <= 1);
        }
    }
}

TEST_CASE("copy: a file that grew takes no more than its reserved space") {
    Engine e(5, 1);
    e.source.fault = [](unsigned) { return FakeSource::grow; };
    e.start(2);
    auto results = e.finish();
    check_results(e, results, 5);
    for (const auto& r : results) {
        CHECK(r.what == Copied::failed);
        CHECK(r.why.find("larger than when it was listed") != std::string::npos);
    }
}

TEST_CASE(
    "copy: a tier that runs full at any step passes its files on, the last one leaves them to the source") {
    for (unsigned n = 0; n < 25; n++) {
        Engine e(7, 2);
        CAPTURE(n);
        e.source.fault = [=](unsigned step) { return step == n ? FakeSource::full : FakeSource::none; };
        e.start(1);
        auto results = e.finish();
        check_results(e, results, 7);
        for (const auto& r : results) CHECK(r.what == Copied::staged);
    }
    Engine e(7, 2);
    e.source.fault = [](unsigned step) { return step > 5 ? FakeSource::full : FakeSource::none; };
    e.start(1);
    auto results = e.finish();
    check_results(e, results, 7);
    CHECK(e.tiers[0]->full());
    CHECK(e.tiers[1]->full());
    CHECK(results.back().why.find("no space left on the tiers") != std::string::npos);
    CHECK_FALSE(results.back().read);
    // Full is not asked again, file by file.
    CHECK(e.source.fetches < 7);
}

TEST_CASE("copy: a name that the job retired stays retired") {
    Engine e(5, 1);
    std::filesystem::create_directories(e.folders[0] / "files/d0");
    std::filesystem::create_symlink(MONARCH_RETIRED_TARGET, e.folders[0] / "files/d0/0");
    e.start(2);
    auto results = e.finish();
    check_results(e, results, 5);
    CHECK(std::count_if(results.begin(), results.end(),
                        [](const auto& r) { return r.what == Copied::retired; }) == 1);
    CHECK(std::filesystem::is_symlink(e.folders[0] / "files/d0/0"));
}

TEST_CASE("copy: one stream that hangs holds up nothing else, and stop does not wait for it") {
    Engine e(12, 1);
    e.source.fault = [](unsigned step) { return step == 1 ? FakeSource::hang : FakeSource::none; };
    e.start(4);
    std::vector<CopyResult> results;
    while (results.size() < 11)
        for (auto& r : e.copier->take_results()) results.push_back(std::move(r));
    while (e.source.hanging() < 1) std::this_thread::yield();
    CHECK_FALSE(e.copier->finished());
    e.copier->stop();
    CHECK_FALSE(e.copier->wait_stopped(0));
    e.source.release();
    CHECK(e.finish().empty());
    check_results(e, results, 11);
}

TEST_CASE("copy: stop ends what is under way, and what has a name is whole") {
    Engine e(12, 1);
    e.source.fault = [](unsigned step) { return step > 20 ? FakeSource::hang : FakeSource::none; };
    e.start(4);
    while (e.source.hanging() < 4) std::this_thread::yield();
    e.copier->stop();
    e.source.release();
    auto results = e.finish();
    CHECK(e.source.fetches < 12);
    check_results(e, results, results.size());
    for (const auto& r : results) CHECK(r.what == Copied::staged);
}

TEST_CASE("copy: a bandwidth that lets nothing through is left by stop, with nothing more copied") {
    Engine e(12, 1);
    e.start(4, 1);  // a byte a second
    // Each stream gets through its first block at most before it has to wait, which takes hours.
    while (e.source.fetches < 1) std::this_thread::yield();
    e.copier->stop();
    auto results = e.finish();
    check_results(e, results, results.size());
    CHECK(e.source.steps < 2 * 12);
}

TEST_CASE("copy: the throttle spaces bytes by the rate, over all who take") {
    std::atomic<bool> stop{false};
    Throttle free(0);
    free.take(uint64_t{1} << 60, stop);
    Throttle capped(1000000);
    uint64_t start = monotonic_ns();
    for (int n = 0; n < 11; n++) capped.take(1000, stop);
    // Ten spaces of a millisecond; more on a busy machine, never less.
    CHECK(monotonic_ns() - start >= 10000000);
    stop = true;
    capped.take(uint64_t{1} << 40, stop);
    capped.take(1, stop);
}

TEST_CASE("copy: work is added and withdrawn while it runs") {
    Engine e(12, 1);
    auto copies = e.all();
    e.copier = std::make_unique<Copier>(e.source, e.manifest, e.tiers, 2, 0);
    e.copier->start();
    CHECK(e.copier->finished());
    e.copier->add({copies.begin(), copies.begin() + 4});
    CHECK(e.finish().size() == 4);
    CHECK(e.copier->take_results().empty());
    // Two streams hang: the other six come back, in their order.
    e.source.fault = [](unsigned) { return FakeSource::hang; };
    e.copier->add({copies.begin() + 4, copies.end()});
    while (e.source.hanging() < 2) std::this_thread::yield();
    auto back = e.copier->withdraw();
    REQUIRE(back.size() == 6);
    for (size_t n = 0; n < back.size(); n++) CHECK(back[n].file == copies[n + 6].file);
    CHECK_FALSE(e.copier->finished());
    e.source.release();
    CHECK(e.finish().size() == 2);
    e.copier->add(back);
    CHECK(e.finish().size() == 6);
    CHECK(e.names().size() == 12);
}
