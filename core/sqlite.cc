#include "core/sqlite.h"

namespace monarch {

namespace {
void check(bool& failed, int rc) {
    if (rc != SQLITE_OK) failed = true;
}
}  // namespace

Stmt& Stmt::bind(int n, int64_t value) {
    check(failed_, sqlite3_bind_int64(s_.get(), n, value));
    return *this;
}

Stmt& Stmt::bind_text(int n, std::string_view v) {
    check(failed_, sqlite3_bind_text64(s_.get(), n, v.data() ? v.data() : "", v.size(), SQLITE_TRANSIENT,
                                       SQLITE_UTF8));
    return *this;
}

Stmt& Stmt::bind_blob(int n, std::string_view v) {
    check(failed_, sqlite3_bind_blob64(s_.get(), n, v.data() ? v.data() : "", v.size(), SQLITE_TRANSIENT));
    return *this;
}

Stmt& Stmt::bind_null(int n) {
    check(failed_, sqlite3_bind_null(s_.get(), n));
    return *this;
}

bool Stmt::step() {
    if (failed_ || !s_) {
        failed_ = true;
        return false;
    }
    int rc = sqlite3_step(s_.get());
    if (rc == SQLITE_ROW) return true;
    if (rc != SQLITE_DONE) failed_ = true;
    return false;
}

void Stmt::reset() {
    sqlite3_reset(s_.get());
    sqlite3_clear_bindings(s_.get());
    failed_ = false;
}

int64_t Stmt::integer(int column) const {
    return sqlite3_column_int64(s_.get(), column);
}

std::string Stmt::text(int column) const {
    const void* bytes = sqlite3_column_blob(s_.get(), column);
    int length = sqlite3_column_bytes(s_.get(), column);
    return bytes ? std::string(static_cast<const char*>(bytes), static_cast<size_t>(length)) : std::string();
}

bool Stmt::null(int column) const {
    return sqlite3_column_type(s_.get(), column) == SQLITE_NULL;
}

Result<Db> Db::open(const std::string& path, int flags, int busy_ms) {
    Db db;
    sqlite3* raw = nullptr;
    int rc = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX, nullptr);
    db.db_.reset(raw);
    if (rc != SQLITE_OK) return Error{path + ": " + (raw ? sqlite3_errmsg(raw) : sqlite3_errstr(rc))};
    sqlite3_busy_timeout(raw, busy_ms);
    return db;
}

void Db::keep_log() {
    sqlite3_db_config(db_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

Status Db::exec(const std::string& sql) {
    if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return Error{error()};
    return Done{};
}

Stmt Db::prepare(std::string_view sql) {
    sqlite3_stmt* s = nullptr;
    sqlite3_prepare_v2(db_.get(), sql.data(), static_cast<int>(sql.size()), &s, nullptr);
    return Stmt(s);
}

std::string Db::error() const {
    return sqlite3_errmsg(db_.get());
}

int64_t Db::last_id() const {
    return sqlite3_last_insert_rowid(db_.get());
}

int Db::changes() const {
    return sqlite3_changes(db_.get());
}

Status Db::migrate(std::span<const char* const> migrations) {
    auto version = [this] {
        Stmt get = prepare("PRAGMA user_version");
        return get.step() ? get.integer(0) : -1;
    };
    if (version() == static_cast<int64_t>(migrations.size())) return Done{};
    // Looked at again under the write lock: two may start at once.
    if (Status s = exec("BEGIN IMMEDIATE"); !s.ok()) return s;
    int64_t have = version();
    Status status = Done{};
    if (have < 0) status = Error{error()};
    if (have > static_cast<int64_t>(migrations.size())) {
        status = Error{"schema version " + std::to_string(have) + " is newer than this program's " +
                       std::to_string(migrations.size()) + ": update Monarch"};
    }
    for (int64_t n = have; status.ok() && n < static_cast<int64_t>(migrations.size()); n++)
        status = exec(std::string(migrations[static_cast<size_t>(n)]) +
                      "\nPRAGMA user_version = " + std::to_string(n + 1) + ";");
    if (status.ok()) return exec("COMMIT");
    exec("ROLLBACK");
    return status;
}

}  // namespace monarch
