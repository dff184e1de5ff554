// Every entry point that Slurm has into Monarch. An exception that left one of them would end sbatch, slurmd
// or a step daemon, and a failure returned on a node would drain it: each is a few lines around `guarded`,
// and all of them return success. (A refused submission ends sbatch itself, see submit.cc.)
//
// The same plugin may be listed twice in plugstack.conf: then every callback runs twice, on the same globals.
#include <exception>

#include "spank/contexts.h"

#pragma GCC visibility push(default)
extern "C" {
// In C++ a constant is local to its file unless it was declared before.
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(monarch, 1)
}
#pragma GCC visibility pop

namespace monarch {
namespace {

template <typename Function>
int guarded(const char* callback, Function function) noexcept {
    try {
        function();
    } catch (const std::exception& error) {
        slurm_error("monarch: %s: %s", callback, error.what());
    } catch (...) {
        slurm_error("monarch: %s: unknown exception", callback);
    }
    return ESPANK_SUCCESS;
}

bool submits() {
    return spank_context() == S_CTX_ALLOCATOR || spank_context() == S_CTX_LOCAL;
}

// Once a process: the second time, Slurm would tell every user that the option is provided by both.
void register_options(spank_t spank) {
    static bool registered = false;
    if (registered) return;
    registered = true;
    for (size_t i = 0; i < option_count; i++) spank_option_register(spank, spank_option_of(i));
}

void init(spank_t spank, const Settings& settings) {
    if (spank_context() == S_CTX_SLURMD && !settings.unknown.empty())
        slurm_error("monarch: plugin argument '%s' is unknown: use config=DIR or bin=DIR",
                    settings.unknown.c_str());
    if (submits()) submit_init(settings);
    if (submits() || spank_context() == S_CTX_REMOTE) register_options(spank);
}

void init_post_opt(spank_t spank, const Settings& settings) {
    if (submits()) submit_check(spank, settings);
    if (spank_context() == S_CTX_REMOTE) step_environment(spank, settings);
}

}  // namespace

int note_option(int option, const char* value, int remote) noexcept {
    return guarded("option", [&] {
        if (remote == 0) submit_option(size_t(option), value);
    });
}

}  // namespace monarch

using namespace monarch;

#pragma GCC visibility push(default)
extern "C" {

int slurm_spank_init(spank_t spank, int ac, char* av[]) {
    return guarded("init", [&] { init(spank, read_settings(ac, av)); });
}

int slurm_spank_init_post_opt(spank_t spank, int ac, char* av[]) {
    return guarded("init_post_opt", [&] { init_post_opt(spank, read_settings(ac, av)); });
}

int slurm_spank_job_prolog(spank_t spank, int ac, char* av[]) {
    return guarded("job_prolog", [&] { node_prolog(spank, read_settings(ac, av)); });
}

int slurm_spank_job_epilog(spank_t spank, int ac, char* av[]) {
    return guarded("job_epilog", [&] { node_epilog(spank, read_settings(ac, av)); });
}

int slurm_spank_task_init(spank_t spank, int, char**) {
    return guarded("task_init", [&] { task_notes(spank); });
}

}  // extern "C"
#pragma GCC visibility pop
