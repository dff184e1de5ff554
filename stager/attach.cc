#include "stager/attach.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/fs.h>
#include <pwd.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "core/config.h"
#include "core/options.h"
#include "core/os.h"
#include "core/request.h"
#include "core/tier.h"
#include "core/units.h"
#include "stager/node.h"
#include "stager/promise.h"
#include "stager/settings.h"

namespace monarch {

namespace {

constexpr unsigned default_streams = 16;
constexpr uint64_t default_wait_max_s = 600;

// One data set of the job on its way to a lease.
struct Wanted {
    DatasetSpec spec;
    std::string source, manifest;
    std::string refused;  // why it is not staged; "" so far
    StoreRow store;
    bool new_store = false;
    int session = -1;
};

class Attach {
  public:
    Attach(const Fields& request, Settings settings)
        : request_(request), settings_(std::move(settings)), at_(settings_.config) {}
    int run();

  private:
    Status check();
    void resolve(Wanted& w);
    std::string overlaps(const std::string& source);
    void policy();
    std::string library();
    const std::string& order_of(const Wanted& w) const;
    std::string pays(const Wanted& w) const;
    Status lease();
    Status lease_one(Wanted& w, const std::vector<Reservation>& space);
    Status make_store(Wanted& w);
    Status make_tier_folder(const Wanted& w, const Reservation& r);
    Status make_session(Wanted& w);
    Status post(const Wanted& w);
    Fields stager_config(const Wanted& w) const;
    void give_up(Wanted& w, const std::string& why);
    bool start_stagers();
    Status write_env();
    int without_ledger(const std::string& why);
    std::string who(const std::string& what) const { return "job " + job_ + ": " + what; }

    const Fields& request_;
    Settings settings_;
    Layout at_;
    std::unique_ptr<Node> node_;
    std::string job_;
    int64_t restart_ = 0;
    uid_t uid_ = 0;
    gid_t gid_ = 0;
    std::string results_;
    Options options_;
    const Rule* rule_ = nullptr;
    std::vector<Wanted> wanted_;
    std::vector<std::string> notes_;
};

bool valid_job(const std::string& job) {
    return !job.empty() && job.size() <= 64 && job[0] != '.' &&
           job.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
               std::string::npos;
}

struct Account {
    std::string name, home;
    std::vector<std::string> groups;
};

// `with_groups`: their names too, which may cost a directory service a look-up each.
Account account_of(uid_t uid, gid_t gid, bool with_groups) {
    Account a{std::to_string(uid), "", {}};
    char buffer[16384];
    passwd entry, *found = nullptr;
    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found) {
        a.name = entry.pw_name;
        a.home = entry.pw_dir;
    }
    if (!with_groups) return a;
    std::vector<gid_t> ids(256);
    int count = static_cast<int>(ids.size());
    if (getgrouplist(a.name.c_str(), gid, ids.data(), &count) < 0) count = static_cast<int>(ids.size());
    for (int n = 0; n < count; n++) {
        group g, *at = nullptr;
        std::vector<char> space(1 << 16);
        if (getgrgid_r(ids[static_cast<size_t>(n)], &g, space.data(), space.size(), &at) == 0 && at)
            a.groups.push_back(g.gr_name);
    }
    return a;
}

// What the job's user writes to, made by root in root's folder and handed over.
Status make_user_file(const std::string& path, uint64_t bytes, const void* head, size_t head_bytes, uid_t uid,
                      gid_t gid) {
    Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return os_error("make", path);
    // Allocated in full: writing to a hole of a full file system through a map would kill the job.
    if (bytes && posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)) != 0)
        return Error{path + ": no space in the run-time folder"};
    if (head_bytes && pwrite(fd.get(), head, head_bytes, 0) != static_cast<ssize_t>(head_bytes))
        return os_error("write", path);
    if (fchown(fd.get(), uid, gid) != 0) return os_error("chown", path);
    return Done{};
}

