// Whose the space on the tiers is: grants to the stores that live, deletion of those that are gone.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "core/os.h"
#include "stager/node.h"
#include "stager/space.h"

namespace monarch {

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t progress_ns = 100'000'000;  // so often is told what has been deleted
constexpr uint64_t watch_ns = 600 * second_ns;

// A process that nobody waits for keeps out of the way of those that work.
void keep_back(bool back) {
    if (geteuid() == 0) setpriority(PRIO_PROCESS, 0, back ? 10 : 0);  // others could not come back from it
    set_io_idle(back);
}

struct Tier {
    uint64_t trash = 0, stuck = 0;
};

}  // namespace

PageFacts Node::facts_of(const StoreRow& store) {
    PageFacts facts;
    for (const auto& lease : ledger.live_leases_of_store(store.id)) {
        facts = read_page(at.session(lease.job, static_cast<int>(lease.session)));
        if (facts.need) break;
    }
    return facts;
}

Status Node::write_grant(const StoreRow& store, bool settled) {
    Fields grant;
    for (const auto& r : store.tiers) {
        grant.add("bytes", std::to_string(r.bytes));
        grant.add("share", std::to_string(r.share));
    }
    grant.add("settled", settled ? "1" : "0");
    std::string text = grant.format();
    if (auto old = read_file(at.grant(store.id), 65536); old && *old == text) return Done{};
    return write_file(at.grant(store.id), text, 0444);
}

Status Node::mount_tmpfs(const StoreRow& store, const Reservation& r, bool again) {
    std::string data = tier_data(r.path, store.id);
    // A size of 0 would be no limit at all.
    std::string size = "size=" + std::to_string(std::max<uint64_t>(r.bytes, 4096));
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOATIME | (again ? MS_REMOUNT : 0);
    if (!again)
        size += ",nr_inodes=" + std::to_string(r.most / 2048 + 4096) +
                ",mode=0700,uid=" + std::to_string(store.uid) + ",gid=" + std::to_string(store.gid);
    // Before Linux 6.4 there is no noswap.
    for (const std::string& options : {size + ",noswap", size})
        if (mount("monarch", data.c_str(), "tmpfs", flags, options.c_str()) == 0) return Done{};
    return os_error(again ? "change the size of" : "mount a tmpfs on", data);
}

Node::Settled Node::settle() {
    Settled result;
    if (Status s = ledger.begin(); !s.ok()) {
        log_line(LOG_WARNING, "space is not settled: " + s.error());
        return result;
    }
    auto stores = ledger.stores();
    std::map<std::string, Tier> tiers;
    for (const auto& row : ledger.trash()) {
        tiers[row.tier].trash += row.bytes;
        if (row.stuck) tiers[row.tier].stuck += row.bytes;
    }
    // What cannot be read counts as full: nobody gets more.
    if (ledger.failed()) {
        ledger.rollback();
        log_line(LOG_WARNING, "space is not settled: the ledger cannot be read");
        return result;
    }
    struct Part {
        StoreRow* store;
        size_t tier;
    };
    // Fastest first: what a store gets on one tier it does not need on the next.
    std::map<int, std::map<std::string, std::vector<Part>>> parts;
    std::map<int64_t, std::optional<Need>> need;
    for (auto& store : stores) {
        PageFacts facts = facts_of(store);
        need[store.id] = facts.need;
        if (!facts.need && facts.state != MONARCH_FAILED)
            result.undecided = result.undecided || stager_lives(store);
        for (size_t t = 0; t < store.tiers.size(); t++)
            parts[store.tiers[t].position][store.tiers[t].path].push_back({&store, t});
    }
    std::vector<std::pair<const StoreRow*, Reservation>> changed;  // with what was
    for (auto& [position, paths] : parts)
        for (auto& [path, list] : paths) {
            std::vector<Claim> claims;
            for (const auto& part : list) {
                const Reservation& r = part.store->tiers[part.tier];
                Claim c{part.store->id, part.store->job, r.bytes, r.share, r.most, {}};
                if (const auto& n = need[part.store->id]) c.need = n->fixed[part.tier] + n->bytes;
                claims.push_back(c);
            }
            // As the newest store found it: the configuration may have changed.
            monarch::settle(list.back().store->tiers[list.back().tier].capacity, tiers[path].trash,
                            tiers[path].stuck, claims);
            for (size_t n = 0; n < list.size(); n++) {
                StoreRow& store = *list[n].store;
                Reservation &r = store.tiers[list[n].tier], before = r;
                if (auto& its = need[store.id])
                    its->bytes -= std::min(
                        its->bytes, claims[n].share - std::min(claims[n].share, its->fixed[list[n].tier]));
                r.bytes = claims[n].bytes;
                r.share = claims[n].share;
                // A tmpfs that holds more than its stager says keeps its space.
                if (r.tmpfs && r.bytes < before.bytes && !mount_tmpfs(store, r, true).ok()) {
                    r.bytes = before.bytes;
                    r.share = std::max(r.share, r.bytes);
                }
                result.waiting = result.waiting || r.bytes < r.share;
                if (r.bytes == before.bytes && r.share == before.share) continue;
                if (Status s = ledger.reserve(store.id, r); !s.ok()) log_line(LOG_ERR, s.error());
                changed.emplace_back(&store, before);
            }
        }
    if (Status s = ledger.commit(); !s.ok()) {
        ledger.rollback();
        log_line(LOG_WARNING, "space is not settled: " + s.error());
        return result;
    }
    for (const auto& [store, before] : changed)
        for (const auto& r : store->tiers)
            if (r.tier == before.tier && r.tmpfs && r.bytes > before.bytes)
                if (Status s = mount_tmpfs(*store, r, true); !s.ok()) log_line(LOG_WARNING, s.error());
    for (const auto& store : stores)
        if (access(at.store(store.id).c_str(), F_OK) == 0)  // else it is just being made
            if (Status s = write_grant(store, need[store.id].has_value()); !s.ok())
                log_line(LOG_WARNING, s.error());
    return result;
}

