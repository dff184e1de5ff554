// Prolog and epilog: one program to run, for less than a second, and nothing of it is waited for longer.
// slurmd starts a process of its own for each, so nothing is known here but the job's ids, the options and
// what slurmd put into the environment; of that only names that no user can set are read.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "core/config.h"
#include "core/fields.h"
#include "core/os.h"
#include "spank/contexts.h"

namespace monarch {
namespace {

constexpr uint64_t patience_ns = 900'000'000;
constexpr size_t max_value_bytes = 65536;
constexpr size_t max_output_bytes = 8192;

// ---- running monarch-stager -----------------------------------------------------------------------------

// Slurm closes descriptor 0 of its helper, so a new descriptor may get a number that the child needs for
// itself.
Fd above_stdio(Fd fd) {
    if (!fd || fd.get() > 2) return fd;
    return Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
}

// A file without a name and not a pipe: writing it cannot block, and no SIGPIPE comes when the reader is
// gone.
Fd request_file(const Fields& request) {
    Fd fd = above_stdio(Fd(memfd_create("monarch-request", MFD_CLOEXEC)));
    if (!fd || !write_all(fd.get(), request.format()) || lseek(fd.get(), 0, SEEK_SET) != 0) return Fd();
    return fd;
}

struct Child {
    const char* const* arguments;
    int input, output, null;
};

// Between fork and exec: system calls alone. A session of its own, since slurmd kills its helper's process
// group.
[[noreturn]] void become(const Child& child) {
    static const char* const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", nullptr};
    setsid();
    umask(022);
    if (chdir("/") != 0) _exit(126);
    if (dup2(child.input, 0) < 0 || dup2(child.null, 1) < 0 || dup2(child.output, 2) < 0) _exit(126);
    if (syscall(SYS_close_range, 3u, ~0u, 0u) != 0)
        for (int fd = 3; fd < 65536; fd++) close(fd);
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; number++) sigaction(number, &standard, nullptr);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(child.arguments[0], const_cast<char* const*>(child.arguments),
           const_cast<char* const*>(environment));
    _exit(127);
}

// Collects what comes until the child has ended or `deadline` is past. True when it has ended, with its wait
// status.
bool collect(pid_t pid, Fd output, uint64_t deadline, std::string& text, int& status) {
    char buffer[4096];
    while (monotonic_ns() < deadline) {
        // The pipe may stay open in a daemon that the child left behind, so its end is not the child's end.
        pollfd wanted = {output.get(), POLLIN, 0};
        poll(&wanted, 1, output ? 5 : 1);
        if (wanted.revents != 0) {
            ssize_t n = read(output.get(), buffer, sizeof buffer);
            if (n > 0 && text.size() + size_t(n) <= max_output_bytes) text.append(buffer, size_t(n));
            if (n > 0) continue;
            if (n == 0 || (errno != EINTR && errno != EAGAIN)) output.reset();
        }
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid) return true;
        if (ended < 0 && errno != EINTR) return false;
    }
    return false;
}

void log_lines(std::string_view text, bool failed) {
    while (!text.empty()) {
        std::string line(text.substr(0, text.find('\n')));
        text.remove_prefix(line.size() < text.size() ? line.size() + 1 : text.size());
        if (line.empty()) continue;
        if (failed)
            slurm_error("monarch: %s", line.c_str());
        else
            slurm_info("monarch: %s", line.c_str());
    }
}

void run_stager(const Settings& settings, const char* verb, const Fields& request) {
    uint64_t deadline = monotonic_ns() + patience_ns;
    std::string job = request.get("job");
    std::string program = find_stager(settings);
    if (program.empty())
        return slurm_error("monarch: job %s: no monarch-stager: install it, or say bin=DIR", job.c_str());

    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return slurm_error("monarch: job %s: no pipe: %m", job.c_str());
    Fd reading = above_stdio(Fd(ends[0])), writing = above_stdio(Fd(ends[1]));
    Fd input = request_file(request);
    Fd null = above_stdio(Fd(open("/dev/null", O_WRONLY | O_CLOEXEC)));
    if (!reading || !writing || !input || !null)
        return slurm_error("monarch: job %s: no descriptor: %m", job.c_str());
    // Only this end is not to block.
    fcntl(writing.get(), F_SETFL, 0);

    const char* arguments[] = {program.c_str(), verb, "--config", settings.config.c_str(), nullptr};
    pid_t pid = fork();
    if (pid < 0) return slurm_error("monarch: job %s: cannot fork: %m", job.c_str());
    if (pid == 0) become({arguments, input.get(), writing.get(), null.get()});
    writing.reset();

    std::string text;
    int status = 0;
    bool ended = collect(pid, std::move(reading), deadline, text, status);
    bool failed = ended && status != 0;
    log_lines(text, failed);
    if (!ended) slurm_info("monarch: job %s: %s goes on in the background", job.c_str(), verb);
    if (failed && text.empty())
        slurm_error("monarch: job %s: %s %s failed (wait status %d)", job.c_str(), program.c_str(), verb,
                    status);
}

// ---- what is asked of it --------------------------------------------------------------------------------