// Every value is the user's or Slurm's: nothing is used before it is checked here.
Status Attach::check() {
    job_ = request_.get("job");
    if (!valid_job(job_)) return Error{"invalid job id in the request"};
    auto restart = parse_count(request_.get("restart", "0"), 0, 1u << 30);
    auto uid = parse_count(request_.get("uid"), 0, UINT32_MAX - 1),
         gid = parse_count(request_.get("gid"), 0, UINT32_MAX - 1);
    if (!restart || !uid || !gid) return Error{who("invalid uid, gid or restart count in the request")};
    restart_ = static_cast<int64_t>(*restart);
    uid_ = static_cast<uid_t>(*uid);
    gid_ = static_cast<gid_t>(*gid);
    if (geteuid() != 0 && uid_ != geteuid()) return Error{who("only root attaches for another user")};
    std::map<std::string, std::string> raw;
    for (const OptionName& option : option_names)
        if (std::string key = std::string("option.") + option.name; request_.has(key))
            raw[option.name] = request_.get(key);
    auto options = parse_options(raw, settings_.user ? "--" : "--monarch-");
    if (!options) return Error{options.error()};
    options_ = std::move(*options);
    if (options_.datasets.empty()) return Error{who("no data set in the request")};
    return Done{};
}

void Attach::resolve(Wanted& w) {
    switch (w.spec.kind) {
        case SpecKind::path:
            w.source = w.spec.path;
            break;
        case SpecKind::url:
            w.refused = "URL sources are not served by this version: use a path";
            break;
        case SpecKind::catalog: {
            const CatalogEntry* entry = settings_.catalog.find(w.spec.name);
            if (!settings_.catalog_error.empty()) {
                w.refused = settings_.catalog_error;
                break;
            }
            if (!entry) {
                w.refused = "not in this node's catalog: see monarchctl dataset list";
                break;
            }
            w.source = entry->source;
            w.manifest = entry->manifest;
            if (!w.source.starts_with('/'))
                w.refused = "its source is no path: only paths are served by this version";
        }
    }
}

// A tier inside the data set would be listed and copied, and a data set inside a tier could be anybody's
// copies. By the names alone, since root does not touch the source; the stager looks where they lead.
std::string Attach::overlaps(const std::string& source) {
    for (const auto& tier : settings_.config.tiers)
        if (std::string why = overlap(source, tier.name, tier_path(tier, settings_.config)); !why.empty())
            return why;
    return "";
}

// libmonarch.so by a name that LD_PRELOAD can hold: a link in the run-time folder where its own has a space,
// a colon or what the loader expands. "" when there is none.
std::string Attach::library() {
    constexpr std::string_view special = " :$\t\n";
    const std::string& library = settings_.library;
    if (library.find_first_of(special) == std::string::npos) return library;
    std::string link = at_.run + "/libmonarch.so", fresh = link + ".new." + std::to_string(getpid());
    if (link.find_first_of(special) != std::string::npos) return "";
    char target[4096];
    ssize_t n = readlink(link.c_str(), target, sizeof target);
    if (n > 0 && std::string_view(target, static_cast<size_t>(n)) == library) return link;
    if (symlink(library.c_str(), fresh.c_str()) == 0 && rename(fresh.c_str(), link.c_str()) == 0) return link;
    unlink(fresh.c_str());
    return "";
}

void Attach::policy() {
    const auto& rules = settings_.policy.rules;
    bool by_group = std::any_of(rules.begin(), rules.end(), [](const Rule& r) { return !r.groups.empty(); });
    Account account = account_of(uid_, gid_, by_group);
    rule_ = settings_.policy.match({account.name, account.groups, request_.get("partition")});
    results_ = settings_.config.results;
    if (results_.empty() && !account.home.empty())
        results_ = account.home + "/.local/state/monarch/jobs";
    else if (results_.starts_with("~/"))
        results_ = account.home + results_.substr(1);
    if (!results_.empty()) results_ += "/" + job_;
    for (auto& w : wanted_) {
        if (!w.refused.empty()) continue;
        if (!settings_.policy_error.empty()) {
            w.refused = settings_.policy_error;
        } else if (!rule_) {
            w.refused = "no policy rule matches " + account.name + " in partition " +
                        request_.get("partition") + ": ask the administrator";
        } else if (Status s = rule_allows(*rule_, w.spec); !s.ok()) {
            w.refused = s.error();
        } else if (std::string why = overlaps(w.source); !why.empty()) {
            w.refused = why;
        } else if (std::string why = pays(w); !why.empty()) {
            w.refused = why;
        }
    }
}

