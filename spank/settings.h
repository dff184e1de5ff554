// What plugstack.conf says to the plugin, and the names under which Slurm hands its options around.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "core/options.h"
#include "spank/slurm.h"

namespace monarch {

inline constexpr size_t option_count = std::size(option_names);

struct Settings {
    std::string config;   // config=DIR
    std::string bin;      // bin=DIR, "" when not given
    std::string unknown;  // the first argument that is neither
};
Settings read_settings(int ac, char** av);

// monarch-stager's path: in bin=DIR, else beside the plugin, else where it was installed; "" when there is
// none.
std::string find_stager(const Settings& settings);

// This node's Slurm name, as the daemon that runs the plugin knows it: the environment of slurmd's helpers
// and of slurmstepd itself, which no user can write. Several slurmd may run on one host, so the host's name
// is a last resort.
std::string node_name();

// The options as Slurm wants them; static, since it may keep the pointers. Not exported: a table named
// spank_options would hide the values from the prolog.
spank_option* spank_option_of(size_t option);
// "_SLURM_SPANK_OPTION_monarch_monarch_dataset": under this name an option's value travels to prolog and
// epilog (with "SPANK_" before it) and into a job's environment (with "SLURM_SPANK_" before it).
std::string travel_name(size_t option);
std::string inherited_name(size_t option);

// The value of an option in prolog, epilog and task_init, none when it was not given.
std::optional<std::string> given_option(spank_t spank, size_t option);

// Called by Slurm for each option that it finds; in a step daemon it does nothing.
int note_option(int option, const char* value, int remote) noexcept;

}  // namespace monarch
