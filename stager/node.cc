#include "stager/node.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/os.h"
#include "core/tier.h"
#include "core/units.h"
#include "stager/bound.h"

namespace monarch {

namespace {

constexpr uint64_t most_bytes = uint64_t{1} << 62;
constexpr uint64_t stager_memory = uint64_t{2} << 30;
constexpr int lock_fd = 3;  // where the stager inherits its store's lock

// Everything a child must know before fork: after it, only calls that are safe there.
struct Identity {
    uid_t uid;
    gid_t gid;
    std::vector<gid_t> groups;
    std::string home;
};

Identity identity_of(uid_t uid, gid_t gid) {
    Identity who{uid, gid, {gid}, "/"};
    char buffer[16384];
    passwd entry, *found = nullptr;
    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) != 0 || !found) return who;
    who.home = entry.pw_dir;
    int count = 64;
    for (int tries = 0; tries < 2; tries++) {
        who.groups.resize(static_cast<size_t>(count));
        if (getgrouplist(entry.pw_name, gid, who.groups.data(), &count) >= 0) break;
    }
    who.groups.resize(static_cast<size_t>(std::max(0, count)));
    return who;
}

void write_proc(const char* path, const char* text) {
    int fd = ::open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!write(fd, text, strlen(text));
    close(fd);
}

// In the child: become the stager, or end. `input` is the configuration's pipe, `lock` the store's lock.
[[noreturn]] void become_stager(const Identity& who, const std::string& program, int input, int lock) {
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int n = 1; n < NSIG; n++) signal(n, SIG_DFL);
    int null = ::open("/dev/null", O_RDWR);
    // The two that stay are moved out of each other's way first.
    int high_input = fcntl(input, F_DUPFD, 10), high_lock = fcntl(lock, F_DUPFD, 10);
    if (null < 0 || high_input < 0 || high_lock < 0) _exit(1);
    dup2(high_input, 0);
    dup2(null, 1);
    dup2(null, 2);
    dup2(high_lock, lock_fd);
    syscall(SYS_close_range, lock_fd + 1, ~0u, 0);
    write_proc("/proc/self/oom_score_adj", "1000");
    setpriority(PRIO_PROCESS, 0, 10);
    set_io_idle(true);
    umask(077);
    if (chdir("/") != 0) _exit(1);
    if (geteuid() == 0 && who.uid != 0) {
        if (setgroups(who.groups.size(), who.groups.data()) != 0 ||
            setresgid(who.gid, who.gid, who.gid) != 0 || setresuid(who.uid, who.uid, who.uid) != 0)
            _exit(1);
    }
    std::string home = "HOME=" + who.home;
    const char* argv[] = {program.c_str(), "run", nullptr};
    const char* env[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", home.c_str(), nullptr};
    execve(program.c_str(), const_cast<char**>(argv), const_cast<char**>(env));
    _exit(1);
}

Result<Fd> take_lock(const std::string& path) {
    Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return os_error("open", path);
    struct flock whole {};
    whole.l_type = F_WRLCK;
    if (fcntl(fd.get(), F_OFD_SETLK, &whole) != 0) return os_error("a stager holds", path);
    return fd;
}

int pidfd_of(const StoreRow& store) {
    // After a reboot the same pid may have started at the same tick.
    if (store.stager_pid <= 0 || store.boot_id != boot_id()) return -1;
    int fd = static_cast<int>(syscall(SYS_pidfd_open, store.stager_pid, 0));
    // Opened first, compared after: the pid cannot be reused in between.
    if (fd >= 0 && process_start(static_cast<pid_t>(store.stager_pid)) != store.stager_start) {
        close(fd);
        return -1;
    }
    return fd;
}

bool wait_exit(int pidfd, unsigned milliseconds) {
    pollfd p{pidfd, POLLIN, 0};
    uint64_t until = monotonic_ns() + uint64_t{milliseconds} * 1000000;
    for (;;) {
        uint64_t now = monotonic_ns();
        int left = now >= until ? 0 : static_cast<int>((until - now) / 1000000) + 1;
        int n = poll(&p, 1, left);
        if (n > 0) return true;
        if (n == 0 || errno != EINTR) return false;
    }
}

