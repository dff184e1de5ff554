// What the plugin (or `monarchctl run`) says to `monarch-stager attach` and `detach` on standard input, and
// what attach leaves for the job's tasks: both are records of core/fields.h.
//
// Request to attach (values are the user's or Slurm's; attach checks each of them again):
//   job=ID           decimal Slurm job id, or a name of `monarchctl run`: [A-Za-z0-9._-]{1,64}
//   restart=N        SLURM_JOB_RESTART_COUNT, 0 when unknown
//   uid=N gid=N      the job's user
//   node=NAME        Slurm's node name (%n), "" without Slurm
//   nodelist=TEXT    SLURM_JOB_NODELIST as it stands, "" without Slurm
//   nodes=N          SLURM_JOB_NUM_NODES, 0 when unknown
//   partition=NAME   "" without Slurm
//   cpu_share=F      the job's share of the node's CPUs, 0 < F <= 1; absent when unknown
//   option.NAME=TEXT one for each option given (core/options.h), e.g. option.dataset=imagenet
// Request to detach: job=ID, node=NAME.
// Arguments of both: [--config DIR]; nothing of the user's is ever in argv.
//
// Answer of attach: exit status 0 when it left a job folder, whatever it says; 1 when it could not (why is on
// stderr, one line each, which the plugin hands to slurmd's log).
//
// RUN/jobs/JOB/env (root's, 0600; the only file the plugin reads):
//   set=NAME=VALUE   an environment variable of the tasks
//   preload=PATH     libmonarch.so, to be appended to LD_PRELOAD
//   bind=PATH        a folder to be appended to APPTAINER_BIND and SINGULARITY_BIND (repeated)
//   note=TEXT        one line for the job's output: what is not staged here, and why (repeated)
#pragma once

namespace monarch {

// Everything a job folder may set besides MONARCH_DATASET_*: the plugin unsets these where there is no job
// folder.
inline constexpr const char* session_variable = "MONARCH_SESSION";
inline constexpr const char* dataset_variable_prefix = "MONARCH_DATASET_";

}  // namespace monarch
