// Relative paths, as the shell's user means them.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cli/cli.h"
#include "core/config.h"
#include "core/options.h"

namespace monarch::cli {

namespace {

// The working folder, by the name that the shell has for it if that is right.
std::string working_folder() {
    const char* named = getenv("PWD");
    struct stat here, there;
    if (named && *named == '/' && stat(".", &here) == 0 && stat(named, &there) == 0 &&
        here.st_dev == there.st_dev && here.st_ino == there.st_ino)
        return named;
    std::unique_ptr<char, decltype(&free)> path(getcwd(nullptr, 0), free);
    return path ? path.get() : "/";
}

bool has_dot_dot(const std::string& path) {
    return ("/" + path + "/").find("/../") != std::string::npos;
}

// Where ".." leads depends on links: the file system is asked. What is not there is taken by its letters.
std::string without_dot_dot(const std::string& path) {
    std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), free);
    if (real) return real.get();
    std::string result, rest = path + "/";
    for (size_t at = 1, end; (end = rest.find('/', at)) != std::string::npos; at = end + 1) {
        std::string part = rest.substr(at, end - at);
        if (part == "..")
            result.resize(result.empty() ? 0 : result.rfind('/'));
        else if (!part.empty() && part != ".")
            result += "/" + part;
    }
    return result.empty() ? "/" : result;
}

std::string replace_all(std::string text, std::string_view what, std::string_view with) {
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
        text.replace(at, what.size(), with);
    return text;
}

std::string from_here(const std::string& item, const Catalog* catalog) {
    struct stat st;
    if (item.empty() || item.find("://") != std::string::npos) return item;
    if (item[0] != '/' && valid_dataset_name(item) &&
        ((catalog && catalog->find(item)) || stat(item.c_str(), &st) != 0))
        return item;
    return path_from_here(item);
}

}  // namespace

std::string path_from_here(const std::string& path) {
    std::string whole = path[0] == '/' ? path : working_folder() + "/" + path;
    return has_dot_dot(whole) ? without_dot_dot(whole) : whole;
}

std::string datasets_from_here(std::string_view text, const Context& context) {
    auto catalog = load_catalog(context.config_dir);
    std::string result;
    for (size_t at = 0; at <= text.size();) {
        size_t comma = std::min(text.find(',', at), text.size());
        std::string item(text.substr(at, comma - at));
        for (const char* code : {"%2C", "%2c"}) item = replace_all(item, code, ",");
        result += (at ? "," : "") + replace_all(from_here(item, catalog ? &*catalog : nullptr), ",", "%2C");
        at = comma + 1;
    }
    return result;
}

}  // namespace monarch::cli
