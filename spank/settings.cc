#include "spank/settings.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#ifndef MONARCH_SYSCONFDIR
#define MONARCH_SYSCONFDIR "/etc"
#endif
#ifndef MONARCH_LIBEXECDIR
#define MONARCH_LIBEXECDIR "/usr/libexec/monarch"
#endif

namespace monarch {
namespace {

constexpr std::string_view stager_name = "monarch-stager";

bool is_program(const std::string& path) {
    return access(path.c_str(), X_OK) == 0;
}

std::string plugin_folder() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&plugin_folder), &info) == 0 || info.dli_fname == nullptr) return {};
    std::string path = info.dli_fname;
    size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace

Settings read_settings(int ac, char** av) {
    Settings settings{.config = MONARCH_SYSCONFDIR "/monarch", .bin = {}, .unknown = {}};
    for (int i = 0; i < ac; i++) {
        std::string_view argument = av[i];
        if (argument.starts_with("config="))
            settings.config = argument.substr(7);
        else if (argument.starts_with("bin="))
            settings.bin = argument.substr(4);
        else if (settings.unknown.empty())
            settings.unknown = argument;
    }
    return settings;
}

std::string find_stager(const Settings& settings) {
    const std::string folders[] = {plugin_folder(), MONARCH_LIBEXECDIR, "/usr/libexec/monarch", "/usr/sbin"};
    if (!settings.bin.empty()) {
        std::string path = settings.bin + "/" + std::string(stager_name);
        return is_program(path) ? path : std::string();
    }
    for (const std::string& folder : folders) {
        std::string path = folder + "/" + std::string(stager_name);
        if (!folder.empty() && is_program(path)) return path;
    }
    return {};
}

std::string node_name() {
    if (const char* name = getenv("SLURMD_NODENAME"); name != nullptr && *name != '\0') return name;
    char host[256] = {};
    if (gethostname(host, sizeof host - 1) != 0) return {};
    std::string name = host;
    return name.substr(0, name.find('.'));
}

spank_option* spank_option_of(size_t option) {
    struct Text {
        std::string name, argument, usage;
        spank_option slurm;
    };
    static std::array<Text, option_count> texts;
    Text& text = texts[option];
    if (!text.name.empty()) return &text.slurm;
    const OptionName& ours = option_names[option];
    text.name = std::string("monarch-") + ours.name;
    text.argument = ours.argument;
    text.usage = std::string("[monarch] ") + ours.help;
    text.slurm = {.name = text.name.data(),
                  .arginfo = text.argument.data(),
                  .usage = text.usage.data(),
                  .has_arg = 1,
                  .val = int(option),
                  .cb = note_option};
    return &text.slurm;
}

std::string travel_name(size_t option) {
    return std::string("_SLURM_SPANK_OPTION_monarch_monarch_") + option_names[option].name;
}

std::string inherited_name(size_t option) {
    return "SLURM_SPANK_" + travel_name(option);
}

std::optional<std::string> given_option(spank_t spank, size_t option) {
    char* value = nullptr;
    if (spank_option_getopt(spank, spank_option_of(option), &value) != ESPANK_SUCCESS || value == nullptr)
        return std::nullopt;
    return std::string(value);
}

}  // namespace monarch
