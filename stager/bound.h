// A stager's own bound of memory: a cgroup below the one that this process is in.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace monarch {

// Puts the process into a memory cgroup of its own that may hold `bytes`. False, with nothing changed, where
// no memory controller is mounted or may be handed on (version 2 hands it on where the cgroup itself holds no
// process).
bool bind_memory(pid_t pid, uint64_t bytes);

// Removes the cgroup of a stager that has ended, or with 0 those of all that have.
void unbind_memory(pid_t pid);

}  // namespace monarch