const std::string& Attach::order_of(const Wanted& w) const {
    auto order = options_.order.find(w.spec.name);
    if (order == options_.order.end()) order = options_.order.find("");
    return order == options_.order.end() ? settings_.config.order : order->second;
}

// The source must never see more than without Monarch: where nobody knows the order, a file is copied ahead
// only if its expected reads on this node, epochs divided by nodes, reach one. Otherwise says why not.
std::string Attach::pays(const Wanted& w) const {
    auto nodes = parse_count(request_.get("nodes", "1"), 0, 1u << 24);
    uint64_t epochs = options_.epochs ? options_.epochs : settings_.config.epochs;
    if (order_of(w) != "auto" || !nodes || *nodes <= epochs) return "";
    return std::to_string(epochs) + " epochs on " + std::to_string(*nodes) +
           " nodes read a file less than once here: say more --monarch-epochs, or the order if you know it";
}

Status Attach::lease_one(Wanted& w, const std::vector<Reservation>& space) {
    Ledger& ledger = node_->ledger;
    LeaseRow row;
    row.job = job_;
    row.restart = restart_;
    row.session = w.session;
    row.node = request_.get("node");
    row.partition = request_.get("partition");
    row.uid = uid_;
    row.name = w.spec.name;
    row.boot_id = boot_id();
    row.attached_at = now_s();
    row.outcome = "attached";
    if (w.refused.empty() && w.new_store && space.empty())
        w.refused = "no space for it on this node's tiers: " + who_holds(*node_);
    if (!w.refused.empty()) {
        row.outcome = "refused";
        row.note = w.refused;
        auto id = ledger.add_lease(row);
        return id ? Status(Done{}) : Status(Error{id.error()});
    }
    if (w.new_store) {
        w.store.uid = uid_;
        w.store.gid = gid_;
        w.store.name = w.spec.name;
        w.store.source = w.source;
        w.store.boot_id = row.boot_id;
        w.store.created_at = row.attached_at;
        w.store.job = job_;
        w.store.tiers = space;
        auto id = ledger.add_store(w.store);
        if (!id) return Error{id.error()};
        w.store.id = *id;
        for (const auto& r : space)
            if (Status s = ledger.reserve(*id, r); !s.ok()) return s;
        w.store.config = stager_config(w).format();
        if (Status s = ledger.set_config(*id, w.store.config); !s.ok()) return s;
    }
    row.store_id = w.store.id;
    auto id = ledger.add_lease(row);
    return id ? Status(Done{}) : Status(Error{id.error()});
}

// Reserves for all data sets of the job in one transaction.
Status Attach::lease() {
    if (Status s = node_->ledger.begin(); !s.ok()) return s;
    size_t stores = 0;
    for (auto& w : wanted_) {
        if (!w.refused.empty()) continue;
        auto held = node_->ledger.find_store(uid_, w.source);
        w.new_store = !held;
        if (held) w.store = std::move(*held);
        stores += w.new_store;
    }
    std::vector<Reservation> space;
    double share = strtod(request_.get("cpu_share", "1").c_str(), nullptr);
    if (!(share > 0 && share <= 1)) share = 1;
    if (stores > 0) space = promise(*node_, options_.capacity, *rule_, share, stores, notes_);
    int session = 0;
    for (auto& w : wanted_) {
        w.session = session;
        if (Status s = lease_one(w, space); !s.ok()) {
            node_->ledger.rollback();
            return s;
        }
        if (w.refused.empty()) session++;
    }
    return node_->ledger.commit();
}

Status Attach::make_tier_folder(const Wanted& w, const Reservation& r) {
    for (const std::string& folder : {r.path, tier_stores(r.path), tier_trash(r.path)}) {
        // Only a tmpfs tier's own folder is made here: a disk tier has them since `tier init`.
        Status s = r.tmpfs ? make_dirs(folder, 0711) : make_dir(folder, 0711, geteuid());
        if (!s.ok()) return s;
    }
    if (Status s = make_dir(tier_store(r.path, w.store.id), 0711, geteuid()); !s.ok()) return s;
    std::string data = tier_data(r.path, w.store.id);
    if (!r.tmpfs) return make_dir(data, 0700, uid_, gid_);
    if (Status s = make_dir(data, 0700); !s.ok()) return s;
    return node_->mount_tmpfs(w.store, r, false);
}

