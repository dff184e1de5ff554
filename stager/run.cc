#include "stager/run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <thread>

#include "core/os.h"
#include "core/units.h"
#include "stager/copy.h"
#include "stager/order/order.h"
#include "stager/report.h"
#include "stager/session.h"
#include "stager/store.h"

namespace monarch {

namespace {

constexpr timespec tick{0, 20'000'000};
constexpr uint64_t flush_ns = 250'000'000;
constexpr uint64_t report_ns = 30'000'000'000;
constexpr unsigned most_reports = 64;
// An open counts as predicted when its file is among the next so many of the sequence, seen from the
// process's last.
constexpr uint32_t prediction_reach = 64;

// No more files than that fit on a tier; the table of their identities takes its space as well.
uint64_t most_files(const Manifest& manifest, uint64_t bytes) {
    return std::min<uint64_t>(manifest.size(), bytes / space_of(1) + 1);
}
uint64_t ids_space(const Manifest& manifest, uint64_t bytes) {
    return space_of(TierStore::ids_bytes(most_files(manifest, bytes)));
}

// What the preparing thread finds out; read by the main thread once `ready`.
struct Prepared {
    std::string canonical;
    struct stat root {};  // what `canonical` names
    Manifest manifest;
    Prediction prediction;
    Plan plan;
    std::vector<uint8_t> placed;
    std::vector<uint32_t> place;                         // file id → its place in the sequence
    std::vector<std::pair<uint64_t, uint32_t>> by_hash;  // sorted
    std::string error;
};

// Whether a link means the same on a tier as in the source: relative, and ".." only at its start, no further
// up than the root. A ".." after a name could leave from wherever that name, being a link itself, leads to.
bool stays_inside(std::string_view link, std::string_view target) {
    if (target.starts_with('/')) return false;
    int depth = static_cast<int>(std::count(link.begin(), link.end(), '/'));
    bool named = false;
    for (size_t at = 0; at <= target.size();) {
        size_t end = std::min(target.find('/', at), target.size());
        std::string_view part = target.substr(at, end - at);
        if (part == "..")
            depth--;
        else if (!part.empty() && part != ".")
            named = true;
        if (depth < 0 || (named && part == "..")) return false;
        at = end + 1;
    }
    return true;
}

class Stager {
  public:
    explicit Stager(const Fields& config) : config_(config), dir_(config.get("dir")) {}
    int run();

  private:
    void log(int level, const std::string& text);
    Status open_tiers();
    void start_preparing();
    void prepare(Prepared& p);
    bool take_manifest(Prepared& p);
    void adopt();
    void fail(const std::string& why);
    void read_inbox();
    void take_copies();
    void read_rings();
    void count(Session& s, const monarch_record& r);
    void show();
    void end_sessions(bool all);
    void report(Session& s, const char* outcome);
    Session* payer();

