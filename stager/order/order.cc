#include "stager/order/order.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace monarch {

std::vector<uint32_t> order_manifest(const Manifest& manifest) {
    std::vector<uint32_t> ids(manifest.size());
    std::iota(ids.begin(), ids.end(), 0u);
    return ids;
}

namespace {
struct WalkKey {
    bool classless;
    std::string_view first, folder, name;
    bool operator<(const WalkKey& o) const {
        return std::tie(classless, first, folder, name) < std::tie(o.classless, o.first, o.folder, o.name);
    }
};

WalkKey walk_key(std::string_view path) {
    size_t first = path.find('/'), last = path.rfind('/');
    if (first == std::string_view::npos) return {true, {}, {}, path};
    return {false, path.substr(0, first), path.substr(0, last), path.substr(last + 1)};
}
}  // namespace

std::vector<uint32_t> order_name(const Manifest& manifest) {
    std::vector<uint32_t> ids = order_manifest(manifest);
    std::sort(ids.begin(), ids.end(),
              [&](uint32_t a, uint32_t b) { return walk_key(manifest.path(a)) < walk_key(manifest.path(b)); });
    return ids;
}

Prediction predict(std::string_view order, const Manifest& manifest) {
    if (order == "manifest") return {"manifest", 1, order_manifest(manifest)};
    return {"name", order == "name" ? 1 : 0.5, order_name(manifest)};
}

}  // namespace monarch