Status Attach::make_store(Wanted& w) {
    for (const auto& r : w.store.tiers)
        if (Status s = make_tier_folder(w, r); !s.ok()) return s;
    std::string dir = node_->at.store(w.store.id);
    if (Status s = make_dir(dir, 0711, geteuid()); !s.ok()) return s;
    if (Status s = make_dir(node_->at.inbox(w.store.id), 0711, geteuid()); !s.ok()) return s;
    if (Status s = node_->write_grant(w.store, false); !s.ok()) return s;
    return make_user_file(node_->at.lock(w.store.id), 0, nullptr, 0, uid_, gid_);
}

Fields Attach::stager_config(const Wanted& w) const {
    Fields f;
    f.add("dir", node_->at.store(w.store.id));
    f.add("name", w.spec.name);
    f.add("node", request_.get("node"));
    f.add("source", w.source);
    f.add("manifest", w.manifest);
    f.add("order", order_of(w));
    uint64_t streams =
        rule_->max_streams ? std::min<uint64_t>(rule_->max_streams, default_streams) : default_streams;
    f.add("streams", std::to_string(streams));
    f.add("bandwidth", std::to_string(rule_->max_bandwidth));
    for (const auto& r : w.store.tiers) {
        f.add("tier", r.tier);
        f.add("data", tier_data(r.path, w.store.id));
        f.add("folder", r.path);
    }
    return f;
}

Status Attach::make_session(Wanted& w) {
    std::string dir = node_->at.session(job_, w.session);
    if (Status s = make_dir(dir, 0711, geteuid()); !s.ok()) return s;
    auto page = std::make_unique<monarch_page>();
    page->magic = MONARCH_PAGE_MAGIC;
    page->version = MONARCH_SHM_VERSION;
    page->bytes = sizeof(monarch_page);
    uint64_t most = rule_->wait_max_s.value_or(default_wait_max_s);
    const Wait& wait = options_.wait_given ? options_.wait : settings_.config.wait;
    uint64_t limit = wait.limit_s ? wait.limit_s : default_wait_max_s;
    page->wait_limit_ns = std::min(limit, most) * 1'000'000'000;
    if (wait.kind == Wait::none) page->wait = MONARCH_WAIT_GO;
    if (Status s = make_user_file(dir + "/page", 0, page.get(), sizeof *page, uid_, gid_); !s.ok()) return s;
    struct {
        uint64_t magic;
        uint32_t version, slots;
    } ring{MONARCH_RING_MAGIC, MONARCH_SHM_VERSION, MONARCH_RING_SLOTS};
    if (Status s = make_user_file(dir + "/ring", sizeof(monarch_ring), &ring, sizeof ring, uid_, gid_);
        !s.ok())
        return s;
    if (Status s = make_user_file(dir + "/note", 0, nullptr, 0, uid_, gid_); !s.ok()) return s;
    Fields map;
    map.add("name", w.spec.name);
    map.add("root", w.source);
    for (const auto& r : w.store.tiers) {
        // libmonarch.so recognises a copy by the path that /proc says, which has no links.
        std::unique_ptr<char, decltype(&free)> data(realpath(tier_data(r.path, w.store.id).c_str(), nullptr),
                                                    &free);
        if (!data) return os_error("resolve", tier_data(r.path, w.store.id));
        map.add("tier", std::string(data.get()) + "/files");
        map.add("ids", std::string(data.get()) + "/ids");
    }
    map.add("lock", node_->at.lock(w.store.id));
    std::string bytes = map.format();
    if (bytes.size() > MONARCH_MAP_BYTES)
        return Error{"the session's map is too long: shorten the tiers' paths"};
    return make_user_file(dir + "/map", 0, bytes.data(), bytes.size(), uid_, gid_);
}