// Tells a session's processes and its stager that it is over.
void mark_ended(const std::string& session_dir) {
    Fd fd(::open((session_dir + "/page").c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    uint32_t one = 1;
    if (fd) (void)!pwrite(fd.get(), &one, sizeof one, offsetof(monarch_page, ended));
}

// Renames `from` into `folder` under a name that is free there.
std::string move_into(const std::string& from, const std::string& folder, const std::string& name) {
    for (unsigned n = 0; n < 1000; n++) {
        std::string to = folder + "/" + name + "." + std::to_string(now_s()) + "." + std::to_string(n);
        if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return to;
        if (errno != EEXIST) return "";
    }
    return "";
}

// `monarchctl run` names its job run-TIME-PID-START after its own process. Whether that process is gone.
bool runner_is_gone(const std::string& job) {
    long long time, pid;
    unsigned long long start;
    int length = 0;
    if (sscanf(job.c_str(), "run-%lld-%lld-%llu%n", &time, &pid, &start, &length) != 3) return false;
    return static_cast<size_t>(length) == job.size() && process_start(static_cast<pid_t>(pid)) != start;
}

}  // namespace

std::vector<std::string> entries_of(const std::string& folder) {
    std::vector<std::string> names;
    DIR* dir = opendir(folder.c_str());
    while (dirent* e = dir ? readdir(dir) : nullptr)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) names.push_back(e->d_name);
    if (dir) closedir(dir);
    return names;
}

PageFacts read_page(const std::string& session_dir) {
    PageFacts facts;
    Fd fd(::open((session_dir + "/page").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    auto page = std::make_unique<monarch_page>();
    if (!fd || pread(fd.get(), page.get(), sizeof *page, 0) != sizeof *page ||
        page->magic != MONARCH_PAGE_MAGIC)
        return facts;
    facts.counters = page->counters;
    for (size_t n = 0; n < counter_names.size(); n++)
        counter(facts.counters, n) = std::min(counter(facts.counters, n), most_bytes);
    facts.predictor =
        printable(std::string_view(page->predictor, strnlen(page->predictor, sizeof page->predictor)));
    facts.drained = page->drained != 0;
    facts.state = std::min<uint32_t>(page->state, MONARCH_FAILED);
    if (page->need_known) {
        facts.need.emplace();
        facts.need->bytes = std::min(page->need_bytes, most_bytes);
        for (size_t t = 0; t < MONARCH_MAX_TIERS; t++)
            facts.need->fixed[t] = std::min(page->need_fixed[t], most_bytes);
    }
    return facts;
}

Result<Node> Node::open(const Config& config, bool user) {
    Layout at(config);
    for (const auto& [path, mode] :
         std::initializer_list<std::pair<std::string, mode_t>>{{at.state, 0711},
                                                               {at.state + "/ledger", 0700},
                                                               {at.run, 0755},
                                                               {at.jobs(), 0711},
                                                               {at.stores(), 0711},
                                                               {at.run_trash(), 0700}}) {
        struct stat st;
        if (lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid()) continue;
        if (Status s = make_dirs(path, mode); !s.ok()) return Error{s.error()};
        if (lstat(path.c_str(), &st) != 0 || st.st_uid != geteuid())
            return Error{path + " belongs to uid " + std::to_string(st.st_uid) + ": give it to uid " +
                         std::to_string(geteuid())};
        (void)chmod(path.c_str(), mode);
    }
    auto ledger = Ledger::open(at.ledger());
    if (!ledger) return Error{ledger.error()};
    return Node(config, std::move(*ledger), user);
}

Status Node::start_stager(const StoreRow& store) {
    Identity who = identity_of(static_cast<uid_t>(store.uid), static_cast<gid_t>(store.gid));
    std::string program = program_dir() + "/monarch-stager";
    auto lock = take_lock(at.lock(store.id));
    if (!lock) return Error{lock.error()};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return os_error("make", "a pipe");
    Fd read_end(ends[0]), write_end(ends[1]);
    fcntl(write_end.get(), F_SETPIPE_SZ, 1 << 20);
    pid_t pid = fork();
    if (pid < 0) return os_error("fork", "");
    if (pid == 0) become_stager(who, program, read_end.get(), lock->get());
    // The pid is recorded before the stager has its configuration: one that the ledger does not know never
    // runs.
    Status recorded = ledger.set_stager(store.id, pid, process_start(pid));
    if (!recorded.ok()) {
        kill(pid, SIGKILL);
        return recorded;
    }
    // Its tmpfs is charged to it, and what it knows of the files.
    uint64_t memory = stager_memory;
    for (const auto& r : store.tiers) memory += r.tmpfs ? r.most : 0;
    if (!user) bind_memory(cgroup_prefix(), pid, memory);
    if (!write_all(write_end.get(), store.config)) return os_error("write", "to the stager");
    return Done{};
}

bool Node::stager_lives(const StoreRow& store) const {
    int fd = pidfd_of(store);
    if (fd < 0) return false;
    close(fd);
    return true;
}

// Several nodes may run on one host.
std::string Node::cgroup_prefix() const {
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx",
             static_cast<unsigned long long>(monarch_hash(at.run.data(), at.run.size())));
    return "monarch-stager-" + std::string(hash, 8) + "-";
}

size_t Node::remove_cgroups() {
    if (user) return 0;
    std::set<pid_t> live;
    for (const auto& store : ledger.stores()) live.insert(static_cast<pid_t>(store.stager_pid));
    return unbind_memory(cgroup_prefix(), live);
}

void Node::stop_stager(const StoreRow& store, unsigned milliseconds) {
    Fd fd(pidfd_of(store));
    if (!fd) return;
    syscall(SYS_pidfd_send_signal, fd.get(), SIGTERM, nullptr, 0);
    bool ended = wait_exit(fd.get(), milliseconds);
    if (!ended) {
        syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0);
        ended = wait_exit(fd.get(), 100);
    }
    if (!ended)
        log_line(LOG_WARNING, "stager " + std::to_string(store.stager_pid) + " of store " +
                                  std::to_string(store.id) +
                                  " hangs in the source and ends when the source answers");
}

