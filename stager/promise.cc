#include "stager/promise.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/units.h"
#include "stager/space.h"

namespace monarch {

std::vector<Reservation> promise(Node& node, const Capacity& capacity, const Rule& rule, double share,
                                 size_t stores, std::vector<std::string>& notes) {
    std::vector<Reservation> list;
    auto tiers = tier_use(node);
    uint64_t total = UINT64_MAX;
    if (capacity.given && capacity.by_tier.empty()) {
        uint64_t all = 0;
        for (const auto& t : tiers) all += t.capacity;
        total = capacity.total.of(all);
    }
    std::map<std::string, uint64_t> trash;
    for (const auto& row : node.ledger.trash()) trash[row.tier] += row.bytes;
    int position = 0;
    for (const auto& t : tiers) {
        int here = position++;
        if (!t.ready) {
            notes.push_back("tier " + t.tier.name + " is not used: " + t.why);
            continue;
        }
        uint64_t most = t.capacity;
        if (!capacity.by_tier.empty()) {
            auto named = capacity.by_tier.find(t.tier.name);
            most = named == capacity.by_tier.end() ? 0 : named->second.of(t.capacity);
        } else if (!capacity.given) {
            most = static_cast<uint64_t>(static_cast<double>(t.capacity) * share);
        }
        if (rule.limits_capacity) {
            auto limit = rule.max_capacity.find(t.tier.name);
            most = std::min(most, limit == rule.max_capacity.end() ? 0 : limit->second.of(t.capacity));
        }
        most = std::min({most, total, t.capacity});
        uint64_t promised = std::min(t.capacity, node.ledger.promised(t.path)), unused = UINT64_MAX;
        struct statvfs fs;
        if (!t.tier.tmpfs && statvfs(t.path.c_str(), &fs) == 0)
            unused = static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize + trash[t.path];
        uint64_t each = std::min({most, t.capacity - promised, unused}) / stores / 4096 * 4096;
        if (each < smallest_share) continue;
        total -= total == UINT64_MAX ? 0 : each * stores;
        uint64_t now = (t.capacity - std::min(t.capacity, t.used)) / stores / 4096 * 4096;
        list.push_back(
            {here, t.tier.name, t.path, t.tier.tmpfs, std::min(each, now), each, most, t.capacity});
    }
    return list;
}

std::string who_holds(Node& node) {
    std::string text;
    for (const auto& tier : tier_use(node)) {
        std::set<std::string> jobs;
        uint64_t held = 0;
        for (const auto& store : node.ledger.stores())
            for (const auto& r : store.tiers) {
                if (r.path != tier.path || r.share == 0) continue;
                held += r.share;
                for (const auto& lease : node.ledger.live_leases_of_store(store.id)) jobs.insert(lease.job);
            }
        uint64_t stuck = node.ledger.promised(tier.path) - held;
        if (!tier.ready || held + stuck == 0) continue;
        text += (text.empty() ? "" : "; ") + tier.tier.name + ", of " + format_bytes(tier.capacity) + ": ";
        std::string names;
        for (const auto& job : jobs) names += (names.empty() ? "" : ", ") + job;
        if (held > 0) text += format_bytes(held) + " held by job " + names;
        if (stuck > 0)
            text += std::string(held ? ", " : "") + format_bytes(stuck) + " that cannot be deleted";
    }
    return text.empty() ? "less than 1 MiB is allowed or there: see monarchctl status" : text;
}

}  // namespace monarch
