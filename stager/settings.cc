#include "stager/settings.h"

#include <unistd.h>

#include "core/os.h"
#include "core/tier.h"

namespace monarch {

namespace {

Result<Settings> user_settings(const Fields& request) {
    Settings s;
    s.user = true;
    s.config.state = request.get("state");
    s.config.run = request.get("run");
    s.config.results = request.get("results");
    if (!s.config.state.starts_with('/') || !s.config.run.starts_with('/'))
        return Error{"state= and run= must be absolute paths"};
    auto names = request.all("tier"), paths = request.all("path"), sizes = request.all("capacity");
    if (names.size() != paths.size() || names.size() != sizes.size())
        return Error{"a tier without its path or capacity"};
    for (size_t n = 0; n < names.size(); n++) {
        auto size = parse_size(sizes[n]);
        if (!size) return Error{size.error()};
        s.config.tiers.push_back({names[n], paths[n], false, *size, true});
    }
    if (std::string dir = request.get("catalog"); !dir.empty()) {
        auto catalog = load_catalog(dir);
        if (!catalog) return Error{catalog.error()};
        s.catalog = std::move(*catalog);
    }
    s.reap_arguments = {"--state", s.config.state, "--run", s.config.run};
    return s;
}

}  // namespace

Result<Settings> load_settings(const Fields& request, const std::string& config_dir) {
    std::string library = find_program("libmonarch.so");
    if (config_dir.empty()) {
        auto s = user_settings(request);
        if (s) s->library = library;
        return s;
    }
    Settings s;
    std::string node = request.get("node");
    auto config = load_config(config_dir, node);
    if (!config) return Error{config.error()};
    auto policy = load_policy(config_dir);
    auto catalog = load_catalog(config_dir);
    s.config = std::move(*config);
    if (policy)
        s.policy = std::move(*policy);
    else
        s.policy_error = policy.error();
    if (catalog)
        s.catalog = std::move(*catalog);
    else
        s.catalog_error = catalog.error();
    s.library = library;
    s.reap_arguments = {"--config", config_dir, "--node", node};
    return s;
}

}  // namespace monarch