void Node::drop_store(const StoreRow& store) {
    std::string id = std::to_string(store.id);
    if (Status s = ledger.begin(); !s.ok())
        return log_line(LOG_ERR, "store " + id + " not dropped: " + s.error());
    for (const auto& tier : store.tiers) {
        std::string to = move_into(tier_store(tier.path, store.id), tier_trash(tier.path), id);
        // Whoever was killed here before has moved it: the row makes the reaper look into that trash folder.
        if (to.empty()) to = tier_trash(tier.path) + "/" + id;
        (void)ledger.add_trash({to, tier.path, tier.tmpfs, tier.bytes});
    }
    move_into(at.store(store.id), at.run_trash(), "store" + id);
    (void)ledger.remove_store(store.id);
    if (Status s = ledger.commit(); !s.ok()) log_line(LOG_ERR, "store " + id + " not dropped: " + s.error());
}

void Node::drop_job_folder(const std::string& job) {
    move_into(at.job(job), at.run_trash(), "job" + job);
}

Fd Node::lock_file(const std::string& name) const {
    return Fd(
        ::open((at.state + "/ledger/" + name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

Fd Node::take_turn() {
    Fd turn = lock_file("turn.lock");
    return turn && lock_within(turn.get(), 2000) ? std::move(turn) : Fd();
}

void Node::keep_staging(const StoreRow& store) {
    if (stager_lives(store)) return;
    if (start_stager(store).ok())
        log_line(LOG_WARNING, "stager of store " + std::to_string(store.id) + " had ended: started again");
}

void Node::end_leases(const std::vector<LeaseRow>& leases, const std::string& outcome) {
    std::set<int64_t> stores, ids, draining;
    std::set<std::string> jobs;
    for (const auto& lease : leases) {
        mark_ended(at.session(lease.job, static_cast<int>(lease.session)));
        if (lease.store_id) stores.insert(*lease.store_id);
        jobs.insert(lease.job);
        ids.insert(lease.id);
    }
    // A store that others hold goes on: its stager drains the ended session within a tick or two.
    for (int64_t id : stores) {
        auto others = ledger.live_leases_of_store(id);
        bool held =
            std::any_of(others.begin(), others.end(), [&](const LeaseRow& o) { return !ids.contains(o.id); });
        auto row = ledger.store(id);
        if (!row) continue;
        if (!held)
            stop_stager(*row, 400);
        else if (stager_lives(*row))
            draining.insert(id);
    }
    uint64_t until = monotonic_ns() + 200'000'000;
    for (const auto& lease : leases) {
        std::string dir = at.session(lease.job, static_cast<int>(lease.session));
        // A refused one has no session, and its number may be another's.
        PageFacts facts = lease.store_id ? read_page(dir) : PageFacts{};
        while (lease.store_id && draining.contains(*lease.store_id) && !facts.drained &&
               monotonic_ns() < until) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            facts = read_page(dir);
        }
        const std::string& kept = lease.outcome == "attached" ? outcome : lease.outcome;
        if (Status s = ledger.end_lease(lease.id, kept, facts.counters, facts.predictor); !s.ok())
            log_line(LOG_ERR, s.error());
    }
    // Looked at again: an attach may have come to the store while its stager was being stopped.
    Fd turn = take_turn();
    for (int64_t id : stores) {
        auto row = ledger.store(id);
        if (!row) continue;
        bool held = !ledger.live_leases_of_store(id).empty();
        if (ledger.failed()) continue;  // nobody can tell: the next reap looks again
        if (held)
            keep_staging(*row);
        else
            drop_store(*row);
    }
    for (const auto& job : jobs) drop_job_folder(job);
}

size_t Node::end_dead_leases() {
    std::vector<LeaseRow> rebooted, lost;
    for (auto& lease : ledger.live_leases()) {
        if (lease.boot_id != boot_id())
            rebooted.push_back(std::move(lease));
        else if (user && runner_is_gone(lease.job))
            lost.push_back(std::move(lease));
    }
    if (!rebooted.empty()) end_leases(rebooted, "rebooted");
    if (!lost.empty()) end_leases(lost, "lost");
    return rebooted.size() + lost.size();
}

void Node::reap_in_background(const std::vector<std::string>& arguments) {
    std::string program = program_dir() + "/monarch-stager";
    std::vector<const char*> argv = {program.c_str(), "reap", "--background"};
    for (const auto& a : arguments) argv.push_back(a.c_str());
    argv.push_back(nullptr);
    pid_t pid = fork();
    if (pid != 0) return;  // nobody waits for it: this process ends at once
    setsid();
    int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    syscall(SYS_close_range, 3, ~0u, 0);
    if (chdir("/") != 0) _exit(1);
    const char* env[] = {"PATH=/usr/bin:/bin", nullptr};
    execve(program.c_str(), const_cast<char**>(argv.data()), const_cast<char**>(env));
    _exit(1);
}

namespace {
// A tier of `monarchctl run`: its folder is made when it is missing, and needs no marker.
TierState user_tier(const TierConfig& tier) {
    TierState state{tier.path, false, "", 0};
    struct statvfs fs;
    for (const std::string& folder : {tier.path, tier_stores(tier.path), tier_trash(tier.path)})
        if (Status s = make_dirs(folder, 0700); !s.ok()) state.why = s.error();
    if (statvfs(tier.path.c_str(), &fs) != 0) return state;
    state.ready = state.why.empty();
    state.capacity_bytes =
        std::min<uint64_t>(tier.capacity.of(fs.f_blocks * fs.f_frsize), fs.f_blocks * fs.f_frsize);
    return state;
}
}  // namespace

std::vector<TierUse> tier_use(Node& node) {
    std::vector<TierUse> list;
    for (const auto& tier : node.config.tiers) {
        TierState state = node.user ? user_tier(tier) : inspect_tier(tier, node.config);
        list.push_back(
            {tier, state.path, state.ready, state.why, state.capacity_bytes, node.ledger.used(state.path)});
    }
    return list;
}

void Node::publish_status() {
    Fd turn = take_turn();
    nlohmann::ordered_json j;
    j["updated_at"] = now_s();
    j["tiers"] = nlohmann::json::array();
    for (const auto& t : tier_use(*this))
        j["tiers"].push_back({{"name", t.tier.name},
                              {"ready", t.ready},
                              {"why", printable(t.why)},
                              {"capacity_bytes", t.capacity},
                              {"used_bytes", t.used}});
    j["leases"] = nlohmann::json::array();
    for (const auto& lease : ledger.live_leases()) {
        nlohmann::ordered_json l{{"job", lease.job},
                                 {"session", lease.session},
                                 {"uid", lease.uid},
                                 {"attached_at", lease.attached_at}};
        if (lease.store_id) l["store"] = *lease.store_id;
        PageFacts facts = read_page(at.session(lease.job, static_cast<int>(lease.session)));
        for (size_t n = 0; n < counter_names.size(); n++) l[counter_names[n]] = counter(facts.counters, n);
        j["leases"].push_back(l);
    }
    if (Status s = write_file(at.status(),
                              j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", 0644);
        !s.ok())
        log_line(LOG_WARNING, s.error());
}

}  // namespace monarch
