// How the subcommands find sessions: the node's folders, the user's own folders, and a session's page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/fields.h"
#include "core/result.h"
#include "core/shm.h"

namespace monarch::cli {

// Where `monarchctl run` keeps its things: $XDG_STATE_HOME/monarch, else ~/.local/state/monarch.
std::string user_state();
// The folder of the tier that `monarchctl run` uses when none is given, in the user's temporary folder.
std::string user_tier_path();

// A copy of the page of a session, when this user may read it.
std::optional<monarch_page> read_session_page(const std::string& session_dir);
// The folders RUN/jobs/JOB/0, 1, … below a job's folder.
std::vector<std::string> sessions_of(const std::string& job_dir);
// The session's map (core/shm.h).
// What the session's stager has to say, one line; "" when nothing, or when this user may not read it.
std::string session_note(const std::string& session_dir);
Result<Fields> read_map(const std::string& session_dir);
// Whether a stager holds the lock that the map names.
bool stager_lives(const Fields& map);
const char* state_name(uint32_t state);

// Starts `monarch-stager ARGUMENTS` with `input` on its standard input and waits for it.
// Returns its exit status, 127 when it cannot be started.
int call_stager(const std::vector<std::string>& arguments, const std::string& input);

}  // namespace monarch::cli
