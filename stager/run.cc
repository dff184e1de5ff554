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
#include "stager/prepare.h"
#include "stager/report.h"
#include "stager/session.h"
#include "stager/space.h"
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

// Root answers what the plan needs within milliseconds; who waits for everything to be staged is not held up
// longer where it does not.
constexpr uint64_t settle_ns = 5'000'000'000;
constexpr unsigned change_samples = 100;

class Stager {
  public:
    explicit Stager(const Fields& config) : config_(config), dir_(config.get("dir")) {}
    int run();

  private:
    void log(int level, const std::string& text);
    Status open_tiers();
    bool read_grant();
    void open_when_granted();
    void start_preparing();
    void adopt();
    void plan_again();
    void take_plan(Plan plan, uint64_t possible);
    void admit();
    void follow_grant();
    bool plan_is_final();
    void look_for_changes();
    void fail(const std::string& why);
    void read_inbox();
    void take_copies();
    void read_rings();
    void retire(uint32_t id);
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
    std::string why_failed_;
    Grant grant_;
    struct timespec granted_at_ {};  // when the grant was written
    bool opened_ = false, planned_all_ = false;
    std::vector<Placement> pending_;  // planned, and its space is not granted yet
    uint64_t asked_ns_ = 0;           // when the need was told
    std::atomic<int> looking_{0};  // 1: looked whether the data set has changed, 2: it is known in `changed_`
    std::string changed_;
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
    auto names = config_.all("tier"), folders = config_.all("data");
    if (names.empty() || names.size() != folders.size() || names.size() != grant_.share.size())
        return Error{"no tiers"};
    for (size_t n = 0; n < names.size(); n++) {
        auto tier = TierStore::open(names[n], folders[n]);
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

// Root replaces the grant whenever the store's space changes. Whether it has.
bool Stager::read_grant() {
    struct stat st;
    std::string path = dir_ + "/grant";
    if (stat(path.c_str(), &st) != 0 ||
        (st.st_mtim.tv_sec == granted_at_.tv_sec && st.st_mtim.tv_nsec == granted_at_.tv_nsec))
        return false;
    auto text = read_file(path, 65536);
    auto grant = text ? parse_grant(*text) : Result<Grant>(Error{text.error()});
    if (!grant || (opened_ && grant->share.size() != grant_.share.size())) return false;
    granted_at_ = st.st_mtim;
    grant_ = std::move(*grant);
    return true;
}

// Not a byte before its space is there: what the last job left may still fill the tiers.
void Stager::open_when_granted() {
    if (opened_ || failed_ || grant_.bytes.empty()) return;
    for (size_t t = 0; t < grant_.bytes.size(); t++) {
        if (grant_.share[t] < smallest_share)
            return fail("no space: what other jobs left on tier " + config_.all("tier")[t] +
                        " cannot be deleted");
        if (grant_.bytes[t] < smallest_share) return;
    }
    opened_ = true;
    if (Status s = open_tiers(); s.ok())
        start_preparing();
    else
        fail(s.error());
}

// Listing may take as long as the source likes: a thread of its own, left behind at the end if it hangs.
void Stager::start_preparing() {
    ready_ = false;
    adopted_ = failed_ = finished_ = false;
    prepared_ = std::make_unique<Prepared>();
    std::thread([this, grant = grant_] {
        prepare(*prepared_, *source_, config_, grant, tiers_, listing_, canonical_known_,
                [this](const std::string& what) { log(LOG_WARNING, what); });
        ready_.store(true, std::memory_order_release);
    }).detach();
}

void Stager::fail(const std::string& why) {
    failed_ = finished_ = true;
    why_failed_ = why;
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
    for (uint32_t id = 0; id < p.placed.size(); id++) {
        if (p.placed[id] == no_tier) continue;
        db_->set(id, FileState::staged, p.placed[id]);
        counters_.files_staged++;
        counters_.bytes_staged += p.manifest.bytes(id);
    }
    db_->use(&p.manifest);
    if (listing_.unlisted)
        log(LOG_WARNING, std::to_string(listing_.unlisted) + " entries of the source could not be listed");
    unsigned streams = static_cast<unsigned>(strtoul(config_.get("streams", "16").c_str(), nullptr, 10));
    uint64_t bandwidth = strtoull(config_.get("bandwidth", "0").c_str(), nullptr, 10);
    copier_ = std::make_unique<Copier>(*source_, p.manifest, tiers_, std::max(1u, streams), bandwidth);
    copier_->start();
    asked_ns_ = monotonic_ns();
    if (grant_.share == p.planned_on)
        take_plan(std::move(p.plan), p.manifest.size());
    else
        plan_again();
}

// Plans what has no copy yet on the shares that the store has now. What cannot be staged any more stays as it
// is.
void Stager::plan_again() {
    Prepared& p = *prepared_;
    for (const Placement& c : copier_->withdraw()) p.placed[c.file] = no_tier;
    std::vector<uint32_t> sequence;
    uint64_t failed = 0, failed_bytes = 0;
    for (uint32_t id : p.prediction.sequence) {
        FileState state = db_->state(id);
        if (state == FileState::failed) {
            failed++;
            failed_bytes += p.manifest.bytes(id);
        } else if (state != FileState::retired) {
            sequence.push_back(id);
        }
    }
    Plan plan = make_plan(p.manifest, sequence, p.rooms(grant_), p.placed);
    // They were planned, and stay so.
    plan.files += failed;
    plan.bytes += failed_bytes;
    take_plan(std::move(plan), sequence.size() + failed);
}

// `possible`: how many files it could have.
void Stager::take_plan(Plan plan, uint64_t possible) {
    const Prepared& p = *prepared_;
    counters_.files_planned = plan.files;
    counters_.bytes_planned = plan.bytes;
    planned_all_ = plan.files == possible;
    pending_ = std::move(plan.copies);
    finished_ = false;
    log(LOG_INFO, "plan: " + std::to_string(plan.files) + " of " + std::to_string(p.manifest.size()) +
                      " files, " + format_bytes(plan.bytes) + " of " +
                      format_bytes(p.manifest.total_bytes()) + ", order " + p.prediction.predictor);
    admit();
}

// Hands the copier whatever the tiers have space for by now.
void Stager::admit() {
    std::vector<Placement> now, later;
    for (const Placement& c : pending_) {
        bool room = c.until + prepared_->fixed[c.tier] <= grant_.bytes[c.tier];
        (room ? now : later).push_back(c);
        if (room) prepared_->placed[c.file] = c.tier;
    }
    pending_ = std::move(later);
    copier_->add(now);
}

void Stager::follow_grant() {
    std::vector<uint64_t> before = grant_.share;
    if (!read_grant() || !adopted_) return;
    bool less = false, more = false;
    for (size_t t = 0; t < before.size(); t++) {
        less = less || grant_.share[t] < before[t];
        more = more || grant_.share[t] > before[t];
    }
    // A share that shrank to what the plan needs changes nothing in it.
    bool fits = true;
    for (const Placement& c : pending_)
        fits = fits && c.until + prepared_->fixed[c.tier] <= grant_.share[c.tier];
    if ((more && !planned_all_) || (less && !fits)) return plan_again();
    admit();
}

// What is planned will not grow any more but by what the tiers' trash gives, which is planned already.
bool Stager::plan_is_final() {
    return planned_all_ || grant_.settled || monotonic_ns() - asked_ns_ > settle_ns;
}

// For a job that comes to a store which others hold: they count on a data set that does not change, it may
// have come because of a change. In a thread, as the source may hang.
void Stager::look_for_changes() {
    bool wanted =
        std::any_of(sessions_.begin(), sessions_.end(), [](const auto& s) { return s->wants_check; });
    if (looking_ == 0 && wanted) {
        looking_ = 1;
        std::thread([this] {
            changed_ = changed_since(*prepared_, change_samples);
            looking_.store(2, std::memory_order_release);
        }).detach();
    }
    if (looking_.load(std::memory_order_acquire) != 2) return;
    std::string why = changed_ +
                      " has changed since another job of yours staged the data set: local copies are as they "
                      "were then until that job ends";
    for (auto& s : sessions_) {
        if (!s->wants_check) continue;
        s->wants_check = false;
        if (changed_.empty()) continue;
        s->note(why);
        log(LOG_WARNING, "job " + s->job() + ": " + why);
    }
    looking_ = 0;
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
        if (failed_) (*session)->note(why_failed_);
        // Later than the listing began.
        (*session)->wants_check = adopted_;
        sessions_.push_back(std::move(*session));
    }
}

// Whose source_reads they are: the oldest live session caused the copying.
Session* Stager::payer() {
    return sessions_.empty() ? nullptr : sessions_.front().get();
}

void Stager::take_copies() {
    if (!copier_) return;
    bool finished = pending_.empty() && copier_->finished() && plan_is_final();
    for (const CopyResult& r : copier_->take_results()) {
        if (r.read && payer()) payer()->page().counters.source_reads++;
        switch (r.what) {
            case Copied::staged:
                // Published, and retired before this result was taken.
                if (db_->state(r.file) == FileState::retired) break;
                counters_.files_staged++;
                counters_.bytes_staged += prepared_->manifest.bytes(r.file);
                prepared_->placed[r.file] = r.tier;
                db_->set(r.file, FileState::staged, r.tier);
                break;
            case Copied::retired:
                prepared_->placed[r.file] = no_tier;
                db_->set(r.file, FileState::retired, no_tier);
                break;
            case Copied::failed:
                counters_.files_failed++;
                prepared_->placed[r.file] = no_tier;
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

void Stager::retire(uint32_t id) {
    Prepared& p = *prepared_;
    if (db_->state(id) == FileState::staged) {
        counters_.files_staged--;
        counters_.bytes_staged -= p.manifest.bytes(id);
    }
    p.placed[id] = no_tier;
    db_->set(id, FileState::retired, no_tier);
}

void Stager::count(Session& s, const monarch_record& r) {
    if (r.kind == MONARCH_REGISTER && failed_ && !retried_) {
        // A source that needed the user's credentials may be readable now that the user's first task runs.
        retried_ = true;
        if (db_) start_preparing();
    }
    if (!adopted_) return;
    const Prepared& p = *prepared_;
    uint32_t id = p.file_of(r.hash);
    if (r.kind == MONARCH_RETIRE) {
        if (id < p.manifest.size())
            retire(id);
        else  // a folder: nothing below it has a name on a tier any more
            for (uint32_t file : p.files_below(r.hash)) retire(file);
    }
    if (id == p.manifest.size()) return;
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
    Session::Progress progress{adopted_ && plan_is_final(),
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
        if (adopted_ && !page.need_known) {
            page.need_bytes = prepared_->need_bytes;
            for (size_t t = 0; t < tiers_.size(); t++) page.need_fixed[t] = prepared_->fixed[t];
            __atomic_store_n(&page.need_known, 1u, __ATOMIC_RELEASE);
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
    read_inbox();
    uint64_t flushed_at = 0, reported_at = monotonic_ns();
    bool complained = false;
    bool terminated = false;
    while (!terminated && access(dir_.c_str(), F_OK) == 0) {
        read_inbox();
        follow_grant();
        open_when_granted();
        adopt();
        if (adopted_) look_for_changes();
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
