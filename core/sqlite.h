// A thin cover of sqlite3: owning handles, bound values, numbered migrations. One Db belongs to one thread.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace monarch {

// A prepared statement. Parameters count from 1, columns from 0, as in sqlite. An error sticks until reset().
class Stmt {
  public:
    explicit Stmt(sqlite3_stmt* s = nullptr) : s_(s) {}
    Stmt& bind(int n, int64_t value);
    Stmt& bind_text(int n, std::string_view value);
    Stmt& bind_blob(int n, std::string_view value);
    Stmt& bind_null(int n);
    // true: a row is there; false: done or failed (see failed()).
    bool step();
    bool failed() const { return failed_; }
    void reset();
    int64_t integer(int column) const;
    std::string text(int column) const;  // the bytes of TEXT or BLOB
    bool null(int column) const;

  private:
    struct Finalize {
        void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
    };
    std::unique_ptr<sqlite3_stmt, Finalize> s_;
    bool failed_ = false;
};

class Db {
  public:
    // Opens `path` with SQLITE_OPEN_* `flags`, waiting up to `busy_ms` for locks. Never follows a link at its
    // end.
    static Result<Db> open(const std::string& path, int flags, int busy_ms);
    // Leaves the write-ahead log alone when the last connection closes: no fsync in a short-lived program's
    // way.
    void keep_log();
    Status exec(const std::string& sql);
    // A statement that failed to compile yields one whose step() fails.
    Stmt prepare(std::string_view sql);
    std::string error() const;
    int64_t last_id() const;
    int changes() const;
    // Brings PRAGMA user_version up to migrations.size(), each in a transaction. A newer version is an error.
    Status migrate(std::span<const char* const> migrations);

  private:
    struct Close {
        void operator()(sqlite3* d) const { sqlite3_close_v2(d); }
    };
    std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace monarch
