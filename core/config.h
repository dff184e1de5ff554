// What an administrator writes in etc/monarch: monarch.toml, policy.d/*.toml, datasets.d/*.toml. A file with
// an error is refused as a whole, with "FILE:LINE: reason"; it never turns into defaults. Unknown keys are
// errors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.h"
#include "core/result.h"
#include "core/units.h"

namespace monarch {

struct TierConfig {
    std::string name;  // [a-z][a-z0-9_-]*
    std::string path;  // disk tier: its folder. tmpfs tier: empty in the file → RUN/tiers/NAME
    bool tmpfs = false;
    Size capacity;         // disk: of the file system (default 90%); tmpfs: its size
    bool on_root = false;  // allow a path on the root file system
};

struct Config {
    std::string dir;  // where it was read
    std::string state = "/var/lib/monarch";
    std::string run = "/run/monarch";
    std::string results;            // [paths] results; "" = ~/.local/state/monarch/jobs
    std::vector<TierConfig> tiers;  // fastest first
    std::string order = "auto";
    Wait wait;
    uint64_t epochs = 10;
};

// Reads DIR/monarch.toml; `node` replaces %n in every path. Errors: missing file, syntax, unknown key, bad
// value, relative path, two tiers of one name, no tier, more than MONARCH_MAX_TIERS.
Result<Config> load_config(const std::string& dir, const std::string& node);
// The same of a file of any name.
Result<Config> load_config_file(const std::string& file, const std::string& node);

struct Rule {
    std::string file;  // where it stands, for messages
    int line = 0;
    std::vector<std::string> users, groups, partitions;  // globs; empty = any
    std::map<std::string, Size> max_capacity;            // tier → most; only when `limits_capacity`
    bool limits_capacity = false;                        // a tier not named is 0 then
    uint64_t max_bandwidth = 0;                          // bytes/s from the source, per node; 0 = no limit
    uint64_t max_streams = 0;                            // 0 = no limit
    std::vector<std::string> paths;                      // globs a path data set must match
    bool limits_paths = false;
    std::optional<uint64_t> keep_max_s;
    std::optional<uint64_t> wait_max_s;
};

struct Requester {
    std::string user;
    std::vector<std::string> groups;
    std::string partition;  // "" = unknown (submit host): partitions then match anything
};

class Policy {
  public:
    std::vector<Rule> rules;  // in file-name order, then in file order
    bool any_file = false;    // some file has a rule; without one everyone may use everything
    // The first rule that matches, a rule without limits when there is no policy file, null when none
    // matches.
    const Rule* match(const Requester& who) const;
    // Whether some rule that could match `who` in some partition allows the data sets (by path); else why
    // not.
    Status allows_submission(const Requester& who, const std::vector<DatasetSpec>& datasets) const;

  private:
    Rule unlimited_;
};
// DIR/policy.d/*.toml in byte order of their names (hidden files and other endings ignored).
Result<Policy> load_policy(const std::string& dir);
// One such file, to check it alone, as load_catalog_file does.
Result<Policy> load_policy_file(const std::string& file);
// Null when `rule` lets `spec` be staged, else "path /x is not allowed by 50-gpu.toml: ask for one of
// /lustre/**".
Status rule_allows(const Rule& rule, const DatasetSpec& spec);

struct CatalogEntry {
    std::string name;
    std::string source;    // absolute path or URL
    std::string manifest;  // "" = none: the source is listed
    std::string description;
    std::string file;
};
struct Catalog {
    bool present = false;  // a datasets.d folder exists
    std::map<std::string, CatalogEntry> entries;
    const CatalogEntry* find(const std::string& name) const;
};
Result<Catalog> load_catalog(const std::string& dir);  // DIR/datasets.d/*.toml
Result<Catalog> load_catalog_file(const std::string& file);

}  // namespace monarch
