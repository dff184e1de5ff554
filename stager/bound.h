// A stager's own bound of memory: a cgroup below the one that this process is in.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

namespace monarch {

// Puts the process into a memory cgroup of its own, `prefix` and its pid, that may hold `bytes`. False, with
// nothing changed, where no memory controller is mounted or may be handed on (version 2 hands it on where the
// cgroup itself holds no process).
bool bind_memory(const std::string& prefix, pid_t pid, uint64_t bytes);

// Removes the cgroups of that prefix whose process has ended. Returns how many stay, but for those of `live`
// processes.
size_t unbind_memory(const std::string& prefix, const std::set<pid_t>& live);

}  // namespace monarch