void Node::watch() {
    uint64_t until = monotonic_ns() + watch_ns;
    auto busy = [this] {
        Fd turn = take_turn();
        Settled s = settle();
        return s.undecided || s.waiting || remove_cgroups() > 0;
    };
    do {
        // Another attach's watcher sees this one's store as well, unless it was just about to end: so whoever
        // ends looks once more after it has let go.
        Fd watcher = lock_file("watch.lock");
        if (watcher && flock(watcher.get(), LOCK_EX | LOCK_NB) != 0) return;
        bool changed = false;
        for (unsigned tries = 0; busy() && monotonic_ns() < until; tries++) {
            changed = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(tries < 100 ? 20 : 250));
        }
        if (changed) publish_status();
    } while (monotonic_ns() < until && busy());
}

// A store's folder out of the way for good: first what is mounted in it, then the rest.
uint64_t Node::empty(const std::string& path) {
    std::string data = path + "/data";
    while (umount2(data.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
    }
    TrashRow row;
    for (const auto& r : ledger.trash())
        if (r.path == path) row = r;
    uint64_t freed = 0, told_at = monotonic_ns();
    auto tell = [&](bool stuck) {
        if (row.path.empty()) return;
        Fd turn = take_turn();
        TrashRow now = row;
        now.bytes -= std::min(now.bytes, freed);
        now.stuck = stuck;
        (void)ledger.add_trash(now);
        keep_back(!settle().waiting);
    };
    tell(false);
    uint64_t left = remove_tree(path, [&](uint64_t bytes) {
        freed += bytes;
        if (monotonic_ns() - told_at < progress_ns) return;
        tell(false);
        told_at = monotonic_ns();
    });
    if (left > 0) {
        tell(true);
        return left;
    }
    if (row.path.empty()) return 0;
    Fd turn = take_turn();
    (void)ledger.remove_trash(path);
    settle();
    return 0;
}

uint64_t Node::empty_trash(bool give_way) {
    // Who waits has not begun to look yet, so it will see what is there now.
    Fd next = lock_file("reap.next"), turn = lock_file("reap.lock");
    if (give_way && next && flock(next.get(), LOCK_EX | LOCK_NB) != 0) return 0;
    if (turn) flock(turn.get(), LOCK_EX);
    next.reset();
    uint64_t left = 0;
    std::set<std::string> folders = {at.run_trash()};
    for (const auto& tier : config.tiers) folders.insert(tier_trash(tier_path(tier, config)));
    for (const auto& row : ledger.trash()) folders.insert(tier_trash(row.tier));
    for (const auto& folder : folders)
        for (const auto& name : entries_of(folder)) left += empty(folder + "/" + name);
    for (const auto& row : ledger.trash())
        if (access(row.path.c_str(), F_OK) != 0) (void)ledger.remove_trash(row.path);
    return left;
}

}  // namespace monarch
