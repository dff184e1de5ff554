// What a job's new stores are promised of the tiers, and for who gets nothing, whose they are.
#pragma once

#include <string>
#include <vector>

#include "core/config.h"
#include "core/options.h"
#include "stager/node.h"

namespace monarch {

// What each of the job's `stores` new stores is promised on each tier, fastest first: an even part of what
// the job may take at most (`capacity`, the option; else `share` of the node, 0..1; `rule`) and nobody else
// was promised. Tiers where that is less than 1 MiB are left out. `bytes` of each is what is free of it now.
// Inside the ledger's transaction. `notes` gets a line for each tier that is not used.
std::vector<Reservation> promise(Node& node, const Capacity& capacity, const Rule& rule, double share,
                                 size_t stores, std::vector<std::string>& notes);

// Each tier of which something is promised: how much, by which jobs.
std::string who_holds(Node& node);

}  // namespace monarch