    const Fields& config_;
    std::string dir_;
    Fd log_;
    std::vector<std::unique_ptr<TierStore>> tiers_;
    std::unique_ptr<Source> source_;
    std::unique_ptr<StoreDb> db_;
    Listing listing_;
    std::unique_ptr<Prepared> prepared_;
    std::atomic<bool> ready_{false};
    std::atomic<bool> canonical_known_{false};
    bool adopted_ = false, failed_ = false, retried_ = false, finished_ = false, disabled_ = false;
    std::unique_ptr<Copier> copier_;
    std::vector<std::unique_ptr<Session>> sessions_;
    unsigned inbox_next_ = 1;
    Counters counters_{};                     // of the store; opens and reads are the sessions' own
    std::atomic<unsigned> reports_{0};        // being written
    std::map<std::string, uint64_t> causes_;  // of failures, one log line each
};

void Stager::log(int level, const std::string& text) {
    std::string line = printable("store " + config_.get("name") + ": " + text);
    log_line(level, line);
    if (log_) write_all(log_.get(), std::to_string(now_s()) + " " + line + "\n");
}

Status Stager::open_tiers() {
    auto names = config_.all("tier"), folders = config_.all("data"), bytes = config_.all("bytes");
    if (names.empty() || names.size() != folders.size() || names.size() != bytes.size())
        return Error{"no tiers"};
    for (size_t n = 0; n < names.size(); n++) {
        auto tier = TierStore::open(names[n], folders[n], strtoull(bytes[n].c_str(), nullptr, 10));
        if (!tier) return Error{tier.error()};
        tiers_.push_back(std::move(*tier));
    }
    log_ = Fd(open((folders.back() + "/stager.log").c_str(),
                   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    auto db = StoreDb::create(folders.back() + "/store.db", names);
    if (!db) return Error{db.error()};
    db_ = std::make_unique<StoreDb>(std::move(*db));
    return Done{};
}

// Listing may take as long as the source likes: a thread of its own, left behind at the end if it hangs.
void Stager::start_preparing() {
    ready_ = false;
    adopted_ = failed_ = finished_ = false;
    prepared_ = std::make_unique<Prepared>();
    std::thread([this] {
        prepare(*prepared_);
        ready_.store(true, std::memory_order_release);
    }).detach();
}

// The catalog's manifest spares the source the listing; without a good one the source is listed.
bool Stager::take_manifest(Prepared& p) {
    std::string path = config_.get("manifest");
    if (path.empty()) return false;
    auto manifest = read_manifest(path);
    if (!manifest) {
        log(LOG_WARNING, manifest.error() + ": the source is listed instead");
        return false;
    }
    p.manifest = std::move(*manifest);
    listing_.files = p.manifest.size();
    return true;
}

void Stager::prepare(Prepared& p) {
    auto canonical = source_->canonical();
    if (!canonical) {
        p.error = canonical.error();
        return;
    }
    p.canonical = *canonical;
    if (stat(p.canonical.c_str(), &p.root) != 0) p.root = {};
    canonical_known_.store(true, std::memory_order_release);
    if (!take_manifest(p)) {
        if (Status s = source_->list(p.manifest, listing_); !s.ok()) {
            p.error = s.error();
            return;
        }
        p.manifest.sort();
    }
    if (listing_.stop) return;
    p.prediction = predict(config_.get("order", "auto"), p.manifest);
    uint32_t n = p.manifest.size();
    p.place.resize(n);
    for (uint32_t at = 0; at < n; at++) p.place[p.prediction.sequence[at]] = at;
    p.by_hash.reserve(n);
    for (uint32_t id = 0; id < n; id++) {
        std::string_view path = p.manifest.path(id);
        p.by_hash.emplace_back(monarch_hash(path.data(), path.size()), id);
    }
    std::sort(p.by_hash.begin(), p.by_hash.end());
    p.placed.assign(n, no_tier);
    for (uint32_t id = 0; id < n; id++)
        for (uint8_t t = 0; t < tiers_.size() && p.placed[id] == no_tier; t++)
            if (tiers_[t]->holds(p.manifest.path(id), p.manifest.bytes(id), p.manifest.mtime_ns(id)))
                p.placed[id] = t;
    std::vector<uint64_t> capacity;
    for (auto& t : tiers_)
        capacity.push_back(t->bytes() -
                           std::min(t->bytes(), t->needs_ids() ? ids_space(p.manifest, t->bytes()) : 0));
    // The last tier also keeps the state file and the log.
    uint64_t own = store_overhead(p.manifest);
    capacity.back() -= std::min(capacity.back(), own);
    p.plan = make_plan(p.manifest, p.prediction.sequence, capacity, p.placed);
    for (auto& t : tiers_)
        if (t->needs_ids())
            if (Status s = t->make_ids(most_files(p.manifest, t->bytes())); !s.ok()) t->set_full();
    for (const auto& link : p.manifest.links())
        if (stays_inside(link.path, link.target))
            for (auto& t : tiers_) t->link(link.target, link.path);
}

void Stager::fail(const std::string& why) {
    failed_ = finished_ = true;
    log(LOG_ERR, why + ": opens go to the source");
    for (auto& s : sessions_) s->note(why);
}

// Takes over what the preparing thread found, once.
void Stager::adopt() {
    if (adopted_ || failed_ || !ready_.load(std::memory_order_acquire)) return;
    Prepared& p = *prepared_;
    if (!p.error.empty()) return fail(p.error);
    adopted_ = true;
    counters_.files_total = p.manifest.size();
    counters_.bytes_total = p.manifest.total_bytes();
    counters_.files_planned = p.plan.files;
    counters_.bytes_planned = p.plan.bytes;
    for (uint32_t id = 0; id < p.placed.size(); id++) {
        if (p.placed[id] == no_tier) continue;
        db_->set(id, FileState::staged, p.placed[id]);
        counters_.files_staged++;
        counters_.bytes_staged += p.manifest.bytes(id);
    }
    db_->use(&p.manifest);
    if (listing_.unlisted)
        log(LOG_WARNING, std::to_string(listing_.unlisted) + " entries of the source could not be listed");
    log(LOG_INFO, "plan: " + std::to_string(p.plan.files) + " of " + std::to_string(p.manifest.size()) +
                      " files, " + format_bytes(p.plan.bytes) + " of " +
                      format_bytes(p.manifest.total_bytes()) + ", order " + p.prediction.predictor);
    unsigned streams = static_cast<unsigned>(strtoul(config_.get("streams", "16").c_str(), nullptr, 10));
    uint64_t bandwidth = strtoull(config_.get("bandwidth", "0").c_str(), nullptr, 10);
    copier_ = std::make_unique<Copier>(*source_, p.manifest, tiers_, std::max(1u, streams), bandwidth);
    copier_->start(p.plan.copies);
}

void Stager::read_inbox() {
    for (;; inbox_next_++) {
        auto bytes = read_file(dir_ + "/inbox/" + std::to_string(inbox_next_), 65536);
        if (!bytes) return;
        auto message = Fields::parse(*bytes);
        if (!message) continue;
        auto session = Session::open(*message);
        // A restarted stager finds messages of sessions that are over.
        if (!session || (*session)->ended()) continue;
        if (failed_) (*session)->note(prepared_->error);
        sessions_.push_back(std::move(*session));
    }
}

// Whose source_reads they are: the oldest live session caused the copying.
Session* Stager::payer() {
    return sessions_.empty() ? nullptr : sessions_.front().get();
}

void Stager::take_copies() {
    if (!copier_) return;
    bool finished = copier_->finished();
    for (const CopyResult& r : copier_->take_results()) {
        if (r.read && payer()) payer()->page().counters.source_reads++;
        switch (r.what) {
            case Copied::staged:
                // Published, and retired before this result was taken.
                if (db_->state(r.file) == FileState::retired) break;
                counters_.files_staged++;
                counters_.bytes_staged += prepared_->manifest.bytes(r.file);
                db_->set(r.file, FileState::staged, r.tier);
                break;
            case Copied::retired:
                db_->set(r.file, FileState::retired, no_tier);
                break;
            case Copied::failed:
                counters_.files_failed++;
                db_->set(r.file, FileState::failed, no_tier);
                std::string cause =
                    r.why.substr(r.why.rfind(": ") == std::string::npos ? 0 : r.why.rfind(": ") + 2);
                if (causes_[cause]++ == 0)
                    log(LOG_WARNING, r.why + ": this file stays on the source (said once a cause)");
        }
    }
    if (finished && !finished_) {
        finished_ = true;
        log(LOG_INFO,
            "staged " + std::to_string(counters_.files_staged) + " files, " +
                format_bytes(counters_.bytes_staged) +
                (counters_.files_failed ? ", failed " + std::to_string(counters_.files_failed) : ""));
    }
}

void Stager::count(Session& s, const monarch_record& r) {
    if (r.kind == MONARCH_REGISTER && failed_ && !retried_) {
        // A source that needed the user's credentials may be readable now that the user's first task runs.
        retried_ = true;
        if (db_) start_preparing();
    }
    if (!adopted_) return;
    const Prepared& p = *prepared_;
    auto at = std::lower_bound(p.by_hash.begin(), p.by_hash.end(), std::pair<uint64_t, uint32_t>(r.hash, 0));
    if (at == p.by_hash.end() || at->first != r.hash) return;
    uint32_t id = at->second;
    if (r.kind == MONARCH_RETIRE) {
        if (db_->state(id) == FileState::staged) {
            counters_.files_staged--;
            counters_.bytes_staged -= p.manifest.bytes(id);
        }
        db_->set(id, FileState::retired, no_tier);
    }
    if (r.kind != MONARCH_OPEN) return;
    Counters& c = s.page().counters;
    (r.tier == MONARCH_TIER_SOURCE ? c.bytes_source : c.bytes_local) += p.manifest.bytes(id);
    auto [last, first] = s.place.try_emplace(r.pid, 0);
    uint32_t next = first ? 0 : last->second + 1;
    if (p.place[id] >= next && p.place[id] - next < prediction_reach) c.prediction_hits++;
    last->second = p.place[id];
}

void Stager::read_rings() {
    for (auto& s : sessions_) s->drain([&](const monarch_record& r) { count(*s, r); });
}

// Puts what is known into every session's page.
void Stager::show() {
    uint32_t state = failed_            ? MONARCH_FAILED
                     : finished_        ? MONARCH_STAGED
                     : adopted_         ? MONARCH_COPYING
                     : canonical_known_ ? MONARCH_LISTING
                                        : MONARCH_STARTING;
    Session::Progress progress{adopted_,
                               finished_,
                               listing_.files,
                               counters_.files_total,
                               counters_.bytes_planned,
                               counters_.bytes_staged};
    // A copy that one job could not retire must not be read by another that shares the store, either.
    for (auto& s : sessions_)
        disabled_ = disabled_ || __atomic_load_n(&s->page().retire_lost, __ATOMIC_RELAXED) > 0;
    for (auto& s : sessions_) {
        monarch_page& page = s->page();
        if (disabled_) __atomic_store_n(&page.disabled, 1u, __ATOMIC_RELEASE);
        // The store's counters come first in the struct, the session's own from opens_local on.
        for (size_t n = 0; n < counter_names.size(); n++)
            if (counter_names[n] == std::string_view("opens_local"))
                break;
            else
                __atomic_store_n(&counter(page.counters, n), counter(counters_, n), __ATOMIC_RELAXED);
        if (adopted_ && page.predictor[0] == 0)
            prepared_->prediction.predictor.copy(page.predictor, sizeof page.predictor - 1);
        if (!page.canonical_ready && canonical_known_.load(std::memory_order_acquire) &&
            prepared_->canonical.size() < sizeof page.canonical) {
            prepared_->canonical.copy(page.canonical, sizeof page.canonical - 1);
            page.root_dev = prepared_->root.st_dev;
            page.root_ino = prepared_->root.st_ino;
            __atomic_store_n(&page.canonical_ready, 1u, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&page.state, state, __ATOMIC_RELEASE);
        s->decide_wait(progress);
    }
}

void Stager::report(Session& s, const char* outcome) {
    if (s.results().empty()) return;
    Report r;
    r.folder = s.results();
    r.file = config_.get("node", "local") + "." + config_.get("name") + ".json";
    std::replace(r.file.begin(), r.file.end(), '/', '_');
    r.job = s.job();
    r.node = config_.get("node");
    r.dataset = config_.get("name");
    r.source = config_.get("source");
    r.predictor = s.page().predictor;
    r.outcome = outcome;
    r.attached_at = s.attached_at();
    r.written_at = now_s();
    r.counters = s.page().counters;
    // The shared home may hang: then no thread more every half minute.
    if (reports_ >= most_reports) return;
    reports_++;
    std::thread([this, r] {
        (void)write_report(r);
        reports_--;
    }).detach();
}

// Sessions that detach has ended: their counters are final once `drained` says so.
void Stager::end_sessions(bool all) {
    for (auto& s : sessions_) {
        if (!s->ended() && !all) continue;
        s->drain([&](const monarch_record& r) { count(*s, r); });
        report(*s, "ended");
        __atomic_store_n(&s->page().drained, 1u, __ATOMIC_RELEASE);
        s.reset();
    }
    std::erase(sessions_, nullptr);
}

int Stager::run() {
    // Taken between two ticks, and by this thread alone: the end comes at once and nowhere else.
    sigset_t endings;
    sigemptyset(&endings);
    sigaddset(&endings, SIGTERM);
    sigaddset(&endings, SIGINT);
    pthread_sigmask(SIG_BLOCK, &endings, nullptr);
    signal(SIGPIPE, SIG_IGN);
    source_ = posix_source(config_.get("source"), 8);
    Status opened = open_tiers();
    read_inbox();
    if (opened.ok())
        start_preparing();
    else
        fail(opened.error());
    uint64_t flushed_at = 0, reported_at = monotonic_ns();
    bool complained = false;
    bool terminated = false;
    while (!terminated && access(dir_.c_str(), F_OK) == 0) {
        read_inbox();
        adopt();
        take_copies();
        read_rings();
        show();
        end_sessions(false);
        uint64_t now = monotonic_ns();
        if (db_ && now - flushed_at > flush_ns) {
            flushed_at = now;
            Status s = db_->flush();
            if (!s.ok() && !complained)
                log(LOG_WARNING, "state file: " + s.error() + ": trying again (said once)");
            complained = !s.ok();
        }
        if (now - reported_at > report_ns) {
            reported_at = now;
            for (auto& s : sessions_) report(*s, "running");
        }
        terminated = sigtimedwait(&endings, nullptr, &tick) > 0;
    }
    listing_.stop = true;
    if (copier_) copier_->stop();
    take_copies();
    show();
    end_sessions(true);
    // The state file is not written any more: it goes with the store, and a stager that is started again
    // makes a new one.
    for (int n = 0; n < 20 && reports_ > 0; n++)  // on a home that answers
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // Threads may hang in the source: end without them.
    _exit(0);
}

}  // namespace

int run_stager(const Fields& config) {
    return Stager(config).run();
}

}  // namespace monarch