// Puts the session's message into its store's inbox, under the next free number.
Status Attach::post(const Wanted& w) {
    Fields m;
    m.add("session", node_->at.session(job_, w.session));
    m.add("job", job_);
    m.add("attached_at", std::to_string(now_s()));
    const Wait& wait = options_.wait_given ? options_.wait : settings_.config.wait;
    m.add("wait", wait.kind == Wait::automatic ? "auto" : wait.kind == Wait::none ? "none" : "threshold");
    m.add("wait_percent", std::to_string(wait.percent));
    m.add("results", results_);
    std::string inbox = node_->at.inbox(w.store.id), ready = inbox + "/new." + std::to_string(getpid()),
                bytes = m.format();
    if (Status s = make_user_file(ready, 0, bytes.data(), bytes.size(), uid_, gid_); !s.ok()) return s;
    for (unsigned n = 1; n < 1000000; n++) {
        if (renameat2(AT_FDCWD, ready.c_str(), AT_FDCWD, (inbox + "/" + std::to_string(n)).c_str(),
                      RENAME_NOREPLACE) == 0)
            return Done{};
        if (errno != EEXIST) break;
    }
    Error error = os_error("post to", inbox);
    unlink(ready.c_str());
    return error;
}

void Attach::give_up(Wanted& w, const std::string& why) {
    log_line(LOG_ERR, who(printable(w.spec.text) + ": " + why));
    for (const auto& lease : node_->ledger.live_leases_of_job(job_))
        if (lease.store_id == w.store.id) (void)node_->ledger.refuse_lease(lease.id, "failed", why);
    if (node_->ledger.live_leases_of_store(w.store.id).empty() && !node_->ledger.failed())
        node_->drop_store(w.store);
    // Its folder keeps the number that the later sessions count from, and says that there is nothing to wait
    // for.
    std::string dir = node_->at.session(job_, w.session);
    (void)make_dir(dir, 0711, geteuid());
    (void)write_file(dir + "/map", "", 0400, uid_, gid_);
    w.refused = why;
}

Status Attach::write_env() {
    Fields env;
    std::string lib = settings_.library;
    env.add("set", std::string(session_variable) + "=" + at_.job(job_));
    bool served = false;
    for (const auto& w : wanted_) {
        if (!w.source.empty()) env.add("set", w.spec.variable + "=" + w.source);
        if (!w.refused.empty())
            notes_.push_back(printable(w.spec.text) + " is read from its source: " + w.refused);
        else
            served = true;
    }
    if (options_.access == Access::bind)
        notes_.push_back("--monarch-access=bind is not served by this version: preload serves");
    if (options_.keep_given)
        notes_.push_back("--monarch-keep is not served by this version: the store goes with the job");
    if (served && options_.access != Access::none) {
        std::string name = library();
        if (access(lib.c_str(), R_OK) != 0)
            notes_.push_back("libmonarch.so is missing beside monarch-stager: opens go to the source");
        else if (name.empty())
            notes_.push_back(
                "opens go to the source, since the loader cannot preload from a path with a space or "
                "colon: " +
                printable(lib) + ": install Monarch elsewhere, or use another run-time folder");
        else
            env.add("preload", name);
        env.add("bind", lib.substr(0, lib.rfind('/')));
        if (!name.empty() && name != lib) env.add("bind", name.substr(0, name.rfind('/')));
        env.add("bind", at_.job(job_));
        for (const auto& w : wanted_)
            for (const auto& r : w.refused.empty() ? w.store.tiers : std::vector<Reservation>())
                env.add("bind", tier_data(r.path, w.store.id));
    }
    std::set<std::string> said;
    for (const auto& note : notes_) {
        if (!said.insert(note).second) continue;
        if (!settings_.user) log_line(LOG_WARNING, who(note));  // `monarchctl run` says it itself
        env.add("note", note);
    }
    return write_file(at_.job(job_) + "/env", env.format(), 0600);
}

// No lease without a ledger: the job's folder is all, so that its tasks find their data sets and its output
// says why.
int Attach::without_ledger(const std::string& why) {
    for (auto& w : wanted_) {
        if (w.refused.empty()) resolve(w);
        w.refused = why;
    }
    (void)remove_tree(at_.job(job_));
    Status s = make_dirs(at_.jobs(), 0711);
    if (s.ok()) s = make_dir(at_.job(job_), 0711, geteuid());
    if (s.ok()) s = write_env();
    if (s.ok()) return 0;
    log_line(LOG_ERR, printable(who(why)));
    log_line(LOG_ERR, printable(who(s.error())));
    return 1;
}

