// monarchctl policy: whether the configuration files are right.
#include <cstdio>

#include "cli/cli.h"
#include "core/config.h"
#include "core/config_toml.h"

namespace monarch::cli {
namespace {

// One file and what is wrong with it; "" when nothing is.
struct Checked {
    std::string file;
    std::string error;
};

template <typename T>
Checked checked(const std::string& file, const Result<T>& loaded) {
    return {file, loaded ? "" : loaded.error()};
}

bool lies_in(const std::string& file, const std::string& folder) {
    std::string parent = file.substr(0, file.rfind('/') == std::string::npos ? 0 : file.rfind('/'));
    return parent == folder || parent.ends_with("/" + folder);
}

// What a file is meant to be is seen in it or, when it has only comments, from its folder.
Checked check_file(const std::string& file) {
    Result<TomlValue> toml = read_toml(file);
    if (!toml) return checked(file, toml);
    bool empty = toml->keys.empty();
    if (toml->find("rule") || (empty && lies_in(file, "policy.d")))
        return checked(file, load_policy_file(file));
    if (toml->find("dataset") || (empty && lies_in(file, "datasets.d")))
        return checked(file, load_catalog_file(file));
    return checked(file, load_config_file(file, this_node()));
}

void check_folder(const std::string& folder, std::vector<Checked>& all) {
    bool present = false;
    Result<std::vector<std::string>> files = toml_files(folder, present);
    if (!files) all.push_back({folder, files.error()});
    if (!files) return;
    for (const std::string& file : *files)
        all.push_back(folder.ends_with("/policy.d") ? checked(file, load_policy_file(file))
                                                    : checked(file, load_catalog_file(file)));
}

// A rule may name tiers that only other nodes have, so this is no error.
void note_unknown_tiers(const std::string& dir) {
    Result<Config> config = load_config(dir, this_node());
    Result<Policy> policy = load_policy(dir);
    if (!config || !policy) return;
    for (const Rule& rule : policy->rules)
        for (const auto& [name, size] : rule.max_capacity) {
            bool known = false;
            for (const TierConfig& tier : config->tiers) known = known || tier.name == name;
            if (!known)
                fprintf(stderr,
                        "monarchctl: %s:%d: note: monarch.toml has no tier '%s': is the name right?\n",
                        printable(rule.file).c_str(), rule.line, name.c_str());
        }
}

std::vector<Checked> check_configuration(const std::string& dir) {
    std::vector<Checked> all;
    all.push_back(checked(dir + "/monarch.toml", load_config(dir, this_node())));
    check_folder(dir + "/policy.d", all);
    check_folder(dir + "/datasets.d", all);
    // Names that two files of the catalog share show only when all are read together.
    bool alone_good = true;
    for (const Checked& one : all) alone_good = alone_good && one.error.empty();
    Result<Catalog> catalog = load_catalog(dir);
    if (alone_good && !catalog) all.push_back({dir + "/datasets.d", catalog.error()});
    note_unknown_tiers(dir);
    return all;
}

int report(const std::vector<Checked>& all, const Context& context) {
    int status = 0;
    Table table{"files", {{"file", "FILE"}, {"ok", "OK"}, {"error", "ERROR"}}, {}};
    for (const Checked& one : all) {
        table.rows.push_back({text_cell(one.file), yes_cell(one.error.empty()), Cell{one.error, one.error}});
        if (!one.error.empty())
            status = fail(one.error);
        else if (!context.json)
            printf("OK %s\n", printable(one.file).c_str());
    }
    if (context.json && print_tables({table}, true) != 0) status = 1;
    return status;
}

int check(const std::vector<std::string>& files, const Context& context) {
    if (files.empty()) return report(check_configuration(context.config_dir), context);
    std::vector<Checked> all;
    for (const std::string& file : files) all.push_back(check_file(file));
    return report(all, context);
}

}  // namespace

void add_policy(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("policy", "The configuration files");
    command->require_subcommand(1);
    command->footer("Examples:\n  monarchctl policy check");

    CLI::App* check_command = command->add_subcommand(
        "check", "Check the configuration folder, or the files given, and say what is wrong");
    auto files = std::make_shared<std::vector<std::string>>();
    check_command->add_option("FILE", *files, "Files to check instead of the whole folder")->type_name("");
    add_json_flag(*check_command, context);
    check_command->footer(
        "Prints \"OK FILE\" for each file that is right and \"FILE:LINE: reason\" for each that is not;\n"
        "exit status 1 when one is not.\n"
        "\n"
        "Examples:\n"
        "  monarchctl policy check\n"
        "  monarchctl policy check 50-gpu.toml.new && mv 50-gpu.toml.new /etc/monarch/policy.d/50-gpu.toml");
    check_command->callback(
        [=, &context] { context.action = [=, &context] { return check(*files, context); }; });
}

}  // namespace monarch::cli
