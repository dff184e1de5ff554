// Where everything of one node lies, from the configured folders.
#pragma once

#include <string>

#include "core/config.h"

namespace monarch {

struct Layout {
    std::string run, state;
    explicit Layout(const Config& config) : run(config.run), state(config.state) {}
    Layout(std::string run_folder, std::string state_folder)
        : run(std::move(run_folder)), state(std::move(state_folder)) {}

    std::string ledger() const { return state + "/ledger/ledger.db"; }
    std::string status() const { return run + "/status.json"; }
    std::string jobs() const { return run + "/jobs"; }
    std::string job(const std::string& job) const { return jobs() + "/" + job; }
    std::string session(const std::string& job_id, int n) const {
        return job(job_id) + "/" + std::to_string(n);
    }
    // A store's run-time folder: lock (held by its stager), inbox (numbered messages from attach) and grant
    // (the space it may use now, replaced whenever that changes).
    std::string stores() const { return run + "/stores"; }
    std::string store(int64_t id) const { return stores() + "/" + std::to_string(id); }
    std::string lock(int64_t id) const { return store(id) + "/lock"; }
    std::string inbox(int64_t id) const { return store(id) + "/inbox"; }
    std::string grant(int64_t id) const { return store(id) + "/grant"; }
    std::string run_trash() const { return run + "/trash"; }
};

// A tier's own folders below its path; a store's bytes lie in its `data`, which is the job's user's (0700)
// and, on a tmpfs tier, the mount.
inline std::string tier_stores(const std::string& tier_path) {
    return tier_path + "/stores";
}
inline std::string tier_trash(const std::string& tier_path) {
    return tier_path + "/trash";
}
inline std::string tier_store(const std::string& tier_path, int64_t id) {
    return tier_stores(tier_path) + "/" + std::to_string(id);
}
inline std::string tier_data(const std::string& tier_path, int64_t id) {
    return tier_store(tier_path, id) + "/data";
}

// The folder of a tier: its configured path or, for a tmpfs tier without one, RUN/tiers/NAME.
inline std::string tier_path(const TierConfig& tier, const Config& config) {
    return tier.path.empty() ? config.run + "/tiers/" + tier.name : tier.path;
}

}  // namespace monarch
