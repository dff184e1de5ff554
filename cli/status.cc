// monarchctl status: this node's tiers, stores and sessions.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/cli.h"
#include "cli/session.h"
#include "core/config.h"
#include "core/counters.h"
#include "core/layout.h"
#include "core/ledger.h"
#include "core/os.h"
#include "core/tier.h"
#include "core/units.h"

namespace monarch::cli {
namespace {

struct LeaseFacts {
    std::string job, dataset, note;
    uint64_t uid = 0, session = 0;
    std::string state = "unknown", predictor;
    Counters counters{};
};

struct StatusTables {
    Table tiers{"tiers",
                {{"name", "TIER"},
                 {"path", "PATH"},
                 {"capacity_bytes", "CAPACITY", true},
                 {"used_bytes", "USED", true},
                 {"state", "STATE"}},
                {}};
    Table stores{"stores",
                 {{"id", "STORE", true},
                  {"dataset", "DATASET"},
                  {"uid", "UID", true},
                  {"reserved_bytes", "RESERVED", true},
                  {"leases", "LEASES", true},
                  {"stager", "STAGER"}},
                 {}};
    Table leases;
    StatusTables()
        : leases{"leases",
                 {{"job", "JOB"}, {"session", ""}, {"uid", ""}, {"dataset", "DATASET"}, {"state", "STATE"}},
                 {}} {
        for (const char* name : counter_names) leases.columns.push_back({name, "", true});
        for (Column c : std::initializer_list<Column>{{"staged", "STAGED", true},
                                                      {"planned", "PLANNED", true},
                                                      {"share", "DONE", true},
                                                      {"local", "LOCAL OPENS", true}})
            leases.columns.push_back(c);
        leases.columns.push_back({"predictor", "PREDICTOR"});
        leases.columns.push_back({"note", ""});
    }
    // Most have nothing to say: the column is shown where one has.
    void show_notes() {
        for (const auto& row : leases.rows)
            if (row.back().text != "-") leases.columns.back().header = "NOTE";
    }
};

double part(uint64_t of, uint64_t whole) {
    return whole ? static_cast<double>(of) / static_cast<double>(whole) : 0;
}

void add_lease(StatusTables& out, const LeaseFacts& f) {
    std::vector<Cell> row = {text_cell(f.job), number_cell(f.session), number_cell(f.uid),
                             text_cell(f.dataset), text_cell(f.state)};
    for (size_t n = 0; n < counter_names.size(); n++) row.push_back(number_cell(counter(f.counters, n)));
    uint64_t opens = f.counters.opens_local + f.counters.opens_source;
    row.push_back(bytes_cell(f.counters.bytes_staged));
    row.push_back(bytes_cell(f.counters.bytes_planned));
    row.push_back(f.counters.bytes_planned
                      ? share_cell(part(f.counters.bytes_staged, f.counters.bytes_planned))
                      : no_cell());
    row.push_back(opens ? share_cell(part(f.counters.opens_local, opens)) : no_cell());
    row.push_back(text_cell(f.predictor));
    row.push_back(text_cell(f.note));
    out.leases.rows.push_back(std::move(row));
}

// Fills in what the session's page and map say, when this user may read them.
void read_session(const std::string& dir, LeaseFacts& f) {
    auto page = read_session_page(dir);
    if (!page) return;
    f.state = state_name(page->state);
    f.counters = page->counters;
    f.predictor = page->predictor;
    if (auto map = read_map(dir); f.dataset.empty() && map) f.dataset = map->get("name");
    if (std::string note = session_note(dir); !note.empty()) f.note = note;
}

bool process_lives(int64_t pid, uint64_t start) {
    return pid > 0 && process_start(static_cast<pid_t>(pid)) == start;
}

// Everything, from the ledger: root's view of a node, or a user's of `monarchctl run`.
void add_ledger(StatusTables& out, const Layout& at, Ledger& ledger) {
    auto leases = ledger.live_leases();
    for (const auto& s : ledger.stores()) {
        uint64_t reserved = 0;
        for (const auto& t : s.tiers) reserved += t.bytes;
        auto held = std::count_if(leases.begin(), leases.end(),
                                  [&](const LeaseRow& l) { return l.store_id == s.id; });
        out.stores.rows.push_back(
            {number_cell(static_cast<uint64_t>(s.id)), text_cell(s.name),
             number_cell(static_cast<uint64_t>(s.uid)), bytes_cell(reserved),
             number_cell(static_cast<uint64_t>(held)),
             text_cell(process_lives(s.stager_pid, s.stager_start) ? "running" : "ended")});
    }
    for (const auto& l : leases) {
        LeaseFacts f{l.job,
                     l.name,
                     l.note,
                     static_cast<uint64_t>(l.uid),
                     static_cast<uint64_t>(std::max<int64_t>(0, l.session)),
                     l.outcome,
                     "",
                     {}};
        if (l.store_id) read_session(at.session(l.job, static_cast<int>(l.session)), f);
        add_lease(out, f);
    }
}

void add_tiers(StatusTables& out, const Config& config,
               const std::function<uint64_t(const std::string&, const std::string&)>& used) {
    for (const auto& tier : config.tiers) {
        TierState state = inspect_tier(tier, config);
        out.tiers.rows.push_back({text_cell(tier.name), text_cell(state.path),
                                  bytes_cell(state.capacity_bytes), bytes_cell(used(tier.name, state.path)),
                                  text_cell(state.ready ? "ready" : state.why)});
    }
}

// What root publishes for everybody, with the user's own sessions read from their pages.
void add_published(StatusTables& out, const Config& config, const Layout& at) {
    auto bytes = read_file(at.status(), 64 << 20);
    auto j = bytes ? nlohmann::json::parse(*bytes, nullptr, false) : nlohmann::json();
    std::map<std::string, uint64_t> used;
    if (j.is_object())
        for (const auto& t : j.value("tiers", nlohmann::json::array()))
            used[t.value("name", "")] = t.value("used_bytes", uint64_t{0});
    add_tiers(out, config, [&](const std::string& name, const std::string&) { return used[name]; });
    if (!j.is_object()) return;
    for (const auto& l : j.value("leases", nlohmann::json::array())) {
        LeaseFacts f;
        f.job = l.value("job", "");
        f.uid = l.value("uid", uint64_t{0});
        f.session = static_cast<uint64_t>(std::max<int64_t>(0, l.value("session", int64_t{0})));
        for (size_t n = 0; n < counter_names.size(); n++)
            counter(f.counters, n) = l.value(counter_names[n], uint64_t{0});
        f.state = "other user's";
        if (f.uid == geteuid() && f.job.find('/') == std::string::npos)
            read_session(at.session(f.job, static_cast<int>(f.session)), f);
        add_lease(out, f);
    }
}

// What `monarchctl run` uses: no configuration names them, the ledger does.
void add_run_tiers(StatusTables& out, Ledger& ledger) {
    std::set<std::string> seen;
    for (const auto& store : ledger.stores())
        for (const auto& r : store.tiers)
            if (seen.insert(r.path).second)
                out.tiers.rows.push_back({text_cell(r.tier), text_cell(r.path), bytes_cell(r.capacity),
                                          bytes_cell(ledger.used(r.path)), text_cell("ready")});
}

int status(const Context& context, const std::string& node) {
    StatusTables out;
    struct stat st;
    auto config = load_config(context.config_dir, node);
    bool configured = config.ok() || stat((context.config_dir + "/monarch.toml").c_str(), &st) == 0;
    if (configured && !config) return fail(config.error());
    if (configured) {
        Layout at(*config);
        if (geteuid() == 0 && stat(at.ledger().c_str(), &st) == 0) {
            auto ledger = Ledger::open(at.ledger(), 1000);
            if (!ledger) return fail(ledger.error());
            add_ledger(out, at, *ledger);
            add_tiers(out, *config,
                      [&](const std::string&, const std::string& path) { return ledger->used(path); });
        } else {
            add_published(out, *config, at);
        }
    }
    Layout own(user_state() + "/run", user_state());
    if (stat(own.ledger().c_str(), &st) == 0) {
        auto ledger = Ledger::open(own.ledger(), 1000);
        if (!ledger) return fail(ledger.error());
        add_ledger(out, own, *ledger);
        add_run_tiers(out, *ledger);
    }
    out.show_notes();
    if (!context.json && !configured && out.leases.rows.empty())
        return fail("nothing is staged, and this node is not configured: " + printable(context.config_dir) +
                    "/monarch.toml is missing");
    return print_tables({out.tiers, out.stores, out.leases}, context.json);
}

}  // namespace

void add_status(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("status", "This node's tiers, stores and sessions");
    command->footer(
        "Root sees every job; others see the tiers and their own sessions.\n"
        "Examples:\n"
        "  monarchctl status\n"
        "  monarchctl status --json");
    auto node = std::make_shared<std::string>(this_node());
    command->add_option("--node", *node, "Slurm's name of this node, for %n in the configuration")
        ->type_name("NAME")
        ->capture_default_str();
    add_json_flag(*command, context);
    command->callback([=, &context] { context.action = [=, &context] { return status(context, *node); }; });
}

}  // namespace monarch::cli
