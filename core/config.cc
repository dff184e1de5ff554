#include "core/config.h"

#include "core/config_toml.h"
#include "core/shm.h"

namespace monarch {
namespace {

std::string with_node(std::string path, const std::string& node) {
    for (size_t at = 0; (at = path.find("%n", at)) != std::string::npos; at += node.size())
        path.replace(at, 2, node);
    return path;
}

// `results` may also lie in the user's home.
Result<std::string> results_path(const std::string& text) {
    if (!text.starts_with("~/")) return clean_path(text);
    Result<std::string> below = clean_path(text.substr(1));
    return below ? Result<std::string>("~" + *below) : Error{below.error()};
}

void read_paths(TomlTable paths, const std::string& node, Config& config, Status& status) {
    auto folder = [&](const std::string& text) { return clean_path(with_node(text, node)); };
    auto results = [&](const std::string& text) { return results_path(with_node(text, node)); };
    config.state = paths.parsed("state", folder).value_or(config.state);
    config.run = paths.parsed("run", folder).value_or(config.run);
    config.results = paths.parsed("results", results).value_or("");
    status = paths.finish();
}

void read_defaults(TomlTable defaults, Config& config, Status& status) {
    auto epochs = [](const std::string& text) { return parse_count(text, 1, max_epochs); };
    config.order = defaults.parsed("order", parse_order).value_or(config.order);
    config.wait = defaults.parsed("wait", parse_wait).value_or(config.wait);
    config.epochs = defaults.parsed("epochs", epochs).value_or(config.epochs);
    status = defaults.finish();
}

Result<Size> tier_size(const std::string& text) {
    Result<Size> size = parse_size(text);
    if (size && size->bytes == 0 && size->percent <= 0)
        return Error{"a tier without room: use a size over 0, or remove the tier"};
    return size;
}

Result<std::string> tier_name(const std::string& text) {
    if (valid_tier_name(text)) return text;
    return Error{brief(text) +
                 " is not a tier's name: use small letters, digits, _ and -, beginning with a letter"};
}

// A disk tier has `path`, a memory tier `tmpfs`, and each the keys that go with it.
void check_tier_keys(TomlTable& table, const TomlValue& value, const TierConfig& tier) {
    bool has_path = value.find("path") != nullptr;
    if (!value.find("name")) table.fail("name", "missing: give the tier a name");
    if (has_path == tier.tmpfs)
        table.fail_at(value.line, has_path ? "both path and tmpfs: a tier has one of them, keep it"
                                           : "neither path nor tmpfs: say where the tier lies");
    if (tier.tmpfs && value.find("capacity"))
        table.fail("capacity", "a tmpfs tier has its size in tmpfs: remove this key");
    if (tier.tmpfs && value.find("on_root")) table.fail("on_root", "a tmpfs tier has none: remove this key");
}

Result<TierConfig> read_tier(const std::string& file, const TomlValue& value, const std::string& node) {
    TomlTable table(file, value);
    TierConfig tier;
    auto folder = [&](const std::string& text) { return clean_path(with_node(text, node)); };
    tier.name = table.parsed("name", tier_name).value_or("");
    tier.path = table.parsed("path", folder).value_or("");
    tier.tmpfs = value.find("tmpfs") != nullptr;
    tier.capacity = table.parsed("tmpfs", tier_size).value_or(Size{0, 90});
    if (auto capacity = table.parsed("capacity", tier_size)) tier.capacity = *capacity;
    tier.on_root = table.boolean("on_root").value_or(false);
    check_tier_keys(table, value, tier);
    Status status = table.finish();
    return status ? Result<TierConfig>(tier) : Error{status.error()};
}

bool inside(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
}

// Why `tier` cannot stand beside the `others`; "" when it can.
std::string conflict(const TierConfig& tier, const std::vector<TierConfig>& others) {
    for (const TierConfig& other : others) {
        if (tier.name == other.name) return "two tiers " + brief(tier.name) + ": rename one";
        if (tier.tmpfs || other.tmpfs) continue;
        if (inside(tier.path, other.path) || inside(other.path, tier.path))
            return "the paths of tiers " + brief(other.name) + " and " + brief(tier.name) +
                   " lie in each other: use separate folders";
    }
    return "";
}

void read_tiers(TomlTable& root, const std::string& file, const std::string& node, Config& config,
                Status& status) {
    const TomlValue* tiers = root.array_of_tables("tier");
    if (!tiers || tiers->items.empty()) return root.fail("tier", "missing: add at least one [[tier]]");
    if (tiers->items.size() > MONARCH_MAX_TIERS)
        return root.fail("tier", "more than " + std::to_string(MONARCH_MAX_TIERS) + ": remove some");
    for (const TomlValue& value : tiers->items) {
        Result<TierConfig> tier = read_tier(file, value, node);
        if (!tier) {
            status = Error{tier.error()};
            return;
        }
        std::string why = conflict(*tier, config.tiers);
        if (!why.empty()) root.fail_at(value.line, why);
        config.tiers.push_back(*tier);
    }
}

}  // namespace

Result<Config> load_config(const std::string& dir, const std::string& node) {
    return load_config_file(dir + "/monarch.toml", node);
}

Result<Config> load_config_file(const std::string& file, const std::string& node) {
    Result<TomlValue> toml = read_toml(file);
    if (!toml) return Error{toml.error()};
    Config config;
    config.dir = file.substr(0, file.rfind('/'));
    Status status[3] = {Done{}, Done{}, Done{}};
    TomlTable root(file, *toml);
    if (const TomlValue* paths = root.table("paths")) read_paths({file, *paths}, node, config, status[0]);
    read_tiers(root, file, node, config, status[1]);
    if (const TomlValue* values = root.table("defaults")) read_defaults({file, *values}, config, status[2]);
    for (const Status& part : status)
        if (!part) return Error{part.error()};
    Status whole = root.finish();
    return whole ? Result<Config>(config) : Error{whole.error()};
}

}  // namespace monarch
