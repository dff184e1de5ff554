#include "stager/prepare.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "core/os.h"
#include "core/tier.h"
#include "core/units.h"

namespace monarch {

namespace {

// Whether a link means the same on a tier as in the source: relative, and ".." only at its start, no further
// up than the root. A ".." after a name could leave from wherever that name, being a link itself, leads to.
bool stays_inside(std::string_view link, std::string_view target) {
    if (target.starts_with('/')) return false;
    int depth = static_cast<int>(std::count(link.begin(), link.end(), '/'));
    bool named = false;
    for (size_t at = 0; at <= target.size();) {
        size_t end = std::min(target.find('/', at), target.size());
        std::string_view part = target.substr(at, end - at);
        if (part == "..")
            depth--;
        else if (!part.empty() && part != ".")
            named = true;
        if (depth < 0 || (named && part == "..")) return false;
        at = end + 1;
    }
    return true;
}

// The catalog's manifest spares the source the listing; without a good one the source is listed.
bool take_manifest(Prepared& p, const std::string& path, Listing& listing,
                   const std::function<void(const std::string&)>& say) {
    if (path.empty()) return false;
    auto manifest = read_manifest(path);
    if (!manifest) {
        say(manifest.error() + ": the source is listed instead");
        return false;
    }
    p.manifest = std::move(*manifest);
    listing.files = p.manifest.size();
    return true;
}

void index(Prepared& p) {
    uint32_t n = p.manifest.size();
    p.place.resize(n);
    for (uint32_t at = 0; at < n; at++) p.place[p.prediction.sequence[at]] = at;
    p.by_hash.reserve(n);
    std::set<std::string_view> folders;
    for (uint32_t id = 0; id < n; id++) {
        std::string_view path = p.manifest.path(id);
        p.by_hash.emplace_back(monarch_hash(path.data(), path.size()), id);
        for (size_t slash = path.rfind('/'); slash != std::string_view::npos;
             slash = path.rfind('/', slash - 1)) {
            if (!folders.insert(path.substr(0, slash)).second || slash == 0) break;
        }
    }
    std::sort(p.by_hash.begin(), p.by_hash.end());
    for (std::string_view folder : folders)
        p.folders.emplace_back(monarch_hash(folder.data(), folder.size()), folder);
    std::sort(p.folders.begin(), p.folders.end());
}

void look_at_tiers(Prepared& p, std::vector<std::unique_ptr<TierStore>>& tiers) {
    p.placed.assign(p.manifest.size(), no_tier);
    for (uint32_t id = 0; id < p.manifest.size(); id++)
        for (uint8_t t = 0; t < tiers.size() && p.placed[id] == no_tier; t++)
            if (tiers[t]->holds(p.manifest.path(id), p.manifest.bytes(id), p.manifest.mtime_ns(id)))
                p.placed[id] = t;
}

void measure(Prepared& p, std::vector<std::unique_ptr<TierStore>>& tiers) {
    p.need_bytes = files_space(p.manifest, tiers.size());
    p.fixed = fixed_space(p.manifest, tiers.size());
    uint64_t links = links_space(p.manifest).inodes;
    for (size_t n = 0; n < tiers.size(); n++) {
        auto& t = tiers[n];
        if (t->needs_ids()) p.fixed[n] += space_of(TierStore::ids_bytes(p.manifest.size()));
        uint64_t free = t->free_inodes();
        for (uint32_t id = 0; free != UINT64_MAX && id < p.placed.size(); id++)
            free += p.placed[id] < tiers.size() && tiers[p.placed[id]] == t;
        // The last ones are for what the stager and the job make: state, log, retired names.
        p.inodes.push_back(free == UINT64_MAX ? free : free - std::min(free, links + 16));
        // Where inodes run out first, bytes do not tell how much lands on which tier: the shares stay as they
        // are.
        if (tiers.size() > 1 && p.inodes[n] < p.manifest.size() + p.folders.size())
            p.need_bytes = UINT64_MAX / 4;
    }
}

}  // namespace

Result<Grant> parse_grant(const std::string& text) {
    auto fields = Fields::parse(text);
    if (!fields) return Error{fields.error()};
    Grant grant;
    for (const auto& b : fields->all("bytes")) grant.bytes.push_back(strtoull(b.c_str(), nullptr, 10));
    for (const auto& s : fields->all("share")) grant.share.push_back(strtoull(s.c_str(), nullptr, 10));
    grant.settled = fields->get("settled") == "1";
    if (grant.bytes.empty() || grant.bytes.size() != grant.share.size())
        return Error{"a tier without its bytes or share"};
    return grant;
}

std::vector<Room> Prepared::rooms(const Grant& grant) const {
    std::vector<Room> rooms;
    for (size_t t = 0; t < fixed.size(); t++)
        rooms.push_back({grant.share[t] - std::min(grant.share[t], fixed[t]), inodes[t]});
    return rooms;
}

uint32_t Prepared::file_of(uint64_t hash) const {
    auto at = std::lower_bound(by_hash.begin(), by_hash.end(), std::pair<uint64_t, uint32_t>(hash, 0));
    return at == by_hash.end() || at->first != hash ? manifest.size() : at->second;
}

std::vector<uint32_t> Prepared::files_below(uint64_t hash) const {
    std::vector<uint32_t> ids;
    auto at = std::lower_bound(folders.begin(), folders.end(), std::pair<uint64_t, std::string>(hash, ""));
    if (at == folders.end() || at->first != hash) return ids;
    std::string prefix = at->second + "/";
    for (uint32_t id = 0; id < manifest.size(); id++)
        if (manifest.path(id).starts_with(prefix)) ids.push_back(id);
    return ids;
}

void prepare(Prepared& p, Source& source, const Fields& config, const Grant& grant,
             std::vector<std::unique_ptr<TierStore>>& tiers, Listing& listing,
             std::atomic<bool>& canonical_known, const std::function<void(const std::string&)>& say) {
    auto canonical = source.canonical();
    if (!canonical) {
        p.error = canonical.error();
        return;
    }
    p.canonical = *canonical;
    auto names = config.all("tier"), folders = config.all("folder");
    for (size_t t = 0; t < std::min(names.size(), folders.size()); t++)
        if (p.error = overlap(p.canonical, names[t], folders[t]); !p.error.empty()) return;
    if (stat(p.canonical.c_str(), &p.root) != 0) p.root = {};
    canonical_known.store(true, std::memory_order_release);
    if (!take_manifest(p, config.get("manifest"), listing, say)) {
        if (Status s = source.list(p.manifest, listing); !s.ok()) {
            p.error = s.error();
            return;
        }
        p.manifest.sort();
    }
    if (listing.stop) return;
    p.prediction = predict(config.get("order", "auto"), p.manifest);
    index(p);
    look_at_tiers(p, tiers);
    measure(p, tiers);
    auto rooms = p.rooms(grant);
    p.plan = make_plan(p.manifest, p.prediction.sequence, rooms, p.placed);
    p.planned_on = grant.share;
    for (size_t t = 0; t < tiers.size(); t++) {
        if (rooms[t].bytes == 0) continue;
        if (tiers[t]->needs_ids() && !tiers[t]->make_ids(p.manifest.size()).ok()) tiers[t]->set_full();
        for (const auto& link : p.manifest.links())
            if (stays_inside(link.path, link.target)) tiers[t]->link(link.target, link.path);
    }
}

std::string changed_since(const Prepared& p, unsigned samples) {
    Fd root(open(p.canonical.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat st;
    if (!root || fstat(root.get(), &st) != 0) return "its root cannot be opened";
    if (mtime_ns(st) != mtime_ns(p.root) || st.st_ino != p.root.st_ino) return "its root";
    uint32_t n = p.manifest.size();
    for (unsigned k = 0; k < std::min<uint32_t>(samples, n); k++) {
        uint32_t id = static_cast<uint32_t>(uint64_t{n} * k / std::min<uint32_t>(samples, n));
        std::string path(p.manifest.path(id));
        if (fstatat(root.get(), path.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            static_cast<uint64_t>(st.st_size) != p.manifest.bytes(id) ||
            mtime_ns(st) != p.manifest.mtime_ns(id))
            return printable(path);
    }
    return "";
}

}  // namespace monarch
