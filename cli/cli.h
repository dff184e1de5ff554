// What the subcommands of monarchctl share. Each lies in its own file and has one function here that
// registers it:
//
//     void add_NAME(CLI::App& app, Context& context) {
//         CLI::App* command = app.add_subcommand("NAME", "One sentence");
//         command->footer("Examples:\n  monarchctl NAME ...");
//         auto options = std::make_shared<NameOptions>();
//         command->add_option("--thing", options->thing, "What it is");
//         add_json_flag(*command, context);
//         command->callback([=, &context] { context.action = [=, &context] { return name(*options, context);
//         }; });
//     }
//
// The action runs when the whole line is known to be right; it returns the exit status: 0 done, 1 it failed,
// 2 the call was wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace monarch::cli {

struct Context {
    std::string config_dir;  // --config, else MONARCH_CONFIG (not as root), else where it was installed
    bool json = false;       // --json
    std::function<int()> action;
};

void add_dataset(CLI::App& app, Context& context);
void add_plan(CLI::App& app, Context& context);
void add_policy(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_status(CLI::App& app, Context& context);
void add_tier(CLI::App& app, Context& context);
void add_wait(CLI::App& app, Context& context);

// --json for a subcommand that prints a table.
void add_json_flag(CLI::App& command, Context& context);

// Prints "monarchctl: MESSAGE" on stderr and returns 1; `message` is "what is wrong: what to do".
int fail(std::string_view message);
// The same for a call that was wrong; returns 2.
int misuse(std::string_view message);

// Data sets as the shell's user means them, for parse_datasets(): an item that is no URL, no catalog name and
// a relative path, or has a ".." in it, becomes an absolute path. A catalog name goes before a file of that
// name.
std::string datasets_from_here(std::string_view text, const Context& context);

// The same for one path.
std::string path_from_here(const std::string& path);

// Slurm's name of this node: SLURMD_NODENAME, else the host name up to its first dot.
std::string this_node();

// One fact: how people read it, and its value in JSON (null, text, number, truth, list).
struct Cell {
    std::string text;
    std::variant<std::nullptr_t, std::string, uint64_t, double, bool, std::vector<std::string>> value;
};
Cell no_cell();                                           // "-", null
Cell text_cell(std::string_view bytes);                   // printable(); "-" for "", "" in JSON
Cell number_cell(uint64_t number);                        // as it stands
Cell bytes_cell(uint64_t bytes);                          // "1.5 GiB", the number in JSON
Cell share_cell(double share);                            // 0.5: "50 %"
Cell yes_cell(bool truth);                                // "yes" or "no"
Cell list_cell(const std::vector<std::string>& strings);  // "a, b"

// Rows of the same facts. In JSON an array of objects under `name`, their keys being the columns' keys.
struct Column {
    std::string key;     // "capacity_bytes"
    std::string header;  // "CAPACITY"; "" = in JSON alone
    bool right = false;  // numbers are aligned at the right
};
struct Table {
    std::string name;  // "tiers"
    std::vector<Column> columns;
    std::vector<std::vector<Cell>> rows;
};

// Prints the tables on stdout, one after the other, or with `json` as one object. Returns 0, or 1 when stdout
// fails.
int print_tables(const std::vector<Table>& tables, bool json);
// Prints the only row of `table` as "header: text" lines, or with `json` as one object.
int print_record(const Table& table, bool json);

}  // namespace monarch::cli
