// The stager itself: the process that lists, plans and copies one store as the job's user.
#pragma once

#include "core/fields.h"

namespace monarch {

// Runs until SIGTERM, or until its run-time folder is gone. Returns the exit status.
// `config` (written by attach, core/fields.h): dir=RUN/stores/ID name= node= source= manifest= order=
// streams= bandwidth=, and a tier=NAME, data=FOLDER, bytes=N triple for each tier, fastest first. The first
// folder's tier with a disk below it, else the last, keeps store.db and the log.
int run_stager(const Fields& config);

}  // namespace monarch
