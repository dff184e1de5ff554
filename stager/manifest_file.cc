// Manifests in sqlite files (schema/manifest), as the catalog's `manifest =` names them.
#include <algorithm>

#include "core/sqlite.h"
#include "stager/manifest.h"

namespace monarch {

namespace {

// The file lies on a shared file system and does not change while it is read: no locks are asked for there.
std::string immutable_uri(const std::string& path) {
    std::string uri = "file:";
    for (char c : path) {
        if (c == '%' || c == '?' || c == '#') {
            static const char* const digits = "0123456789abcdef";
            uri += {'%', digits[(c >> 4) & 15], digits[c & 15]};
        } else {
            uri += c;
        }
    }
    return uri + "?immutable=1";
}

bool good_path(std::string_view path) {
    if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos) return false;
    for (size_t at = 0; at <= path.size();) {
        size_t end = std::min(path.find('/', at), path.size());
        std::string_view part = path.substr(at, end - at);
        if (part.empty() || part == "." || part == "..") return false;
        at = end + 1;
    }
    return true;
}

}  // namespace

Result<Manifest> read_manifest(const std::string& path) {
    auto db = Db::open(immutable_uri(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, 0);
    if (!db) return Error{"manifest " + db.error()};
    Manifest manifest;
    Stmt files = db->prepare("SELECT path, size, mtime_ns FROM file ORDER BY id");
    while (files.step()) {
        std::string name = files.text(0);
        if (!good_path(name) || files.integer(1) < 0)
            return Error{"manifest " + path + ": a path or size that no file can have"};
        manifest.add(name, static_cast<uint64_t>(files.integer(1)), files.integer(2));
    }
    Stmt links = db->prepare("SELECT path, target FROM link ORDER BY path");
    while (links.step())
        if (std::string name = links.text(0); good_path(name)) manifest.add_link(name, links.text(1));
    if (files.failed() || links.failed())
        return Error{"manifest " + path + ": " + db->error() + ": write it by schema/manifest"};
    return manifest;
}

}  // namespace monarch