// Whether every store of the job has its stager; one that has not is given up.
bool Attach::start_stagers() {
    bool all = true;
    for (auto& w : wanted_) {
        if (!w.refused.empty() || (!w.new_store && node_->stager_lives(w.store))) continue;
        Status s = node_->start_stager(w.store);
        if (s.ok()) continue;
        give_up(w, s.error());
        all = false;
    }
    return all;
}

int Attach::run() {
    auto fail = [&](const std::string& why) {
        log_line(LOG_ERR, printable(why));
        return 1;
    };
    Status checked = check();
    if (job_.empty()) return fail(checked.error());
    // What cannot even be read as options is one refused lease, so that the ledger has the job.
    if (!checked.ok())
        wanted_.push_back({{SpecKind::path, request_.get("option.dataset"), "", "", ""},
                           "",
                           "",
                           checked.error(),
                           {},
                           false,
                           -1});
    for (const auto& spec : options_.datasets)
        if (checked.ok()) wanted_.push_back({spec, "", "", "", {}, false, -1});
    auto node = Node::open(settings_.config, settings_.user);
    if (!node) return without_ledger(node.error());
    node_ = std::make_unique<Node>(std::move(*node));
    // Their stores must not serve this job: nobody knows what changed since.
    node_->end_dead_leases();
    // An older run of this job (requeue), or a prolog that ran before: that session is garbage.
    auto older = node_->ledger.live_leases_of_job(job_);
    if (!older.empty())
        node_->end_leases(older, "requeued");
    else
        node_->drop_job_folder(job_);
    for (auto& w : wanted_)
        if (w.refused.empty()) resolve(w);
    policy();
    // From here to the stager's start one attach at a time: another job for the same store finds it whole.
    Fd turn = node_->take_turn();
    node_->settle();  // what others do not need is there for this job
    // The ledger first: a folder that no lease owns is the reaper's.
    if (Status s = lease(); !s.ok()) {
        for (auto& w : wanted_)
            if (w.refused.empty()) w.refused = s.error();
    }
    if (Status s = make_dir(node_->at.job(job_), 0711, geteuid()); !s.ok()) return fail(who(s.error()));
    for (auto& w : wanted_) {
        if (!w.refused.empty()) continue;
        Status s = w.new_store ? make_store(w) : Status(Done{});
        if (s.ok()) s = make_session(w);
        if (s.ok()) s = post(w);
        if (!s.ok()) give_up(w, s.error());
    }
    Status written = write_env();
    // Last, since a stager competes for the processor with what the job's start waits for.
    if (!start_stagers()) written = write_env();
    turn.reset();
    node_->reap_in_background(settings_.reap_arguments);
    return written.ok() ? 0 : fail(who(written.error()));
}

}  // namespace

int attach(const Fields& request, const std::string& config_dir) {
    auto settings = load_settings(request, config_dir);
    if (!settings) {
        log_line(LOG_ERR,
                 "job " + printable(request.get("job")) + ": nothing is staged: " + settings.error());
        return 1;
    }
    return Attach(request, std::move(*settings)).run();
}

int detach(const Fields& request, const std::string& config_dir) {
    std::string job = request.get("job");
    auto settings = load_settings(request, config_dir);
    Status status = settings ? Status(Done{}) : Status(Error{settings.error()});
    if (!valid_job(job)) status = Error{"invalid job id in the request"};
    if (!status.ok()) {
        log_line(LOG_ERR, "detach of job " + printable(job) + ": " + status.error());
        return 1;
    }
    Layout at(settings->config);
    struct stat st;
    // A folder without a session was left by an attach that had no ledger.
    if (lstat(at.session(job, 0).c_str(), &st) != 0 && errno == ENOENT) (void)remove_tree(at.job(job));
    if (lstat(at.ledger().c_str(), &st) != 0) return 0;  // nothing was ever attached here
    auto node = Node::open(settings->config, settings->user);
    if (!node) {
        log_line(LOG_ERR, "detach of job " + job + ": " + node.error());
        return 1;
    }
    auto leases = node->ledger.live_leases_of_job(job);
    node->end_leases(leases, "detached");
    node->drop_job_folder(job);
    node->reap_in_background(settings->reap_arguments);
    return 0;
}

}  // namespace monarch
