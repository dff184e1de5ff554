// monarchctl tier: this node's tiers, and making them usable.
#include "core/tier.h"

#include <cstdio>

#include "cli/cli.h"
#include "core/config.h"

namespace monarch::cli {
namespace {

struct TierOptions {
    std::string node;
    std::string tier;  // "" = all
};

int list(const TierOptions& options, const Context& context) {
    Result<Config> config = load_config(context.config_dir, options.node);
    if (!config) return fail(config.error());
    Table table{"tiers",
                {{"name", "NAME"},
                 {"kind", "KIND"},
                 {"path", "PATH"},
                 {"capacity_bytes", "CAPACITY", true},
                 {"ready", ""},
                 {"state", "STATE"}},
                {}};
    for (const TierConfig& tier : config->tiers) {
        TierState state = inspect_tier(tier, *config);
        table.rows.push_back(
            {text_cell(tier.name), text_cell(tier.tmpfs ? "tmpfs" : "disk"), text_cell(state.path),
             state.ready ? bytes_cell(state.capacity_bytes) : no_cell(), yes_cell(state.ready),
             Cell{state.ready ? "ready" : state.why, state.ready ? "ready" : state.why}});
    }
    return print_tables({table}, context.json);
}

// Makes one tier, says what was done, and returns the exit status.
int init_one(const TierConfig& tier, const Config& config) {
    Result<std::vector<std::string>> done = init_tier(tier, config);
    if (!done) return fail("tier " + tier.name + ": " + done.error());
    for (const std::string& what : *done) printf("%s: %s\n", tier.name.c_str(), what.c_str());
    if (tier.tmpfs) {
        printf("%s: nothing to do, each job's part is mounted when it starts\n", tier.name.c_str());
        return 0;
    }
    TierState state = inspect_tier(tier, config);
    if (!state.ready) return fail("tier " + tier.name + ": " + state.why);
    printf("%s: ready, %s at %s\n", tier.name.c_str(), format_bytes(state.capacity_bytes).c_str(),
           printable(state.path).c_str());
    return 0;
}

int init(const TierOptions& options, const Context& context) {
    Result<Config> config = load_config(context.config_dir, options.node);
    if (!config) return fail(config.error());
    int status = 0;
    bool found = false;
    for (const TierConfig& tier : config->tiers) {
        if (!options.tier.empty() && tier.name != options.tier) continue;
        found = true;
        if (init_one(tier, *config) != 0) status = 1;
    }
    if (!found) return fail("no tier " + brief(options.tier) + ": see `monarchctl tier list`");
    return status;
}

}  // namespace

void add_tier(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("tier", "This node's tiers");
    command->require_subcommand(1);
    command->footer(
        "Examples:\n"
        "  monarchctl tier list\n"
        "  monarchctl tier init --tier nvme     (as root, on each node)");
    auto options = std::make_shared<TierOptions>();
    options->node = this_node();

    CLI::App* list_command = command->add_subcommand("list", "Print the tiers and whether each can be used");
    add_json_flag(*list_command, context);
    list_command->footer("Examples:\n  monarchctl tier list --json");
    list_command->callback(
        [=, &context] { context.action = [=, &context] { return list(*options, context); }; });

    CLI::App* init_command = command->add_subcommand(
        "init", "Make the folder of each disk tier and the marker without which it is not used (as root)");
    init_command->add_option("--tier", options->tier, "Only this tier")->type_name("NAME");
    init_command->footer(
        "Examples:\n"
        "  monarchctl tier init\n"
        "  srun -w node[01-16] monarchctl tier init --tier nvme");
    init_command->callback(
        [=, &context] { context.action = [=, &context] { return init(*options, context); }; });

    for (CLI::App* one : {list_command, init_command})
        one->add_option("--node", options->node, "Slurm's name of this node, for %n in paths")
            ->type_name("NAME")
            ->capture_default_str();
}

}  // namespace monarch::cli
