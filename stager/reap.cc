// What no live lease owns is found and removed: after a crash, a reboot, an epilog that never ran.
#include <syslog.h>
#include <unistd.h>

#include <algorithm>

#include "core/os.h"
#include "stager/attach.h"
#include "stager/node.h"
#include "stager/settings.h"

namespace monarch {

namespace {

bool is_number(const std::string& text) {
    return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
}

void say(const std::string& what) {
    log_line(LOG_NOTICE, "reap: " + what);
}

// Whether the ledger names them. One that cannot be read may name anything.
bool has_store(Node& node, int64_t id) {
    return node.ledger.store(id) || node.ledger.failed();
}
bool has_leases(Node& node, int64_t store) {
    return !node.ledger.live_leases_of_store(store).empty() || node.ledger.failed();
}
bool has_leases(Node& node, const std::string& job) {
    return !node.ledger.live_leases_of_job(job).empty() || node.ledger.failed();
}

void drop_unleased_stores(Node& node) {
    for (const auto& store : node.ledger.stores()) {
        if (has_leases(node, store.id)) continue;
        node.stop_stager(store, 400);
        node.drop_store(store);
        say("dropped store " + std::to_string(store.id) + ", which no lease holds");
    }
}

// Folders that the ledger does not know. Read before the ledger is: attach writes the ledger first.
void drop_unknown_folders(Node& node) {
    for (const auto& tier : node.config.tiers) {
        std::string path = tier_path(tier, node.config);
        for (const auto& name : entries_of(tier_stores(path))) {
            if (!is_number(name) || has_store(node, std::stoll(name))) continue;
            std::string to = tier_trash(path) + "/unknown" + name + "." + std::to_string(now_s());
            if (rename((tier_stores(path) + "/" + name).c_str(), to.c_str()) == 0)
                say("dropped store folder " + name + " of tier " + tier.name +
                    ", which the ledger does not know");
        }
    }
    for (const auto& name : entries_of(node.at.stores())) {
        if (!is_number(name) || has_store(node, std::stoll(name))) continue;
        std::string to = node.at.run_trash() + "/unknown" + name + "." + std::to_string(now_s());
        if (rename((node.at.stores() + "/" + name).c_str(), to.c_str()) == 0)
            say("dropped run-time folder of store " + name);
    }
    for (const auto& job : entries_of(node.at.jobs())) {
        if (has_leases(node, job)) continue;
        node.drop_job_folder(job);
        say("dropped run-time folder of job " + job);
    }
}

}  // namespace

int reap(const std::string& config_dir, const std::string& node_name, const std::string& user_run,
         const std::string& user_state, bool background) {
    Fields request;
    request.add("node", node_name);
    request.add("run", user_run);
    request.add("state", user_state);
    auto settings = load_settings(request, config_dir);
    if (!settings) {
        log_line(LOG_ERR, "reap: " + settings.error());
        return 1;
    }
    auto node = Node::open(settings->config, settings->user);
    if (!node) {
        log_line(LOG_ERR, "reap: " + node.error());
        return 1;
    }
    node->publish_status();  // for the attach or detach that started this: not in their callback's time
    if (size_t ended = node->end_dead_leases())
        say("ended " + std::to_string(ended) + " leases that nobody would have ended");
    node->remove_cgroups();
    // Without its turn it could meet a store that is half made: the next reap has another try.
    if (Fd turn = node->take_turn()) {
        drop_unleased_stores(*node);
        drop_unknown_folders(*node);
    }
    if (node->ledger.failed()) {
        log_line(LOG_ERR, "reap: the ledger cannot be read: nothing that it may name is removed");
        return 1;
    }
    uint64_t left = node->empty_trash(background);
    node->publish_status();
    if (background) node->watch();
    if (left == 0) return 0;
    log_line(LOG_WARNING,
             "reap: " + std::to_string(left) + " entries could not be removed: the next reap tries again");
    return 1;
}

}  // namespace monarch
