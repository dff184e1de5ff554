// The data set's files: path relative to the root, size and mtime, in manifest order; a file's number in it
// is its file id. Where the source is listed, the order is that of the paths' bytes (as `LC_ALL=C sort`), so
// that every node numbers alike; a manifest file brings its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace monarch {

class Manifest {
  public:
    void add(std::string_view path, uint64_t size, int64_t mtime_ns);
    // A symbolic link and what it says. Links have no file id; they are made on the tiers beside the files.
    void add_link(std::string_view path, std::string_view target) {
        links_.push_back({std::string(path), std::string(target)});
    }
    // Takes the other's files and links over.
    void append(const Manifest& other);
    // Brings the files into manifest order. Ids are valid from here on.
    void sort();

    uint32_t size() const { return static_cast<uint32_t>(files_.size()); }
    std::string_view path(uint32_t id) const {
        return {paths_.data() + files_[id].path, files_[id].path_length};
    }
    uint64_t bytes(uint32_t id) const { return files_[id].size; }
    int64_t mtime_ns(uint32_t id) const { return files_[id].mtime_ns; }
    uint64_t total_bytes() const { return total_; }

    struct Link {
        std::string path, target;
    };
    const std::vector<Link>& links() const { return links_; }

  private:
    struct File {
        uint64_t path;  // where it begins in paths_
        uint64_t size;
        int64_t mtime_ns;
        uint32_t path_length;
    };
    std::string paths_;
    std::vector<File> files_;
    std::vector<Link> links_;
    uint64_t total_ = 0;
};

// The manifest in the sqlite file at `path` (schema/manifest), in the order of its ids. Errors: not there,
// not such a file, or a path in it that would leave the data set.
Result<Manifest> read_manifest(const std::string& path);

}  // namespace monarch
