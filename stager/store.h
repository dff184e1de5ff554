// The store's sqlite file (schema/store): the tier state of each file. Batched: changes wait in memory until
// flush().
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/sqlite.h"
#include "stager/manifest.h"

namespace monarch {

enum class FileState : uint8_t { source, staged, failed, retired };
const char* file_state_name(FileState s);

class StoreDb {
  public:
    // Makes a new file at `path`; one that lies there (of a stager that was killed) is replaced, since the
    // tiers say what is staged. `tiers`: names, fastest first.
    static Result<StoreDb> create(const std::string& path, std::vector<std::string> tiers);

    // The file's state is that from now on. Called once the file is where `tier` says, never before.
    void set(uint32_t id, FileState state, uint8_t tier);
    // The manifest is final: its rows are written by the next flushes, `rows_a_flush` at a time.
    void use(const Manifest* manifest);
    // One transaction with what has changed. Errors leave the changes queued for the next one.
    Status flush();
    // Nothing is waiting to be written.
    bool flushed() const { return changes_.empty() && (!manifest_ || next_row_ == manifest_->size()); }

    FileState state(uint32_t id) const { return id < states_.size() ? states_[id].state : FileState::source; }
    uint8_t tier(uint32_t id) const { return id < states_.size() ? states_[id].tier : 255; }

  private:
    StoreDb(Db db, std::vector<std::string> tiers) : db_(std::move(db)), tiers_(std::move(tiers)) {}
    Status write_rows();
    Status write_changes();
    void bind_state(Stmt& stmt, int column, uint32_t id);

    struct State {
        FileState state = FileState::source;
        uint8_t tier = 255;
    };
    Db db_;
    std::vector<std::string> tiers_;
    const Manifest* manifest_ = nullptr;
    uint32_t next_row_ = 0;
    std::vector<State> states_;
    std::vector<uint32_t> changes_;
};

}  // namespace monarch
