// One job comes to this node: leases, space, folders, stagers. Never touches the source; back within
// milliseconds.
#pragma once

#include <string>

#include "core/fields.h"
#include "core/result.h"

namespace monarch {

// `request` as in core/request.h. `config_dir`: the configuration folder; "" for `monarchctl run`, whose
// request holds state=, run=, results= and, for each tier, tier=NAME, path=FOLDER and capacity=SIZE (made
// here, no marker asked for). Returns 0 when the job has its folder, whatever it says; 1 when not, with one
// line on standard error.
int attach(const Fields& request, const std::string& config_dir);

// The job ends: its leases, and what nobody holds any more. Returns 0, also for a job that is not known here.
int detach(const Fields& request, const std::string& config_dir);

// Removes what no live lease owns: leases of an earlier boot, stores, run-time folders, mounts and trash.
// Says what it did on standard error. Returns 0, or 1 when something could not be removed. `background`: for
// an attach or detach that has just ended; gives way to another that waits to do the same, and stays until
// every store has the space that it is to have.
int reap(const std::string& config_dir, const std::string& node, const std::string& user_run,
         const std::string& user_state, bool background);

}  // namespace monarch
