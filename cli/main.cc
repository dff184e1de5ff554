#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "cli/cli.h"
#include "core/units.h"

#ifndef MONARCH_SYSCONFDIR
#define MONARCH_SYSCONFDIR "/etc"
#endif
#ifndef MONARCH_VERSION
#define MONARCH_VERSION "unknown"
#endif

namespace {

using monarch::cli::Context;

// Nothing that runs as root takes its configuration from the environment.
std::string default_config() {
    const char* chosen = geteuid() != 0 ? getenv("MONARCH_CONFIG") : nullptr;
    return chosen && *chosen ? chosen : MONARCH_SYSCONFDIR "/monarch";
}

void add_subcommands(CLI::App& app, Context& context) {
    using namespace monarch::cli;
    for (auto add : {add_run, add_status, add_plan, add_wait, add_dataset, add_tier, add_policy})
        add(app, context);
}

void describe(CLI::App& app, Context& context) {
    app.name("monarchctl");
    app.footer(
        "Examples:\n"
        "  monarchctl dataset list                          what can be staged by name\n"
        "  monarchctl run --dataset /data/images -- ./train.sh   stage for one command, without Slurm\n"
        "  monarchctl status                                this node's tiers, stores and sessions\n"
        "  monarchctl tier init                             make this node's tiers usable (as root)\n"
        "\n"
        "`monarchctl SUBCOMMAND --help` has more. Exit status: 0 done, 1 it failed, 2 the call was wrong.\n"
        "See monarchctl(1) and monarch.toml(5).");
    app.add_option("--config", context.config_dir,
                   "Configuration folder (environment, not for root: MONARCH_CONFIG)")
        ->type_name("DIR")
        ->capture_default_str();
    app.set_version_flag("--version", "monarchctl " MONARCH_VERSION, "Print the version and exit");
    app.set_help_all_flag("--help-all", "Print the help of every subcommand and exit");
    app.require_subcommand(1);
    app.fallthrough();  // --config may stand after the subcommand, too
}

// The words of the line up to the last subcommand, for the advice to look at its help.
std::string command_of(const CLI::App& app) {
    std::string words = app.get_name();
    for (const CLI::App* command : app.get_subcommands()) words += " " + command_of(*command);
    return words;
}

int parse_error(const CLI::App& app, const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help or version
    std::string what = error.what();
    std::vector<std::string> unknown = app.remaining(true);
    if (dynamic_cast<const CLI::RequiredError*>(&error) && !unknown.empty())
        what = "unknown " + monarch::brief(unknown.front());
    std::replace(what.begin(), what.end(), '\n', ' ');
    return monarch::cli::misuse(monarch::printable(what) + ": see `" + command_of(app) + " --help`");
}

int run(int argc, char** argv) {
    Context context;
    context.config_dir = default_config();
    CLI::App app("Stages data sets to the node-local storage of a cluster's jobs");
    describe(app, context);
    add_subcommands(app, context);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return parse_error(app, error);
    }
    return context.action ? context.action() : 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        return monarch::cli::fail(monarch::printable(error.what()) + ": please report this");
    }
}
