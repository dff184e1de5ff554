#include "stager/plan.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace monarch {

namespace {
constexpr uint64_t block = 4096;

std::string_view folder_of(std::string_view path) {
    size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

// The folders that exist on one tier, and what the missing ones of a path would cost.
class Folders {
  public:
    // How many of the folders on the way do not exist.
    uint64_t missing(std::string_view folder) const {
        uint64_t count = 0;
        for (; !folder.empty() && !made_.contains(folder); folder = folder_of(folder)) count++;
        return count;
    }
    void make(std::string_view folder) {
        for (; !folder.empty() && made_.insert(folder).second; folder = folder_of(folder)) {
        }
    }
    uint64_t count() const { return made_.size(); }

  private:
    std::unordered_set<std::string_view> made_;
};
}  // namespace

uint64_t space_of(uint64_t bytes) {
    return (bytes + block - 1) / block * block + 64;
}

namespace {
uint64_t state_space(const Manifest& manifest) {
    // A row is its path and about 60 bytes; the transaction's journal can be as large as what it changes.
    uint64_t paths = 0;
    for (uint32_t id = 0; id < manifest.size(); id++) paths += manifest.path(id).size();
    return 512 * 1024 + (paths + 60ull * manifest.size()) * 3 / 2;
}
}  // namespace

Room links_space(const Manifest& manifest) {
    Folders folders;
    Room taken{0, 0};
    for (const auto& link : manifest.links()) {
        folders.make(folder_of(link.path));
        // Its entry, and a block where the text does not fit into the inode.
        taken.bytes += 64 + (link.target.size() < 60 ? 0 : block);
        taken.inodes++;
    }
    return {taken.bytes + folders.count() * block, taken.inodes + folders.count()};
}

std::vector<uint64_t> fixed_space(const Manifest& manifest, size_t tiers) {
    std::vector<uint64_t> fixed(tiers, links_space(manifest).bytes);
    if (tiers > 0) fixed.back() += state_space(manifest);
    return fixed;
}

uint64_t files_space(const Manifest& manifest, size_t tiers) {
    Folders folders;
    uint64_t files = 0, largest = 0;
    for (uint32_t id = 0; id < manifest.size(); id++) {
        folders.make(folder_of(manifest.path(id)));
        uint64_t space = space_of(manifest.bytes(id));
        if (space > UINT64_MAX / 4 - files) return UINT64_MAX / 4;
        files += space;
        largest = std::max(largest, space);
    }
    // Every tier may have every folder, and ends where the next file does not fit.
    return files + tiers * folders.count() * block + (tiers > 1 ? (tiers - 1) * largest : 0) + block;
}

Plan make_plan(const Manifest& manifest, const std::vector<uint32_t>& sequence, std::vector<Room> room,
               const std::vector<uint8_t>& placed) {
    Plan plan;
    std::vector<Folders> folders(room.size());
    std::vector<uint64_t> taken(room.size());
    uint64_t largest = 0;
    for (const auto& r : room) largest = std::max(largest, r.bytes);
    auto take = [&](uint32_t id, uint8_t tier) {
        std::string_view folder = folder_of(manifest.path(id));
        uint64_t missing = folders[tier].missing(folder),
                 need = space_of(manifest.bytes(id)) + missing * block;
        if (need > room[tier].bytes || missing + 1 > room[tier].inodes) return false;
        room[tier].bytes -= need;
        room[tier].inodes -= missing + 1;
        taken[tier] += need;
        folders[tier].make(folder);
        plan.files++;
        plan.bytes += manifest.bytes(id);
        return true;
    };
    for (uint32_t id = 0; id < placed.size(); id++)
        if (placed[id] < room.size()) take(id, placed[id]);
    for (uint32_t id : sequence) {
        if (id < placed.size() && placed[id] != no_tier) continue;
        if (space_of(manifest.bytes(id)) + Folders().missing(folder_of(manifest.path(id))) * block > largest)
            continue;
        uint8_t tier = 0;
        while (tier < room.size() && !take(id, tier)) tier++;
        if (tier == room.size()) break;
        plan.copies.push_back({id, tier, taken[tier]});
    }
    return plan;
}

}  // namespace monarch
