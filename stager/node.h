// What attach, detach and reap do to one node: everything here runs as root in a cluster, as the user for
// `monarchctl run`, and never touches the source.
#pragma once

#include <string>
#include <vector>

#include "core/config.h"
#include "core/fields.h"
#include "core/layout.h"
#include "core/ledger.h"
#include "core/os.h"

namespace monarch {

// What a session's page says, clamped; zeros when it cannot be read. Root reads nothing else that a user
// wrote.
struct PageFacts {
    Counters counters{};
    std::string predictor;
    bool drained = false;
    uint32_t state = 0;
};
PageFacts read_page(const std::string& session_dir);

// The names in a folder but for . and .., none when it cannot be read.
std::vector<std::string> entries_of(const std::string& folder);

class Node {
  public:
    // Makes the state and run-time folders and opens the ledger.
    // `user`: for `monarchctl run`, whose tiers are made here and need no marker.
    static Result<Node> open(const Config& config, bool user);

    // Forks the store's stager: its own session, no descriptors but the lock, clean environment, the user's
    // uid, gid and supplementary groups. Records it in the ledger. `config` is what run_stager() takes.
    Status start_stager(const StoreRow& store, const Fields& config);
    // SIGTERM, then SIGKILL after `milliseconds`. Nothing happens to a process that only has the same pid.
    void stop_stager(const StoreRow& store, unsigned milliseconds);
    bool stager_lives(const StoreRow& store) const;

    // Held while stores come and go: by attach from its leases to the stager's start, by whoever drops a
    // store from the look at who still holds it, and while status.json is written. Waits two seconds at most,
    // then goes on without: a holder that hangs on a dead disk must not hold up the start and end of every
    // job.
    Fd take_turn();

    // Ends leases: sessions first (their page says so), then stores without a lease go to the trash, then the
    // job folders. Counters go to the ledger. What was refused or failed keeps that as its outcome.
    void end_leases(const std::vector<LeaseRow>& leases, const std::string& outcome);
    // Ends what nobody will detach any more: leases of an earlier boot and those of a `monarchctl run` that
    // was killed. Returns how many.
    size_t end_dead_leases();
    // Renames what a store has on its tiers and at run time out of the way, in time that does not depend on
    // its size.
    void drop_store(const StoreRow& store);
    void drop_job_folder(const std::string& job);

    // Deletes what lies in every trash folder in this process, unmounting tmpfs tiers first. One process at a
    // time; another waits for its turn. Returns how many entries could not be deleted.
    uint64_t empty_trash();
    // Starts `monarch-stager reap` in the background (a session of its own).
    void reap_in_background(const std::vector<std::string>& arguments);

    // RUN/status.json for everybody: tiers, jobs, uids, counters, no names.
    void publish_status();

    Config config;
    Layout at;
    Ledger ledger;
    bool user;

  private:
    // Starts the stager again when it has ended although the store is held.
    void keep_staging(const StoreRow& store);
    Node(Config c, Ledger l, bool u) : config(std::move(c)), at(config), ledger(std::move(l)), user(u) {}
};

// The tiers of the configuration that can be used now, with capacity and what the ledger holds on them.
struct TierUse {
    TierConfig tier;
    std::string path;
    bool ready = false;
    std::string why;  // when not ready
    uint64_t capacity = 0, used = 0;
};
std::vector<TierUse> tier_use(Node& node);

}  // namespace monarch
