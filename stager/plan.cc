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
    uint64_t cost(std::string_view folder) const {
        uint64_t missing = 0;
        for (; !folder.empty() && !made_.contains(folder); folder = folder_of(folder)) missing += block;
        return missing;
    }
    void make(std::string_view folder) {
        for (; !folder.empty() && made_.insert(folder).second; folder = folder_of(folder)) {
        }
    }

  private:
    std::unordered_set<std::string_view> made_;
};
}  // namespace

uint64_t space_of(uint64_t bytes) {
    return (bytes + block - 1) / block * block + 64;
}

uint64_t store_overhead(const Manifest& manifest) {
    // A row is its path and about 60 bytes; the transaction's journal can be as large as what it changes.
    uint64_t paths = 0;
    for (uint32_t id = 0; id < manifest.size(); id++) paths += manifest.path(id).size();
    return 512 * 1024 + (paths + 60ull * manifest.size()) * 3 / 2;
}

Plan make_plan(const Manifest& manifest, const std::vector<uint32_t>& sequence,
               std::vector<uint64_t> capacity, const std::vector<uint8_t>& placed) {
    Plan plan;
    std::vector<Folders> folders(capacity.size());
    uint64_t largest = capacity.empty() ? 0 : *std::max_element(capacity.begin(), capacity.end());
    auto take = [&](uint32_t id, uint8_t tier) {
        std::string_view folder = folder_of(manifest.path(id));
        uint64_t need = space_of(manifest.bytes(id)) + folders[tier].cost(folder);
        if (need > capacity[tier]) return false;
        capacity[tier] -= need;
        folders[tier].make(folder);
        plan.files++;
        plan.bytes += manifest.bytes(id);
        return true;
    };
    for (uint32_t id = 0; id < placed.size(); id++)
        if (placed[id] < capacity.size()) take(id, placed[id]);
    for (uint32_t id : sequence) {
        if (id < placed.size() && placed[id] != no_tier) continue;
        if (space_of(manifest.bytes(id)) + Folders().cost(folder_of(manifest.path(id))) > largest) continue;
        uint8_t tier = 0;
        while (tier < capacity.size() && !take(id, tier)) tier++;
        if (tier == capacity.size()) break;
        plan.copies.push_back({id, tier});
    }
    return plan;
}

}  // namespace monarch
