// What plugin.cc calls, by context. Each may throw; plugin.cc lets nothing through.
#pragma once

#include "spank/settings.h"
#include "spank/slurm.h"

namespace monarch {

// sbatch, salloc (allocator context) and srun (local context), as the user, before anything is submitted.
void submit_init(const Settings& settings);
void submit_option(size_t option, const char* value);
// Ends the program, with one line, when the job must not be submitted.
void submit_check(spank_t spank, const Settings& settings);

// slurmd's short-lived helper, as root, on every node of the job.
void node_prolog(spank_t spank, const Settings& settings);
void node_epilog(spank_t spank, const Settings& settings);

// slurmstepd: as root before the step's tasks exist, then as the user in each task before its program.
void step_environment(spank_t spank, const Settings& settings);
void task_notes(spank_t spank);

}  // namespace monarch