std::string job_id(spank_t spank) {
    uint32_t id = 0;
    return spank_get_item(spank, S_JOB_ID, &id) == ESPANK_SUCCESS ? std::to_string(id) : std::string();
}

std::string from_slurmd(const char* name, const char* older_name = nullptr) {
    const char* value = getenv(name);
    if (value == nullptr && older_name != nullptr) value = getenv(older_name);
    return value != nullptr ? value : std::string();
}

std::string number(const std::string& text) {
    return text.empty() ? "0" : text;
}

// This node's place in a node list such as "a[01-03,7],b", -1 when unknown. By Slurm's own parser, which is
// in the process already; it is no part of the plugin interface, so its absence must not keep the plugin from
// loading.
int place_in(const std::string& nodelist, const std::string& node) {
    using Create = void* (*)(const char*);
    using Find = int (*)(void*, const char*);
    using Destroy = void (*)(void*);
    auto create = reinterpret_cast<Create>(dlsym(RTLD_DEFAULT, "slurm_hostlist_create"));
    auto find = reinterpret_cast<Find>(dlsym(RTLD_DEFAULT, "slurm_hostlist_find"));
    auto destroy = reinterpret_cast<Destroy>(dlsym(RTLD_DEFAULT, "slurm_hostlist_destroy"));
    if (create == nullptr || find == nullptr || destroy == nullptr) return -1;
    void* list = create(nodelist.c_str());
    if (list == nullptr) return -1;
    int place = find(list, node.c_str());
    destroy(list);
    return place;
}

// The job's CPUs on the node at `place`, from "4(x2),1": repeated counts in the order of the node list. 0:
// unknown.
long cpus_at(const std::string& counts, int place) {
    const char* text = counts.c_str();
    for (long before = 0; *text != '\0' && place >= 0;) {
        char* end = nullptr;
        long cpus = strtol(text, &end, 10), repeated = 1;
        if (end == text || cpus <= 0) return 0;
        if (strncmp(end, "(x", 2) == 0) {
            repeated = strtol(end + 2, &end, 10);
            if (*end != ')' || repeated <= 0) return 0;
            end++;
        }
        if (place - before < repeated) return cpus;
        before += repeated;
        if (*end != ',') return 0;
        text = end + 1;
    }
    return 0;
}

void add_place(const std::string& node, Fields& request) {
    std::string nodelist = from_slurmd("SLURM_JOB_NODELIST", "SLURM_NODELIST");
    request.add("nodelist", nodelist);
    int place = place_in(nodelist, node);
    if (place < 0) return;
    request.add("node_index", std::to_string(place));
    long cpus = cpus_at(from_slurmd("SLURM_JOB_CPUS_PER_NODE"), place), all = sysconf(_SC_NPROCESSORS_ONLN);
    if (cpus <= 0 || all <= 0) return;
    char share[32];
    snprintf(share, sizeof share, "%.6f", cpus < all ? double(cpus) / double(all) : 1.0);
    request.add("cpu_share", share);
}

bool is_clean(const std::string& value) {
    if (value.size() > max_value_bytes) return false;
    for (unsigned char c : value)
        if (c < 0x20 || c == 0x7f) return false;
    return true;
}

void add_options(spank_t spank, const std::string& job, Fields& request) {
    for (size_t i = 0; i < option_count; i++) {
        std::optional<std::string> value = given_option(spank, i);
        if (!value) continue;
        std::string key = std::string("option.") + option_names[i].name;
        if (is_clean(*value))
            request.add(key, *value);
        else
            slurm_error("monarch: job %s: --monarch-%s is too long or has control characters: left out",
                        job.c_str(), option_names[i].name);
    }
}

bool has_folder(const std::string& run, const std::string& job) {
    struct stat info;
    return lstat((run + "/jobs/" + job).c_str(), &info) == 0;
}

}  // namespace

void node_prolog(spank_t spank, const Settings& settings) {
    if (!given_option(spank, 0)) return;
    uid_t uid;
    gid_t gid;
    std::string job = job_id(spank);
    if (job.empty() || spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_GID, &gid) != ESPANK_SUCCESS)
        return slurm_error("monarch: prolog without the job's ids");
    Fields request;
    request.add("job", job);
    request.add("restart", number(from_slurmd("SLURM_JOB_RESTART_COUNT")));
    request.add("uid", std::to_string(uid));
    request.add("gid", std::to_string(gid));
    request.add("node", node_name());
    add_place(node_name(), request);
    request.add("nodes", number(from_slurmd("SLURM_JOB_NUM_NODES")));
    request.add("partition", from_slurmd("SLURM_JOB_PARTITION"));
    add_options(spank, job, request);
    run_stager(settings, "attach", request);
}

// What is there decides, not the option: a job can lose it on the way, and an epilog can run twice or without
// a prolog.
void node_epilog(spank_t spank, const Settings& settings) {
    std::string job = job_id(spank), node = node_name();
    if (job.empty()) return;
    Result<Config> config = load_config(settings.config, node);
    if (config && !has_folder(config->run, job) && !given_option(spank, 0)) return;
    Fields request;
    request.add("job", job);
    request.add("node", node);
    run_stager(settings, "detach", request);
}

}  // namespace monarch
