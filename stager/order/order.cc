#include "stager/order/order.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace monarch {

std::vector<uint32_t> order_manifest(const Manifest& manifest) {
    std::vector<uint32_t> ids(manifest.size());
    std::iota(ids.begin(), ids.end(), 0u);
    return ids;
}

// Only the folders are compared, which are few; each file then goes to its folder's part of the sequence in
// manifest order, which is that of the names unless a manifest file brought another.
std::vector<uint32_t> order_name(const Manifest& manifest) {
    std::unordered_map<std::string_view, uint32_t> numbers;
    std::vector<std::string_view> folders;
    std::vector<uint32_t> folder_of(manifest.size());
    for (uint32_t id = 0; id < manifest.size(); id++) {
        std::string_view path = manifest.path(id),
                         folder = path.substr(0, std::min(path.rfind('/') + 1, path.size()));
        if (id > 0 && folder == folders[folder_of[id - 1]]) {
            folder_of[id] = folder_of[id - 1];
            continue;
        }
        auto [at, fresh] = numbers.try_emplace(folder, static_cast<uint32_t>(folders.size()));
        if (fresh) folders.push_back(folder);
        folder_of[id] = at->second;
    }
    // Whole paths without the slash at their end; the files beside the classes, whose folder is "", come
    // last.
    auto key = [&](uint32_t n) {
        std::string_view folder = folders[n].substr(0, folders[n].size() - !folders[n].empty());
        return std::tuple(folder.empty(), folder.substr(0, folder.find('/')), folder);
    };
    std::vector<uint32_t> walked(folders.size());
    std::iota(walked.begin(), walked.end(), 0u);
    std::sort(walked.begin(), walked.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });

    std::vector<uint32_t> next(folders.size()), count(folders.size()), ids(manifest.size());
    for (uint32_t f : folder_of) count[f]++;
    uint32_t begin = 0;
    for (uint32_t f : walked) {
        next[f] = begin;
        begin += count[f];
    }
    for (uint32_t id = 0; id < manifest.size(); id++) ids[next[folder_of[id]]++] = id;
    auto by_path = [&](uint32_t a, uint32_t b) { return manifest.path(a) < manifest.path(b); };
    for (size_t f = 0; f < folders.size(); f++) {
        auto end = ids.begin() + next[f], from = end - count[f];
        if (!std::is_sorted(from, end, by_path)) std::sort(from, end, by_path);
    }
    return ids;
}

Prediction predict(std::string_view order, const Manifest& manifest) {
    if (order == "manifest") return {"manifest", 1, order_manifest(manifest)};
    return {"name", order == "name" ? 1 : 0.5, order_name(manifest)};
}

}  // namespace monarch
