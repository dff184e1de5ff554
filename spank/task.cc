// The step daemon: what attach left in RUN/jobs/JOB/env goes into the environment of the step's tasks, and
// its notes into the job's output. Nothing is waited for here.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "core/fields.h"
#include "core/os.h"
#include "core/request.h"
#include "core/shm.h"
#include "core/units.h"
#include "spank/contexts.h"

namespace monarch {
namespace {

constexpr uint32_t extern_step = 0xfffffffc;
constexpr uint32_t batch_step = 0xfffffffb;
constexpr size_t max_env_bytes = 1 << 20;
constexpr size_t max_note_bytes = 4096;

// What was appended to the container variables, so that exactly that can be taken out again.
constexpr const char* bind_variable = "MONARCH_BIND";
constexpr const char* container_variables[] = {"APPTAINER_BIND", "SINGULARITY_BIND"};

// Said by the step's first task here: lines, and files of the job's user that hold one. Filled before the
// tasks are forked; the files are read by a task, as the user.
constinit std::vector<std::string> notes;
constinit std::vector<std::string> note_files;

// ---- lists in environment variables ---------------------------------------------------------------------

std::vector<std::string> split(std::string_view text, std::string_view separators) {
    std::vector<std::string> items;
    while (!text.empty()) {
        size_t end = std::min(text.find_first_of(separators), text.size());
        if (end > 0) items.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return items;
}

bool holds(const std::vector<std::string>& items, const std::string& item) {
    return std::find(items.begin(), items.end(), item) != items.end();
}

// `text` without the items that `gone` picks; whatever else it holds stays as it was, separators included.
template <typename Predicate>
std::string without(std::string_view text, std::string_view separators, Predicate gone) {
    std::string left;
    while (!text.empty()) {
        size_t end = std::min(text.find_first_of(separators), text.size());
        std::string item(text.substr(0, end));
        size_t whole = std::min(end + 1, text.size());
        if (item.empty() || !gone(item)) left.append(text.substr(0, whole));
        text.remove_prefix(whole);
    }
    if (!left.empty() && separators.find(left.back()) != std::string_view::npos) left.pop_back();
    return left;
}

// ---- the step's environment -----------------------------------------------------------------------------

class Environment {
  public:
    explicit Environment(spank_t spank) : spank_(spank) {}

    // Not spank_getenv, which cuts a long value.
    std::string get(std::string_view name) const {
        for (char** entry = entries(); entry != nullptr && *entry != nullptr; entry++) {
            std::string_view text = *entry;
            if (text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=')
                return std::string(text.substr(name.size() + 1));
        }
        return {};
    }

    std::vector<std::string> names(std::string_view prefix) const {
        std::vector<std::string> found;
        for (char** entry = entries(); entry != nullptr && *entry != nullptr; entry++) {
            std::string_view text = *entry;
            if (text.starts_with(prefix)) found.emplace_back(text.substr(0, text.find('=')));
        }
        return found;
    }

    // An empty value takes the variable away.
    void set(const std::string& name, const std::string& value) {
        if (value.empty())
            spank_unsetenv(spank_, name.c_str());
        else if (spank_setenv(spank_, name.c_str(), value.c_str(), 1) != ESPANK_SUCCESS)
            slurm_error("monarch: cannot set %s", name.c_str());
    }

    void append(const std::string& name, const std::string& item, std::string_view separators) {
        std::string value = get(name);
        if (holds(split(value, separators), item)) return;
        if (!value.empty()) value.push_back(separators.front());
        set(name, value + item);
    }

  private:
    char** entries() const {
        char** entries = nullptr;
        return spank_get_item(spank_, S_JOB_ENV, &entries) == ESPANK_SUCCESS ? entries : nullptr;
    }

    spank_t spank_;
};

// Takes out what an earlier session set: a job that was submitted from inside a staged job has it in its
// environment, and the folders are those of the other job. A user's own MONARCH_DATASET, the option's other
// form, stays.
void remove_session(Environment& environment) {
    if (environment.get(session_variable).empty()) return;
    environment.set(session_variable, "");
    for (const std::string& name : environment.names(dataset_variable_prefix)) environment.set(name, "");
    environment.set("LD_PRELOAD", without(environment.get("LD_PRELOAD"), ": ", [](std::string_view item) {
                        return item == "libmonarch.so" || item.ends_with("/libmonarch.so");
                    }));
    const std::vector<std::string> binds = split(environment.get(bind_variable), ",");
    for (const char* name : container_variables)
        environment.set(name, without(environment.get(name), ",",
                                      [&](const std::string& item) { return holds(binds, item); }));
    environment.set(bind_variable, "");
}

void add_session(Environment& environment, const Fields& session) {
    for (const std::string& assignment : session.all("set")) {
        size_t equals = assignment.find('=');
        if (assignment.starts_with("MONARCH_") && equals != std::string::npos)
            environment.set(assignment.substr(0, equals), assignment.substr(equals + 1));
    }
    for (const std::string& path : session.all("preload")) {
        if (path.find_first_of(" :") == std::string::npos)
            environment.append("LD_PRELOAD", path, ": ");
        else
            notes.push_back(
                "every open goes to the source: the loader cannot preload a path with a space or colon: " +
                printable(path));
    }
    for (const std::string& path : session.all("bind")) {
        if (path.find_first_of(",:") != std::string::npos) continue;  // these variables have no way to say it
        for (const char* name : container_variables) environment.append(name, path, ",");
        environment.append(bind_variable, path, ",");
    }
}

// ---- what attach left -----------------------------------------------------------------------------------

// Root's own regular file or nothing: RUN may be misconfigured into a folder that users can write.
Result<Fields> read_session(const std::string& folder) {
    std::string path = folder + "/env";
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) return os_error("open", path);
    struct stat info;
    if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != 0)
        return Error{path + ": not a file of root's"};
    Result<std::string> bytes = read_fd(fd.get(), max_env_bytes);
    if (!bytes) return Error{path + ": " + bytes.error()};
    return Fields::parse(*bytes);
}

// One step a job and node says a note; the file that says that it did lies in the job's folder and goes with
// it.
bool is_first_to_say(const std::string& folder, const std::string& what) {
    std::string path = folder + "/said" + what;
    return bool(Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)));
}

