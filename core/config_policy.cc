#include <algorithm>

#include "core/config.h"
#include "core/config_toml.h"

namespace monarch {
namespace {

constexpr uint64_t max_streams = 4096;
constexpr uint64_t max_wait_s = 7 * 86400;
constexpr uint64_t max_keep_s = 3650ull * 86400;

Result<uint64_t> bandwidth(const std::string& text) {
    Result<Size> size = parse_size(text.ends_with("/s") ? text.substr(0, text.size() - 2) : text);
    if (!size || size->percent > 0 || size->bytes == 0)
        return Error{brief(text) + " is not a bandwidth: use for example 2GiB/s, or leave the key out"};
    return size->bytes;
}

Result<uint64_t> time_up_to(const std::string& text, uint64_t most_s) {
    Result<uint64_t> time = parse_duration(text);
    if (time && *time > most_s) return Error{"over " + format_duration(most_s) + ": use a shorter time"};
    return time;
}

// `max_capacity`: tier → size. Whether the tiers exist is known only on the node.
Status read_capacity(const std::string& file, const TomlValue& value, Rule& rule) {
    TomlTable table(file, value);
    for (const auto& [name, ignored] : value.keys) {
        auto size = table.parsed(name, [](const std::string& text) { return parse_size(text); });
        if (!valid_tier_name(name)) table.fail(name, "not a tier's name: use a name of monarch.toml");
        rule.max_capacity.emplace(name, size.value_or(Size{}));
    }
    return table.finish();
}

void check_paths(TomlTable& table, const Rule& rule) {
    for (const std::string& path : rule.paths)
        if (path[0] != '/' && path[0] != '*')
            table.fail("paths", brief(path) + " can match no absolute path: begin it with / or *");
}

Result<Rule> read_rule(const std::string& file, const TomlValue& value) {
    TomlTable table(file, value);
    Rule rule;
    rule.file = file;
    rule.line = value.line;
    rule.users = table.texts("users").value_or(rule.users);
    rule.groups = table.texts("groups").value_or(rule.groups);
    rule.partitions = table.texts("partitions").value_or(rule.partitions);
    for (const char* who : {"users", "groups", "partitions"}) {
        const TomlValue* list = value.find(who);
        if (list && list->items.empty())
            table.fail(who, "an empty list matches nobody: name some, or remove the key");
    }
    if (auto paths = table.texts("paths")) rule.paths = *paths, rule.limits_paths = true;
    check_paths(table, rule);
    auto streams = [](const std::string& text) { return parse_count(text, 1, max_streams); };
    rule.max_streams = table.parsed("max_streams", streams).value_or(0);
    rule.max_bandwidth = table.parsed("max_bandwidth", bandwidth).value_or(0);
    rule.keep_max_s =
        table.parsed("keep_max", [](const std::string& t) { return time_up_to(t, max_keep_s); });
    rule.wait_max_s =
        table.parsed("wait_max", [](const std::string& t) { return time_up_to(t, max_wait_s); });
    if (const TomlValue* capacity = table.table("max_capacity")) {
        rule.limits_capacity = true;
        Status read = read_capacity(file, *capacity, rule);
        if (!read) return Error{read.error()};
    }
    Status status = table.finish();
    return status ? Result<Rule>(rule) : Error{status.error()};
}

bool any_matches(const std::vector<std::string>& globs, const std::string& name) {
    return std::any_of(globs.begin(), globs.end(),
                       [&](const std::string& glob) { return glob_match(glob, name); });
}

bool matches_person(const Rule& rule, const Requester& who) {
    if (!rule.users.empty() && !any_matches(rule.users, who.user)) return false;
    if (rule.groups.empty()) return true;
    return std::any_of(who.groups.begin(), who.groups.end(),
                       [&](const std::string& group) { return any_matches(rule.groups, group); });
}

bool matches_partition(const Rule& rule, const std::string& partition) {
    return partition.empty() || rule.partitions.empty() || any_matches(rule.partitions, partition);
}

// Whether the rule holds in every partition, so that no rule after it is reached.
bool takes_every_partition(const Rule& rule, const Requester& who) {
    auto anything = [](const std::string& glob) { return glob == "*" || glob == "**"; };
    return !who.partition.empty() || rule.partitions.empty() ||
           std::any_of(rule.partitions.begin(), rule.partitions.end(), anything);
}

std::string file_name(const Rule& rule) {
    return printable(rule.file.substr(rule.file.rfind('/') + 1));
}

bool allows_space(const Rule& rule) {
    return !rule.limits_capacity ||
           std::any_of(rule.max_capacity.begin(), rule.max_capacity.end(),
                       [](const auto& tier) { return tier.second.bytes > 0 || tier.second.percent > 0; });
}

std::string joined(const std::vector<std::string>& globs) {
    std::string text;
    for (const std::string& glob : globs) text += (text.empty() ? "" : ", ") + printable(glob);
    return text;
}

Status rule_allows_all(const Rule& rule, const std::vector<DatasetSpec>& datasets) {
    for (const DatasetSpec& spec : datasets)
        if (Status allowed = rule_allows(rule, spec); !allowed) return allowed;
    return Done{};
}

Status read_policy_file(const std::string& file, Policy& policy) {
    Result<TomlValue> toml = read_toml(file);
    if (!toml) return Error{toml.error()};
    TomlTable root(file, *toml);
    const TomlValue* rules = root.array_of_tables("rule");
    Status whole = root.finish();
    if (!whole || !rules) return whole;
    for (const TomlValue& value : rules->items) {
        Result<Rule> rule = read_rule(file, value);
        if (!rule) return Error{rule.error()};
        policy.rules.push_back(*rule);
    }
    return Done{};
}

}  // namespace

Status rule_allows(const Rule& rule, const DatasetSpec& spec) {
    if (!allows_space(rule))
        return Error{file_name(rule) + " allows no space on any tier: ask the administrator"};
    if (spec.kind != SpecKind::path || !rule.limits_paths || any_matches(rule.paths, spec.path))
        return Done{};
    std::string advice =
        rule.paths.empty() ? "use a name of the catalog" : "ask for one of " + joined(rule.paths);
    return Error{"path " + printable(spec.path) + " is not allowed by " + file_name(rule) + ": " + advice};
}

const Rule* Policy::match(const Requester& who) const {
    if (!any_file) return &unlimited_;
    for (const Rule& rule : rules)
        if (matches_person(rule, who) && matches_partition(rule, who.partition)) return &rule;
    return nullptr;
}

Status Policy::allows_submission(const Requester& who, const std::vector<DatasetSpec>& datasets) const {
    if (!any_file) return Done{};
    Status refused = Error{"no rule of policy.d lets " + brief(who.user) + " stage data sets" +
                           (who.partition.empty() ? "" : " in this partition") + ": ask the administrator"};
    bool first = true;
    for (const Rule& rule : rules) {
        if (!matches_person(rule, who) || !matches_partition(rule, who.partition)) continue;
        Status allowed = rule_allows_all(rule, datasets);
        if (allowed) return allowed;
        if (first) refused = allowed;
        first = false;
        if (takes_every_partition(rule, who)) break;
    }
    return refused;
}

Result<Policy> load_policy(const std::string& dir) {
    Policy policy;
    bool present = false;
    Result<std::vector<std::string>> files = toml_files(dir + "/policy.d", present);
    if (!files) return Error{files.error()};
    for (const std::string& file : *files)
        if (Status read = read_policy_file(file, policy); !read) return Error{read.error()};
    policy.any_file = !policy.rules.empty();
    return policy;
}

Result<Policy> load_policy_file(const std::string& file) {
    Policy policy;
    Status read = read_policy_file(file, policy);
    policy.any_file = !policy.rules.empty();
    return read ? Result<Policy>(policy) : Error{read.error()};
}

}  // namespace monarch
