#include "stager/manifest.h"

#include <algorithm>

namespace monarch {

void Manifest::add(std::string_view path, uint64_t size, int64_t mtime_ns) {
    files_.push_back({paths_.size(), size, mtime_ns, static_cast<uint32_t>(path.size())});
    paths_.append(path);
    total_ += size;
}

void Manifest::append(const Manifest& other) {
    for (uint32_t id = 0; id < other.size(); id++) add(other.path(id), other.bytes(id), other.mtime_ns(id));
    links_.insert(links_.end(), other.links_.begin(), other.links_.end());
}

void Manifest::sort() {
    auto path_of = [this](const File& f) { return std::string_view(paths_.data() + f.path, f.path_length); };
    std::sort(files_.begin(), files_.end(),
              [&](const File& a, const File& b) { return path_of(a) < path_of(b); });
    std::sort(links_.begin(), links_.end(), [](const Link& a, const Link& b) { return a.path < b.path; });
}

}  // namespace monarch
