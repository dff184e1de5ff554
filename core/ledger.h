// The node's ledger (schema/ledger): leases, stores, reservations, trash. Capacity is what it says: space is
// reserved here, in one transaction, before a byte is written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/counters.h"
#include "core/result.h"
#include "core/sqlite.h"

namespace monarch {

struct Reservation {
    int position = 0;  // 0 = fastest
    std::string tier;  // its name
    std::string path;  // the tier's folder
    bool tmpfs = false;
    uint64_t bytes = 0;     // may be used now
    uint64_t share = 0;     // promised: `bytes` grows to it as trash is deleted
    uint64_t most = 0;      // for all stores of the job together
    uint64_t capacity = 0;  // of the tier, when the store was made
};

struct StoreRow {
    int64_t id = 0;
    int64_t uid = 0, gid = 0;
    std::string name, source, boot_id;
    int64_t created_at = 0;
    int64_t stager_pid = 0;
    uint64_t stager_start = 0;
    std::string config;  // what its stager is started with (core/fields.h)
    std::string job;     // which made it
    std::vector<Reservation> tiers;
};

struct LeaseRow {
    int64_t id = 0;
    std::optional<int64_t> store_id;
    std::string job;
    int64_t restart = 0, session = 0;
    std::string node, partition;
    int64_t uid = 0;
    std::string name, boot_id;
    int64_t attached_at = 0;
    std::optional<int64_t> ended_at;
    std::string outcome, note, predictor;
    Counters counters{};
};

struct TrashRow {
    std::string path;  // in the tier's trash folder
    std::string tier;  // the tier's folder
    bool tmpfs = false;
    uint64_t bytes = 0;
    bool stuck = false;  // it could not be deleted: nobody waits for it
};

class Ledger {
  public:
    // Opens or makes it (0600). Its folder must exist. Errors: damaged, newer schema, locked for over
    // `busy_ms`.
    static Result<Ledger> open(const std::string& path, int busy_ms = 5000);

    // One writer at a time; reads inside see what the transaction will commit.
    Status begin();
    Status commit();
    void rollback();

    std::vector<StoreRow> stores();
    std::optional<StoreRow> store(int64_t id);
    std::optional<StoreRow> find_store(int64_t uid, const std::string& source);
    Result<int64_t> add_store(const StoreRow& row);
    Status set_stager(int64_t id, int64_t pid, uint64_t start);
    Status set_config(int64_t id, const std::string& config);
    Status remove_store(int64_t id);
    Status reserve(int64_t store_id, const Reservation& r);  // inserts, or sets its bytes and share

    // Bytes that nobody may take any more on the tier at `path`: reservations and what is not deleted yet.
    uint64_t used(const std::string& path);
    // Bytes that nobody may be promised any more there: shares, and what could not be deleted.
    uint64_t promised(const std::string& path);

    Result<int64_t> add_lease(const LeaseRow& row);
    // The data set is not staged after all: the lease stays, without a store, until the job ends.
    Status refuse_lease(int64_t id, const std::string& outcome, const std::string& note);
    Status end_lease(int64_t id, const std::string& outcome, const Counters& counters,
                     const std::string& predictor);
    // Leases not ended: of one job, of one store, or all.
    std::vector<LeaseRow> live_leases();
    std::vector<LeaseRow> live_leases_of_job(const std::string& job);
    std::vector<LeaseRow> live_leases_of_store(int64_t store_id);
    // A read has failed since it was opened: what the lists above left out may be there all the same. Who
    // removes what the ledger does not name asks this first.
    bool failed() const { return failed_; }

    // Ended ones too: of one job, or all.
    std::vector<LeaseRow> leases_of_job(const std::string& job);
    std::vector<LeaseRow> all_leases();

    Status add_trash(const TrashRow& row);
    std::vector<TrashRow> trash();
    Status remove_trash(const std::string& path);

  private:
    explicit Ledger(Db db) : db_(std::move(db)) {}
    std::vector<LeaseRow> leases(const std::string& where, std::optional<std::string> text,
                                 std::optional<int64_t> number);
    std::vector<StoreRow> read_stores(Stmt get);
    std::vector<Reservation> reservations(int64_t store_id);
    uint64_t sum(const char* sql, const std::string& path);
    Status finish(Stmt& stmt);
    Db db_;
    bool failed_ = false;
};

}  // namespace monarch
