#include "stager/bound.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "core/os.h"
#include "stager/node.h"

namespace monarch {

namespace {

struct Cgroup {
    std::string folder;  // this process's, "" where there is none
    const char* limit = "";
};

std::string text_of(const char* file) {
    auto text = read_file(file, 1 << 20);
    return text ? *text : "";
}

bool has_item(const std::string& list, const std::string& item) {
    return ("," + list + ",").find("," + item + ",") != std::string::npos;
}

// Where the mounts say that the hierarchy is: version 1 with the controller, or version 2.
std::string mount_of(bool version_1) {
    std::istringstream mounts(text_of("/proc/self/mounts"));
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        std::string device, folder, type, options;
        words >> device >> folder >> type >> options;
        if (version_1 ? type == "cgroup" && has_item(options, "memory") : type == "cgroup2") return folder;
    }
    return "";
}

Cgroup own_cgroup() {
    std::istringstream lines(text_of("/proc/self/cgroup"));
    Cgroup found;
    for (std::string line; std::getline(lines, line);) {
        size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        bool version_1 = has_item(line.substr(first + 1, second - first - 1), "memory");
        if (!version_1 && line.substr(0, second + 1) != "0::") continue;
        std::string mount = mount_of(version_1), path = line.substr(second + 1);
        if (mount.empty()) continue;
        found = {mount + (path == "/" ? "" : path), version_1 ? "/memory.limit_in_bytes" : "/memory.max"};
        if (version_1) break;
    }
    return found;
}

bool write_to(const std::string& path, uint64_t number) {
    Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    return fd && write_all(fd.get(), std::to_string(number));
}

}  // namespace

bool bind_memory(const std::string& prefix, pid_t pid, uint64_t bytes) {
    Cgroup own = own_cgroup();
    if (own.folder.empty()) return false;
    std::string folder = own.folder + "/" + prefix + std::to_string(pid);
    if (mkdir(folder.c_str(), 0755) != 0) return false;
    if (write_to(folder + own.limit, bytes) && write_to(folder + "/cgroup.procs", static_cast<uint64_t>(pid)))
        return true;
    rmdir(folder.c_str());
    return false;
}

size_t unbind_memory(const std::string& prefix, const std::set<pid_t>& live) {
    Cgroup own = own_cgroup();
    size_t left = 0;
    for (const auto& name : own.folder.empty() ? std::vector<std::string>() : entries_of(own.folder)) {
        if (!name.starts_with(prefix)) continue;
        pid_t pid = static_cast<pid_t>(atoll(name.c_str() + prefix.size()));
        bool gone = process_start(pid) == 0 && rmdir((own.folder + "/" + name).c_str()) == 0;
        left += !gone && !live.contains(pid);
    }
    return left;
}

}  // namespace monarch
