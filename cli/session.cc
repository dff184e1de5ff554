#include "cli/session.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "core/os.h"

namespace monarch::cli {

namespace {
std::string from_environment(const char* name) {
    const char* value = getenv(name);
    return value && *value == '/' ? value : "";
}
}  // namespace

std::string user_state() {
    std::string base = from_environment("XDG_STATE_HOME");
    if (!base.empty()) return base + "/monarch";
    std::string home = from_environment("HOME");
    if (const passwd* entry = home.empty() ? getpwuid(geteuid()) : nullptr) home = entry->pw_dir;
    return home + "/.local/state/monarch";
}

std::string user_tier_path() {
    std::string base = from_environment("TMPDIR");
    return (base.empty() ? "/tmp" : base) + "/monarch-" + std::to_string(geteuid());
}

std::optional<monarch_page> read_session_page(const std::string& session_dir) {
    Fd fd(open((session_dir + "/page").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    auto page = std::make_unique<monarch_page>();
    if (!fd || pread(fd.get(), page.get(), sizeof *page, 0) != sizeof *page ||
        page->magic != MONARCH_PAGE_MAGIC)
        return {};
    page->predictor[sizeof page->predictor - 1] = 0;
    page->canonical[sizeof page->canonical - 1] = 0;
    return *page;
}

std::vector<std::string> sessions_of(const std::string& job_dir) {
    std::vector<std::string> list;
    struct stat st;
    for (unsigned n = 0; n < MONARCH_MAX_SESSIONS; n++) {
        std::string dir = job_dir + "/" + std::to_string(n);
        if (stat(dir.c_str(), &st) != 0) break;
        list.push_back(dir);
    }
    return list;
}

std::string session_note(const std::string& session_dir) {
    auto note = read_file(session_dir + "/note", 4096);
    return note ? note->substr(0, note->find('\n')) : "";
}

Result<Fields> read_map(const std::string& session_dir) {
    auto bytes = read_file(session_dir + "/map", MONARCH_MAP_BYTES);
    if (!bytes) return Error{bytes.error()};
    return Fields::parse(*bytes);
}

bool stager_lives(const Fields& map) {
    Fd fd(open(map.get("lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct flock probe {};
    probe.l_type = F_RDLCK;
    return fd && fcntl(fd.get(), F_OFD_GETLK, &probe) == 0 && probe.l_type != F_UNLCK;
}

const char* state_name(uint32_t state) {
    static const char* const names[] = {"starting", "listing", "copying", "staged", "failed"};
    return state < 5 ? names[state] : "unknown";
}

int call_stager(const std::vector<std::string>& arguments, const std::string& input) {
    std::string program = find_program("monarch-stager");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return 127;
    pid_t pid = fork();
    if (pid == 0) {
        std::vector<const char*> argv = {program.c_str()};
        for (const auto& a : arguments) argv.push_back(a.c_str());
        argv.push_back(nullptr);
        dup2(ends[0], STDIN_FILENO);
        execv(program.c_str(), const_cast<char**>(argv.data()));
        _exit(127);
    }
    close(ends[0]);
    if (pid > 0) write_all(ends[1], input);
    close(ends[1]);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

}  // namespace monarch::cli
