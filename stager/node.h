// What attach, detach and reap do to one node: everything here runs as root in a cluster, as the user for
// `monarchctl run`, and never touches the source.
#pragma once

#include <array>
#include <functional>
#include <optional>
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
struct Need {
    uint64_t bytes = 0;                               // the data set's files and folders, on whichever tiers
    std::array<uint64_t, MONARCH_MAX_TIERS> fixed{};  // what lies on each tier in any case
};
struct PageFacts {
    Counters counters{};
    std::string predictor;
    bool drained = false;
    uint32_t state = 0;
    std::optional<Need> need;  // once the data set is listed
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
    // uid, gid and supplementary groups, a memory limit of its own where it can have one. Records it in the
    // ledger. It is told the store's configuration, which the ledger has.
    Status start_stager(const StoreRow& store);
    // SIGTERM, then SIGKILL after `milliseconds`. Nothing happens to a process that only has the same pid.
    void stop_stager(const StoreRow& store, unsigned milliseconds);
    bool stager_lives(const StoreRow& store) const;
    // Removes the memory cgroups of stagers that have ended. Returns how many stopped ones have not: they
    // hang in the source.
    size_t remove_cgroups();

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

    // Gives each store the space that its plan needs and its tiers have (stager/space.h), in the ledger, on
    // the tmpfs tiers and in the stores' grants. For whoever has the turn.
    struct Settled {
        bool waiting = false;    // some store waits for trash to be deleted
        bool undecided = false;  // some store's data set is not listed yet
    };
    Settled settle();
    // What the store may use now, for its stager to read: bytes= and share= a tier, fastest first, and
    // settled=1 once the share follows from what the plan needs.
    Status write_grant(const StoreRow& store, bool settled);
    // Mounts the store's tmpfs on a tier, or with `again` changes its size.
    Status mount_tmpfs(const StoreRow& store, const Reservation& r, bool again);
    // Settles again and again until every store has what it is to have and every stopped stager has ended,
    // ten minutes at most. Returns at once when another process is at it.
    void watch();

    // Deletes what lies in every trash folder in this process, unmounting tmpfs tiers first; what is freed
    // goes to the stores that wait for it at once. Out of the way of others unless a store waits. One process
    // at a time; another waits for its turn, and with `give_way` a third does nothing, since the second will.
    // Returns how many entries could not be deleted.
    uint64_t empty_trash(bool give_way);
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
    std::string cgroup_prefix() const;
    // A file beside the ledger, to be locked.
    Fd lock_file(const std::string& name) const;
    // What the page of one of the store's sessions says, one that knows the need if there is one.
    PageFacts facts_of(const StoreRow& store);
    uint64_t empty(const std::string& path);
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
