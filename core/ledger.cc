#include "core/ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "core/os.h"

namespace monarch {

namespace {
const char* const migrations[] = {
#include "schema_ledger.inc"
};

std::string counter_columns() {
    std::string columns;
    for (const char* name : counter_names) columns += std::string(", ") + name;
    return columns;
}

// Each kind of row is read in one place: its columns, and the row they make.

#define RESERVATION_COLUMNS "position, tier, path, tmpfs, bytes, share, most, capacity"
Reservation reservation_of(const Stmt& row) {
    return {static_cast<int>(row.integer(0)),
            row.text(1),
            row.text(2),
            row.integer(3) != 0,
            static_cast<uint64_t>(row.integer(4)),
            static_cast<uint64_t>(row.integer(5)),
            static_cast<uint64_t>(row.integer(6)),
            static_cast<uint64_t>(row.integer(7))};
}

#define STORE_COLUMNS "id, uid, gid, name, source, boot_id, created_at, stager_pid, stager_start, config, job"
StoreRow store_of(const Stmt& row) {
    StoreRow r;
    r.id = row.integer(0);
    r.uid = row.integer(1);
    r.gid = row.integer(2);
    r.name = row.text(3);
    r.source = row.text(4);
    r.boot_id = row.text(5);
    r.created_at = row.integer(6);
    r.stager_pid = row.integer(7);
    r.stager_start = static_cast<uint64_t>(row.integer(8));
    r.config = row.text(9);
    r.job = row.text(10);
    return r;
}

#define LEASE_COLUMNS                                                                                   \
    "id, store_id, job, restart, session, node, partition, uid, name, boot_id, attached_at, ended_at, " \
    "outcome, "                                                                                         \
    "note, predictor"
constexpr int lease_counters = 15;  // the first counter's column
LeaseRow lease_of(const Stmt& row) {
    LeaseRow r;
    r.id = row.integer(0);
    if (!row.null(1)) r.store_id = row.integer(1);
    r.job = row.text(2);
    r.restart = row.integer(3);
    r.session = row.integer(4);
    r.node = row.text(5);
    r.partition = row.text(6);
    r.uid = row.integer(7);
    r.name = row.text(8);
    r.boot_id = row.text(9);
    r.attached_at = row.integer(10);
    if (!row.null(11)) r.ended_at = row.integer(11);
    r.outcome = row.text(12);
    r.note = row.text(13);
    r.predictor = row.text(14);
    for (size_t i = 0; i < counter_names.size(); i++)
        counter(r.counters, i) = static_cast<uint64_t>(row.integer(lease_counters + static_cast<int>(i)));
    return r;
}

#define TRASH_COLUMNS "path, tier, tmpfs, bytes, stuck"
TrashRow trash_of(const Stmt& row) {
    return {row.text(0), row.text(1), row.integer(2) != 0, static_cast<uint64_t>(row.integer(3)),
            row.integer(4) != 0};
}
}  // namespace

Result<Ledger> Ledger::open(const std::string& path, int busy_ms) {
    // sqlite would make the file with the umask's mode: make it first.
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return Error{"cannot open the ledger " + path + ": check that its folder exists and is yours"};
    close(fd);
    // sqlite does not wait for its locks when two change a new file's journal at once: one of them would
    // fail.
    Fd folder(::open(path.substr(0, path.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder) lock_within(folder.get(), static_cast<unsigned>(std::max(0, busy_ms)));  // else without
    auto db = Db::open(path, SQLITE_OPEN_READWRITE, busy_ms);
    if (!db) return Error{"ledger " + db.error()};
    db->keep_log();
    // No fsync in the prolog's way: a crash of the node makes every row garbage anyway.
    if (Status s =
            db->exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;");
        !s.ok())
        return Error{"ledger " + path + ": " + s.error()};
    if (Status s = db->migrate(migrations); !s.ok()) return Error{"ledger " + path + ": " + s.error()};
    return Ledger(std::move(*db));
}

Status Ledger::begin() {
    return db_.exec("BEGIN IMMEDIATE");
}
Status Ledger::commit() {
    return db_.exec("COMMIT");
}
void Ledger::rollback() {
    db_.exec("ROLLBACK");
}

Status Ledger::finish(Stmt& stmt) {
    stmt.step();
    if (stmt.failed()) return Error{"ledger: " + db_.error()};
    return Done{};
}

std::vector<Reservation> Ledger::reservations(int64_t store_id) {
    Stmt get =
        db_.prepare("SELECT " RESERVATION_COLUMNS " FROM reservation WHERE store_id = ? ORDER BY position");
    get.bind(1, store_id);
    std::vector<Reservation> rows;
    while (get.step()) rows.push_back(reservation_of(get));
    failed_ = failed_ || get.failed();
    return rows;
}

std::vector<StoreRow> Ledger::read_stores(Stmt get) {
    std::vector<StoreRow> rows;
    while (get.step()) {
        rows.push_back(store_of(get));
        rows.back().tiers = reservations(rows.back().id);
    }
    failed_ = failed_ || get.failed();
    return rows;
}

#define SELECT_STORE "SELECT " STORE_COLUMNS " FROM store "

std::vector<StoreRow> Ledger::stores() {
    return read_stores(db_.prepare(SELECT_STORE "ORDER BY id"));
}

std::optional<StoreRow> Ledger::store(int64_t id) {
    Stmt get = db_.prepare(SELECT_STORE "WHERE id = ?");
    get.bind(1, id);
    auto rows = read_stores(std::move(get));
    if (rows.empty()) return std::nullopt;
    return rows[0];
}

std::optional<StoreRow> Ledger::find_store(int64_t uid, const std::string& source) {
    Stmt get = db_.prepare(SELECT_STORE "WHERE uid = ? AND source = ?");
    get.bind(1, uid).bind_blob(2, source);
    auto rows = read_stores(std::move(get));
    if (rows.empty()) return std::nullopt;
    return rows[0];
}

Result<int64_t> Ledger::add_store(const StoreRow& r) {
    Stmt put = db_.prepare(
        "INSERT INTO store (uid, gid, name, source, boot_id, created_at, job) VALUES (?, ?, ?, ?, ?, ?, ?)");
    put.bind(1, r.uid)
        .bind(2, r.gid)
        .bind_text(3, r.name)
        .bind_blob(4, r.source)
        .bind_text(5, r.boot_id)
        .bind(6, r.created_at)
        .bind_text(7, r.job);
    if (Status s = finish(put); !s.ok()) return Error{s.error()};
    return db_.last_id();
}

Status Ledger::set_stager(int64_t id, int64_t pid, uint64_t start) {
    Stmt put = db_.prepare("UPDATE store SET stager_pid = ?, stager_start = ? WHERE id = ?");
    put.bind(1, pid).bind(2, static_cast<int64_t>(start)).bind(3, id);
    return finish(put);
}

Status Ledger::set_config(int64_t id, const std::string& config) {
    Stmt put = db_.prepare("UPDATE store SET config = ? WHERE id = ?");
    put.bind_blob(1, config).bind(2, id);
    return finish(put);
}

Status Ledger::remove_store(int64_t id) {
    Stmt gone = db_.prepare("DELETE FROM store WHERE id = ?");
    gone.bind(1, id);
    return finish(gone);
}

Status Ledger::reserve(int64_t store_id, const Reservation& r) {
    Stmt put = db_.prepare(
        "INSERT INTO reservation (store_id, " RESERVATION_COLUMNS
        ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (store_id, tier) DO UPDATE SET bytes = excluded.bytes, share = excluded.share");
    put.bind(1, store_id).bind(2, r.position).bind_text(3, r.tier).bind_blob(4, r.path).bind(5, r.tmpfs);
    int n = 6;
    for (uint64_t bytes : {r.bytes, r.share, r.most, r.capacity}) put.bind(n++, static_cast<int64_t>(bytes));
    return finish(put);
}

uint64_t Ledger::sum(const char* sql, const std::string& path) {
    Stmt get = db_.prepare(sql);
    get.bind_blob(1, path);
    // What cannot be read counts as full.
    return get.step() ? static_cast<uint64_t>(get.integer(0)) : UINT64_MAX;
}

uint64_t Ledger::used(const std::string& path) {
    return sum(
        "SELECT (SELECT coalesce(sum(bytes), 0) FROM reservation WHERE path = ?1) + "
        "(SELECT coalesce(sum(bytes), 0) FROM trash WHERE tier = ?1)",
        path);
}

uint64_t Ledger::promised(const std::string& path) {
    return sum(
        "SELECT (SELECT coalesce(sum(share), 0) FROM reservation WHERE path = ?1) + "
        "(SELECT coalesce(sum(bytes), 0) FROM trash WHERE tier = ?1 AND stuck)",
        path);
}

Result<int64_t> Ledger::add_lease(const LeaseRow& r) {
    Stmt put = db_.prepare(
        "INSERT INTO lease (store_id, job, restart, session, node, partition, uid, name, boot_id, "
        "attached_at, ended_at, "
        "outcome, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    if (r.store_id) put.bind(1, *r.store_id);
    put.bind_text(2, r.job)
        .bind(3, r.restart)
        .bind(4, r.session)
        .bind_text(5, r.node)
        .bind_text(6, r.partition);
    put.bind(7, r.uid).bind_text(8, r.name).bind_text(9, r.boot_id).bind(10, r.attached_at);
    if (r.ended_at) put.bind(11, *r.ended_at);
    put.bind_text(12, r.outcome).bind_text(13, r.note);
    if (Status s = finish(put); !s.ok()) return Error{s.error()};
    return db_.last_id();
}

Status Ledger::refuse_lease(int64_t id, const std::string& outcome, const std::string& note) {
    Stmt put = db_.prepare("UPDATE lease SET store_id = NULL, outcome = ?, note = ? WHERE id = ?");
    put.bind_text(1, outcome).bind_text(2, note).bind(3, id);
    return finish(put);
}

Status Ledger::end_lease(int64_t id, const std::string& outcome, const Counters& counters,
                         const std::string& predictor) {
    std::string sql = "UPDATE lease SET ended_at = ?, outcome = ?, predictor = ?";
    for (const char* name : counter_names) sql += std::string(", ") + name + " = ?";
    Stmt put = db_.prepare(sql + " WHERE id = ? AND ended_at IS NULL");
    put.bind(1, now_s()).bind_text(2, outcome).bind_text(3, predictor);
    int n = 4;
    for (size_t i = 0; i < counter_names.size(); i++, n++)
        put.bind(n, static_cast<int64_t>(counter(counters, i)));
    put.bind(n, id);
    return finish(put);
}

std::vector<LeaseRow> Ledger::leases(const std::string& where, std::optional<std::string> text,
                                     std::optional<int64_t> number) {
    Stmt get =
        db_.prepare("SELECT " LEASE_COLUMNS + counter_columns() + " FROM lease " + where + " ORDER BY id");
    if (text) get.bind_text(1, *text);
    if (number) get.bind(1, *number);
    std::vector<LeaseRow> rows;
    while (get.step()) rows.push_back(lease_of(get));
    failed_ = failed_ || get.failed();
    return rows;
}

std::vector<LeaseRow> Ledger::live_leases() {
    // The planner would scan the whole history; this index holds what lives.
    return leases("INDEXED BY lease_job WHERE ended_at IS NULL", {}, {});
}
std::vector<LeaseRow> Ledger::live_leases_of_job(const std::string& job) {
    return leases("WHERE ended_at IS NULL AND job = ?", job, {});
}
std::vector<LeaseRow> Ledger::live_leases_of_store(int64_t store_id) {
    return leases("WHERE ended_at IS NULL AND store_id = ?", {}, store_id);
}
std::vector<LeaseRow> Ledger::leases_of_job(const std::string& job) {
    return leases("WHERE job = ?", job, {});
}
std::vector<LeaseRow> Ledger::all_leases() {
    return leases("", {}, {});
}

Status Ledger::add_trash(const TrashRow& r) {
    Stmt put = db_.prepare("INSERT OR REPLACE INTO trash (" TRASH_COLUMNS ") VALUES (?, ?, ?, ?, ?)");
    put.bind_blob(1, r.path).bind_blob(2, r.tier).bind(3, r.tmpfs).bind(4, static_cast<int64_t>(r.bytes));
    put.bind(5, r.stuck);
    return finish(put);
}

std::vector<TrashRow> Ledger::trash() {
    Stmt get = db_.prepare("SELECT " TRASH_COLUMNS " FROM trash");
    std::vector<TrashRow> rows;
    while (get.step()) rows.push_back(trash_of(get));
    failed_ = failed_ || get.failed();
    return rows;
}

Status Ledger::remove_trash(const std::string& path) {
    Stmt gone = db_.prepare("DELETE FROM trash WHERE path = ?");
    gone.bind_blob(1, path);
    return finish(gone);
}

}  // namespace monarch
