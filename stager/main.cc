// monarch-stager: called by the plugin, by units and by `monarchctl run`, not by people.
#include <syslog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "core/os.h"
#include "core/units.h"
#include "stager/attach.h"
#include "stager/run.h"

using namespace monarch;

namespace {

constexpr size_t most_request = 1 << 20;

Result<Fields> request_from_stdin() {
    auto bytes = read_fd(STDIN_FILENO, most_request);
    if (!bytes) return Error{bytes.error()};
    return Fields::parse(*bytes);
}

// What has not ended by then hangs on a dead disk or directory service; the next reap takes care of what it
// left.
constexpr unsigned deadline_s = 60;

int with_request(int (*what)(const Fields&, const std::string&), const std::string& config) {
    alarm(deadline_s);
    auto request = request_from_stdin();
    if (request) return what(*request, config);
    log_line(LOG_ERR, "cannot read the request on standard input: " + request.error());
    return 2;
}

int run_from_stdin() {
    auto config = request_from_stdin();
    if (config && config->has("dir")) return run_stager(*config);
    log_line(LOG_ERR, "run: no configuration on standard input: attach starts the stager, not people");
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    signal(SIGPIPE, SIG_IGN);
    CLI::App app{
        "Stages data sets on this node. Started by the Slurm plugin, by units and by monarchctl run."};
    app.set_version_flag("--version", "monarch-stager " MONARCH_VERSION);
    app.require_subcommand(1);
    std::string config = MONARCH_SYSCONFDIR "/monarch", node, user_run, user_state;
    bool user = false, background = false;
    auto* attach_command =
        app.add_subcommand("attach", "Give a job its lease; the request comes on standard input");
    auto* detach_command =
        app.add_subcommand("detach", "End a job's leases; the request comes on standard input");
    auto* run_command =
        app.add_subcommand("run", "Stage one store; the configuration comes on standard input");
    auto* reap_command = app.add_subcommand("reap", "Remove what no live lease owns");
    for (auto* command : {attach_command, detach_command, reap_command})
        command->add_option("--config", config, "Configuration folder")->capture_default_str();
    for (auto* command : {attach_command, detach_command})
        command->add_flag("--user", user,
                          "Without configuration: the request names the folders (monarchctl run)");
    reap_command->add_option("--node", node, "Slurm's name of this node, for %n in the configuration");
    auto* run_folder = reap_command->add_option("--run", user_run, "Run-time folder of monarchctl run");
    reap_command->add_option("--state", user_state, "State folder of monarchctl run")->needs(run_folder);
    reap_command->add_flag(
        "--background", background,
        "Stay until every store has the space that it is to have (attach and detach start it)");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);
        fprintf(stderr, "monarch-stager: %s: see monarch-stager --help\n", printable(e.what()).c_str());
        return 2;
    }
    if (user || !user_run.empty()) config.clear();
    if (*attach_command) return with_request(attach, config);
    if (*detach_command) return with_request(detach, config);
    if (*run_command) return run_from_stdin();
    return reap(config, node, user_run, user_state, background);
}
