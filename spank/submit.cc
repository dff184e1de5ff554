// sbatch, salloc and srun: which options hold, and whether the job may be submitted with them.
//
// Slurm keeps an option for what is started inside the job in two environment variables (settings.h). srun
// needs them, since it may be the one that brings the job's options to a node's prolog; for an sbatch or
// salloc inside a job they would ask for a data set that nobody asked for in the new job.
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "core/os.h"
#include "core/units.h"
#include "spank/contexts.h"

namespace monarch {
namespace {

using Values = std::array<std::optional<std::string>, option_count>;
constexpr size_t dataset = 0;

constinit Values on_command_line;  // or on an #SBATCH line
constinit Values inherited;        // srun: the allocation's

std::optional<std::string> environment(const std::string& name) {
    const char* value = getenv(name.c_str());
    return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
}

bool inside_allocation() {
    return getenv("SLURM_JOB_ID") != nullptr;
}

// What sbatch, salloc and srun exit with when they fail by themselves.
int failure_status() {
    const char* text = getenv("SLURM_EXIT_ERROR");
    int status = text != nullptr ? atoi(text) : 0;
    return status != 0 ? status : 1;
}

// Ends the program. A failure returned from here would only count for a plugin that plugstack.conf calls
// required, and Slurm would add lines of its own.
[[noreturn]] void leave(int status) {
    fflush(stdout);
    exit(status);
}

[[noreturn]] void refuse(const std::string& why) {
    slurm_error("monarch: %s", why.c_str());
    leave(failure_status());
}

// ---- the catalog, printed -------------------------------------------------------------------------------

[[noreturn]] void print_catalog(const Settings& settings) {
    Result<Catalog> catalog = load_catalog(settings.config);
    if (!catalog) refuse(catalog.error());
    size_t name_width = 4, source_width = 6;
    for (const auto& [name, entry] : catalog->entries) {
        name_width = std::max(name_width, printable(name).size());
        source_width = std::max(source_width, printable(entry.source).size());
    }
    auto row = [&](const std::string& name, const std::string& source, const std::string& description) {
        if (description.empty())
            printf("%-*s  %s\n", int(name_width), name.c_str(), source.c_str());
        else
            printf("%-*s  %-*s  %s\n", int(name_width), name.c_str(), int(source_width), source.c_str(),
                   description.c_str());
    };
    row("NAME", "SOURCE", "DESCRIPTION");
    for (const auto& [name, entry] : catalog->entries)
        row(printable(name), printable(entry.source), printable(entry.description));
    leave(0);
}

// Whether the program's own command line is the question for the catalog. sbatch reads the job's script, from
// a terminal if need be, before it looks at a plugin's options, and srun wants a command first. Only what
// stands before the first word that is no option counts: behind it may be the script and what that takes.
bool asks_for_the_catalog() {
    Result<std::string> line = read_file("/proc/self/cmdline", 1 << 20);
    if (!line) return false;
    const std::string name = "--monarch-dataset";
    std::string_view rest = *line;
    for (bool program = true; !rest.empty(); program = false) {
        std::string_view word = rest.substr(0, rest.find('\0'));
        rest.remove_prefix(std::min(word.size() + 1, rest.size()));
        if (program) continue;
        if (word == name + "=list" || (word == name && rest.starts_with(std::string_view("list\0", 5))))
            return true;
        if (!word.starts_with('-') || word == "--") return false;
    }
    return false;
}

// ---- checks ---------------------------------------------------------------------------------------------

Requester submitter() {
    Requester who;
    passwd* user = getpwuid(getuid());
    if (user == nullptr) return who;
    who.user = user->pw_name;
    const gid_t primary = user->pw_gid;  // the next look-up may overwrite what `user` points to
    int count = 0;
    getgrouplist(who.user.c_str(), primary, nullptr, &count);
    std::vector<gid_t> ids(size_t(count > 0 ? count : 0));
    if (getgrouplist(who.user.c_str(), primary, ids.data(), &count) < 0) return who;
    for (gid_t id : ids)
        if (group* entry = getgrgid(id)) who.groups.push_back(entry->gr_name);
    return who;
}

// A heterogeneous job is checked once a component, and that in full, since each gets the options by itself.
void say_once(const std::string& text) {
    static bool said = false;
    if (!said) slurm_info("monarch: %s", text.c_str());
    said = true;
}

// The submit host may have another configuration than the nodes, or none: what cannot be read here is left to
// them.
void left_to_the_node(const std::string& why) {
    say_once("not checked here: " + why);
}

bool closed_to_users(const std::string& folder) {
    return access(folder.c_str(), R_OK | X_OK) != 0 && errno == EACCES;
}

void check_catalog(const Settings& settings, const Options& options) {
    if (closed_to_users(settings.config + "/datasets.d")) return;
    Result<Catalog> catalog = load_catalog(settings.config);
    if (!catalog) return left_to_the_node(catalog.error());
    if (!catalog->present) return;
    for (const DatasetSpec& spec : options.datasets)
        if (spec.kind == SpecKind::catalog && catalog->find(spec.name) == nullptr)
            refuse("the catalog has no data set '" + printable(spec.name) +
                   "': see \"monarchctl dataset list\"");
}

void check_policy(const Settings& settings, const Options& options) {
    if (closed_to_users(settings.config + "/policy.d")) return;
    Result<Policy> policy = load_policy(settings.config);
    if (!policy) return left_to_the_node(policy.error());
    if (!policy->any_file) return;
    if (Status allowed = policy->allows_submission(submitter(), options.datasets); !allowed)
        refuse(allowed.error());
}

// ---- the two cases --------------------------------------------------------------------------------------

// An option counts as the environment variable only when it was given nowhere else.
Values with_environment() {
    Values values = on_command_line;
    for (size_t i = 0; i < option_count; i++)
        if (!values[i] && !inside_allocation()) values[i] = environment(option_names[i].environment);
    return values;
}

// Has the values reach prolog, epilog and the job's environment in the same way whether they came as options
// or not.
void hand_on(spank_t spank, const Values& values) {
    for (size_t i = 0; i < option_count; i++) {
        if (!values[i]) continue;
        spank_job_control_setenv(spank, travel_name(i).c_str(), values[i]->c_str(), 1);
        setenv(inherited_name(i).c_str(), values[i]->c_str(), 1);
    }
}

void check_submission(spank_t spank, const Settings& settings) {
    Values values = with_environment();
    if (!values[dataset]) {
        for (size_t i = 0; i < option_count; i++)
            if (on_command_line[i])
                refuse(std::string("--monarch-") + option_names[i].name +
                       " needs a data set: add --monarch-dataset=NAME");
        return;
    }
    std::map<std::string, std::string> raw;
    for (size_t i = 0; i < option_count; i++)
        if (values[i]) raw[option_names[i].name] = *values[i];
    Result<Options> options = parse_options(raw, "--monarch-");
    if (!options) refuse(options.error());
    check_catalog(settings, *options);
    check_policy(settings, *options);
    hand_on(spank, values);
}

// An option of srun's own does nothing inside an allocation, also not where this step's start runs a node's
// prolog.
void check_step(spank_t spank) {
    const char* first = nullptr;
    for (size_t i = 0; i < option_count; i++) {
        if (!on_command_line[i] || on_command_line[i] == inherited[i]) continue;
        if (first == nullptr) first = option_names[i].name;
        if (inherited[i])
            spank_job_control_setenv(spank, travel_name(i).c_str(), inherited[i]->c_str(), 1);
        else
            spank_job_control_unsetenv(spank, travel_name(i).c_str());
    }
    if (first != nullptr)
        say_once(std::string("--monarch-") + first +
                 " does nothing inside an allocation: give it to sbatch or salloc");
}

}  // namespace

void submit_init(const Settings& settings) {
    if (asks_for_the_catalog()) print_catalog(settings);
    if (!inside_allocation()) return;
    for (size_t i = 0; i < option_count; i++) {
        if (spank_context() == S_CTX_LOCAL) {
            inherited[i] = environment(inherited_name(i));
        } else {
            unsetenv(inherited_name(i).c_str());
            unsetenv(travel_name(i).c_str());
        }
    }
}

// Slurm calls this for its own environment form, #SBATCH lines and the command line; the last one holds.
void submit_option(size_t option, const char* value) {
    if (option < option_count && value != nullptr) on_command_line[option] = value;
}

void submit_check(spank_t spank, const Settings& settings) {
    if (on_command_line[dataset] == "list") print_catalog(settings);
    if (spank_context() == S_CTX_LOCAL && inside_allocation()) return check_step(spank);
    if (with_environment()[dataset] == "list") print_catalog(settings);
    check_submission(spank, settings);
}

}  // namespace monarch
