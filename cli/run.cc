// monarchctl run: the whole life of a session around one command, without Slurm, root, daemon or
// configuration.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/session.h"
#include "core/config.h"
#include "core/layout.h"
#include "core/ledger.h"
#include "core/options.h"
#include "core/os.h"
#include "core/tier.h"
#include "core/units.h"

namespace monarch::cli {
namespace {

struct RunOptions {
    std::map<std::string, std::string> given;  // option name → text
    std::vector<std::string> datasets, tiers;
    std::string ranks, report;
    std::vector<std::string> command;
};

struct UserTier {
    std::string name, path, capacity;
};

// NAME=PATH[:SIZE]; a path with a colon needs its size. A relative path counts from the working folder.
Result<UserTier> parse_tier(const std::string& text) {
    size_t equals = text.find('=');
    Error wrong{"--tier=" + brief(text) +
                " is not NAME=PATH[:SIZE]: as in --tier nvme=/local/scratch:100GiB"};
    if (equals == std::string::npos || equals == 0) return wrong;
    UserTier tier{text.substr(0, equals), text.substr(equals + 1), "90%"};
    size_t colon = tier.path.rfind(':');
    if (colon != std::string::npos) {
        tier.capacity = tier.path.substr(colon + 1);
        tier.path.resize(colon);
    }
    if (tier.path.empty()) return wrong;
    tier.path = path_from_here(tier.path);
    if (auto size = parse_size(tier.capacity); !size)
        return Error{"--tier=" + brief(text) + ": " + size.error()};
    while (tier.path.size() > 1 && tier.path.ends_with('/')) tier.path.pop_back();
    return tier;
}

Result<std::vector<UserTier>> tiers_of(const RunOptions& options) {
    std::vector<UserTier> tiers;
    for (const auto& text : options.tiers) {
        auto tier = parse_tier(text);
        if (!tier) return Error{tier.error()};
        for (const auto& other : tiers)
            if (other.name == tier->name)
                return Error{"--tier: two tiers named " + brief(tier->name) + ": give each its own name"};
            else if (other.path == tier->path)
                return Error{"--tier: two tiers in " + brief(tier->path) + ": give each its own folder"};
        tiers.push_back(*tier);
    }
    if (tiers.size() > MONARCH_MAX_TIERS)
        return Error{"--tier: more than " + std::to_string(MONARCH_MAX_TIERS) + " tiers: name fewer"};
    if (tiers.empty()) tiers.push_back({"tmp", user_tier_path(), "50%"});
    return tiers;
}

// LIST/WORLD, as 2,3/8: the ranks that run here, of so many in all.
Status check_ranks(const std::string& text) {
    Error wrong{"--ranks=" + brief(text) + " is not LIST/WORLD: as in --ranks 2,3/8"};
    size_t slash = text.find('/');
    if (slash == std::string::npos) return wrong;
    auto world = parse_count(text.substr(slash + 1), 1, 1u << 24);
    if (!world) return wrong;
    std::string list = text.substr(0, slash);
    for (size_t at = 0; at <= list.size();) {
        size_t comma = std::min(list.find(',', at), list.size());
        if (!parse_count(list.substr(at, comma - at), 0, *world - 1)) return wrong;
        at = comma + 1;
    }
    return Done{};
}

Fields request_of(const RunOptions& options, const Context& context, const std::string& job) {
    Fields r;
    r.add("job", job);
    r.add("uid", std::to_string(geteuid()));
    r.add("gid", std::to_string(getegid()));
    r.add("node", this_node());
    r.add("state", user_state());
    r.add("run", user_state() + "/run");
    r.add("results", user_state() + "/jobs");
    if (access((context.config_dir + "/datasets.d").c_str(), R_OK) == 0) r.add("catalog", context.config_dir);
    for (const auto& [name, text] : options.given) r.add("option." + name, text);
    return r;
}

// What attach left for the command's environment (core/request.h).
void apply_environment(const Fields& env) {
    for (const auto& [key, value] : env.items()) {
        if (key == "set") {
            size_t equals = value.find('=');
            setenv(value.substr(0, equals).c_str(), value.substr(equals + 1).c_str(), 1);
        } else if (key == "preload") {
            const char* before = getenv("LD_PRELOAD");
            setenv("LD_PRELOAD", (before && *before ? std::string(before) + ":" + value : value).c_str(), 1);
        } else if (key == "bind") {
            for (const char* name : {"APPTAINER_BIND", "SINGULARITY_BIND"}) {
                const char* before = getenv(name);
                setenv(name, (before && *before ? std::string(before) + "," + value : value).c_str(), 1);
            }
        } else if (key == "note") {
            fprintf(stderr, "monarchctl: %s\n", value.c_str());
        }
    }
}

pid_t child = 0;
void pass_on(int signal) {
    if (child > 0) kill(child, signal);
}

// Runs the command in the foreground; signals that would end this program go to it. Returns the shell's exit
// status.
int run_command(const std::vector<std::string>& command, const Fields& env) {
    std::vector<char*> argv;
    for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    // Those that the caller ignores (nohup) stay ignored, here and in the command. None is lost before the
    // command is there.
    constexpr int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}, terminal[] = {SIGINT, SIGQUIT};
    sigset_t block, before;
    sigemptyset(&block);
    for (int s : passed) sigaddset(&block, s);
    sigprocmask(SIG_BLOCK, &block, &before);
    struct sigaction action {
    }, old[NSIG];
    for (int s : passed) {
        action.sa_handler = pass_on;
        sigaction(s, nullptr, &old[s]);
        if (old[s].sa_handler != SIG_IGN) sigaction(s, &action, nullptr);
    }
    // The terminal sends these to the command as well.
    action.sa_handler = SIG_IGN;
    for (int s : terminal) sigaction(s, &action, &old[s]);
    child = fork();
    if (child < 0) return fail(std::string("cannot start the command: ") + strerror(errno));
    if (child == 0) {
        for (int s : passed) sigaction(s, &old[s], nullptr);
        for (int s : terminal) sigaction(s, &old[s], nullptr);
        sigprocmask(SIG_SETMASK, &before, nullptr);
        apply_environment(env);
        execvp(argv[0], argv.data());
        int error = errno;
        fprintf(stderr, "monarchctl: cannot run %s: %s\n", printable(command[0]).c_str(), strerror(error));
        _exit(error == ENOENT ? 127 : 126);
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What the stagers found out since attach, by the sessions' numbers: one line each, "" when there is nothing
// to say. A command may be over before its data set could be looked at: that gets half a second.
std::vector<std::string> stager_notes(const std::string& job) {
    std::vector<std::string> notes;
    uint64_t until = monotonic_ns() + 500'000'000;
    for (const auto& dir : sessions_of(user_state() + "/run/jobs/" + job)) {
        auto page = read_session_page(dir);
        while (page && page->state == MONARCH_STARTING && monotonic_ns() < until) {
            usleep(5000);
            page = read_session_page(dir);
        }
        notes.push_back(printable(session_note(dir)));
        auto map = read_map(dir);
        if (!notes.back().empty())
            fprintf(stderr, "monarchctl: data set %s: %s\n", map ? printable(map->get("name")).c_str() : "",
                    notes.back().c_str());
    }
    return notes;
}

// The job's sessions with their counters, and their sums, from the user's ledger. `notes` as above.
Status write_run_report(const std::string& file, const std::string& job, int status,
                        const std::vector<std::string>& notes) {
    nlohmann::ordered_json j{{"job", job}, {"exit_status", status}};
    Counters sum{};
    auto sessions = nlohmann::ordered_json::array();
    std::string predictor;
    auto ledger = Ledger::open(Layout(user_state() + "/run", user_state()).ledger());
    if (!ledger) return Error{ledger.error()};
    for (const auto& lease : ledger->leases_of_job(job)) {
        size_t number = static_cast<size_t>(lease.session);
        bool said = lease.store_id && lease.note.empty() && number < notes.size();
        nlohmann::ordered_json s{{"dataset", printable(lease.name)},
                                 {"outcome", lease.outcome},
                                 {"note", said ? notes[number] : printable(lease.note)},
                                 {"predictor", lease.predictor}};
        for (size_t n = 0; n < counter_names.size(); n++) {
            s[counter_names[n]] = counter(lease.counters, n);
            counter(sum, n) += counter(lease.counters, n);
        }
        predictor = lease.predictor;
        sessions.push_back(s);
    }
    for (size_t n = 0; n < counter_names.size(); n++) j[counter_names[n]] = counter(sum, n);
    j["predictor"] = predictor;
    j["sessions"] = sessions;
    return write_file(file, j.dump(2) + "\n", 0644);
}

int run(RunOptions options, const Context& context) {
    if (options.command.empty())
        return misuse("no command: as in `monarchctl run --dataset /data/images -- python3 train.py`");
    for (const auto& text : options.datasets) {
        std::string& all = options.given["dataset"];
        all += (all.empty() ? "" : ",") + datasets_from_here(text, context);
    }
    auto parsed = parse_options(options.given, "--");
    if (!parsed) return misuse(parsed.error());
    if (parsed->datasets.empty())
        return misuse("--dataset is missing: name what the command reads, as --dataset /data/images");
    auto tiers = tiers_of(options);
    if (!tiers) return misuse(tiers.error());
    for (const auto& [tier, size] : parsed->capacity.by_tier)
        if (std::none_of(tiers->begin(), tiers->end(), [&](const UserTier& t) { return t.name == tier; }))
            return misuse("--capacity: no tier " + brief(tier) + ": name one given by --tier");
    if (!options.ranks.empty())
        if (Status s = check_ranks(options.ranks); !s.ok()) return misuse(s.error());
    if (!options.report.empty())
        if (Status s = write_file(options.report, "{}\n", 0644); !s.ok())
            return fail("--report: " + s.error());
    // The stager tells by the name whether this process still lives.
    std::string job = "run-" + std::to_string(now_s()) + "-" + std::to_string(getpid()) + "-" +
                      std::to_string(process_start(getpid()));
    if (Status s = make_dirs(user_state(), 0700); !s.ok())
        return fail(s.error() + ": set XDG_STATE_HOME to a folder of yours");
    Fields request = request_of(options, context, job);
    for (const auto& t : *tiers) {
        request.add("tier", t.name);
        request.add("path", t.path);
        request.add("capacity", t.capacity);
    }
    Fields env;
    if (call_stager({"attach", "--user"}, request.format()) == 0) {
        auto bytes = read_file(user_state() + "/run/jobs/" + job + "/env", 1 << 20);
        if (auto fields = bytes ? Fields::parse(*bytes) : Result<Fields>(Error{bytes.error()}); fields)
            env = std::move(*fields);
    } else {
        fprintf(stderr, "monarchctl: nothing is staged (see the line above): the command reads the source\n");
    }
    int status = run_command(options.command, env);
    auto notes = stager_notes(job);
    call_stager({"detach", "--user"}, request.format());
    if (!options.report.empty())
        if (Status s = write_run_report(options.report, job, status, notes); !s.ok())
            fail("--report: " + s.error());
    return status;
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("run", "Stage data sets for one command, without Slurm");
    command->footer(
        "The command's own opens reach the local copies. Exit status: the command's.\n"
        "Examples:\n"
        "  monarchctl run --dataset /data/images -- python3 train.py\n"
        "  monarchctl run --dataset /data/images --tier ram=/dev/shm/me:8GiB --tier ssd=/scratch/me -- "
        "./train\n"
        "  monarchctl run --dataset /data/images --capacity 10GiB --wait all --report r.json -- ./train");
    auto options = std::make_shared<RunOptions>();
    for (const OptionName& option : option_names) {
        std::string name = option.name;
        if (name == "ranks") continue;
        if (name == "dataset") {
            command
                ->add_option("--dataset", options->datasets,
                             "What to stage: a catalog name, a path (a relative one counts from here) or a "
                             "URL; repeat "
                             "for more")
                ->type_name(option.argument)
                ->take_all();
            continue;
        }
        command
            ->add_option_function<std::string>(
                "--" + name, [=](const std::string& text) { options->given[name] = text; }, option.help)
            ->type_name(option.argument);
    }
    command
        ->add_option("--tier", options->tiers,
                     "A tier, fastest first; repeat for more (default: one in the temporary folder)")
        ->type_name("NAME=PATH[:SIZE]")
        ->take_all();
    command
        ->add_option("--ranks", options->ranks,
                     "The ranks that run here, of how many (for orders that depend on it)")
        ->type_name("LIST/WORLD");
    command
        ->add_option("--report", options->report,
                     "Write the session's counters there when the command has ended")
        ->type_name("FILE.json");
    command->add_option("command", options->command, "The command and its arguments, after --")
        ->type_name("-- COMMAND...");
    command->positionals_at_end();
    command->callback([=, &context] { context.action = [=, &context] { return run(*options, context); }; });
}

}  // namespace monarch::cli