// The sessions' own notes, by their stagers: what they found out since attach.
void find_note_files(const std::string& folder) {
    for (int n = 0; n < MONARCH_MAX_SESSIONS; n++) {
        std::string number = std::to_string(n), path = folder + "/" + number + "/note";
        struct stat info;
        if (lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
            is_first_to_say(folder, "." + number))
            note_files.push_back(path);
    }
}

// Without a job's folder there is no place for such a file: the batch step says it, and step 0 where that did
// not run. (The batch script's node is in what it hands to srun.)
bool is_step_that_says(uint32_t step, const Environment& environment) {
    return step == batch_step || (step == 0 && environment.get("SLURMD_NODENAME") != node_name());
}

std::string why_no_session(const Settings& settings, const Result<Config>& config) {
    if (!config) return config.error();
    if (find_stager(settings).empty()) return "monarch-stager is not installed on this node";
    return "no session was ready when this step began, the node's slurmd log may say why";
}

}  // namespace

void step_environment(spank_t spank, const Settings& settings) {
    static bool done = false;
    uint32_t job = 0, step = extern_step;
    if (done || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step == extern_step)
        return;
    done = true;

    Environment environment(spank);
    remove_session(environment);
    const bool asked = !environment.get(inherited_name(0)).empty();
    Result<Config> config = load_config(settings.config, node_name());
    std::string folder = config ? config->run + "/jobs/" + std::to_string(job) : std::string();
    Result<Fields> session = config ? read_session(folder) : Result<Fields>(Error{});
    if (session) {
        add_session(environment, *session);
        std::vector<std::string> left = session->all("note");
        notes.insert(notes.begin(), left.begin(), left.end());
        if (!notes.empty() && !is_first_to_say(folder, "")) notes.clear();
        find_note_files(folder);
    } else if (asked) {
        std::string why = why_no_session(settings, config);
        slurm_error("monarch: job %u runs unstaged: %s", job, why.c_str());
        if (is_step_that_says(step, environment)) notes.push_back("nothing is staged: " + why);
    }
}

void task_notes(spank_t spank) {
    int task = -1;
    if (notes.empty() && note_files.empty()) return;
    if (spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS || task != 0) return;
    for (const std::string& path : note_files)
        if (Result<std::string> text = read_file(path, max_note_bytes); text && !text->empty())
            notes.push_back(printable(text->substr(0, text->find('\n'))));
    std::string node = node_name();
    for (const std::string& note : notes) slurm_spank_log("monarch: %s: %s", node.c_str(), note.c_str());
    notes.clear();
    note_files.clear();
}

}  // namespace monarch
