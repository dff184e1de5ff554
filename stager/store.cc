#include "stager/store.h"

#include <unistd.h>

#include <algorithm>

namespace monarch {

namespace {
const char* const migrations[] = {
#include "schema_store.inc"
};
constexpr uint32_t rows_a_flush = 20000;
}  // namespace

const char* file_state_name(FileState s) {
    switch (s) {
        case FileState::source:
            return "source";
        case FileState::staged:
            return "staged";
        case FileState::failed:
            return "failed";
        case FileState::retired:
            return "retired";
    }
    return "source";
}

Result<StoreDb> StoreDb::create(const std::string& path, std::vector<std::string> tiers) {
    for (const char* suffix : {"", "-journal"}) unlink((path + suffix).c_str());
    auto db = Db::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, 5000);
    if (!db) return Error{"store " + db.error()};
    // No fsync: after a crash of the node the store is removed, and a killed process loses no write of its
    // own.
    if (Status s = db->exec("PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF;"); !s.ok())
        return Error{"store " + path + ": " + s.error()};
    if (Status s = db->migrate(migrations); !s.ok()) return Error{"store " + path + ": " + s.error()};
    return StoreDb(std::move(*db), std::move(tiers));
}

void StoreDb::set(uint32_t id, FileState state, uint8_t tier) {
    if (id >= states_.size()) states_.resize(id + 1);
    states_[id] = {state, tier};
    if (id < next_row_) changes_.push_back(id);
}

void StoreDb::use(const Manifest* manifest) {
    manifest_ = manifest;
    states_.resize(manifest->size());
}

void StoreDb::bind_state(Stmt& stmt, int column, uint32_t id) {
    const State& s = states_[id];
    stmt.bind_text(column, file_state_name(s.state));
    if (s.tier < tiers_.size())
        stmt.bind_text(column + 1, tiers_[s.tier]);
    else
        stmt.bind_null(column + 1);
}

Status StoreDb::write_rows() {
    Stmt put =
        db_.prepare("INSERT INTO file (id, path, size, mtime_ns, state, tier) VALUES (?, ?, ?, ?, ?, ?)");
    uint32_t end = std::min(manifest_->size(), next_row_ + rows_a_flush);
    for (uint32_t id = next_row_; id < end; id++) {
        put.bind(1, id).bind_blob(2, manifest_->path(id)).bind(3, static_cast<int64_t>(manifest_->bytes(id)));
        put.bind(4, manifest_->mtime_ns(id));
        bind_state(put, 5, id);
        put.step();
        if (put.failed()) return Error{db_.error()};
        put.reset();
    }
    return Done{};
}

Status StoreDb::write_changes() {
    Stmt put = db_.prepare("UPDATE file SET state = ?, tier = ? WHERE id = ?");
    for (uint32_t id : changes_) {
        bind_state(put, 1, id);
        put.bind(3, id);
        put.step();
        if (put.failed()) return Error{db_.error()};
        put.reset();
    }
    return Done{};
}

Status StoreDb::flush() {
    if (flushed()) return Done{};
    Status status = db_.exec("BEGIN IMMEDIATE");
    if (status.ok() && manifest_) status = write_rows();
    if (status.ok()) status = write_changes();
    if (status.ok()) status = db_.exec("COMMIT");
    if (!status.ok()) {
        db_.exec("ROLLBACK");
        return status;
    }
    changes_.clear();
    if (manifest_) next_row_ = std::min(manifest_->size(), next_row_ + rows_a_flush);
    return status;
}

}  // namespace monarch
