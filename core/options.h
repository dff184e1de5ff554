// The job's options (the design's table), the same for sbatch, srun, salloc, `monarchctl run` and for attach,
// which checks them again because they come from the user.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/units.h"

namespace monarch {

struct OptionName {
    const char* name;         // "dataset": --monarch-dataset, --dataset of `monarchctl run`, the field's key
    const char* environment;  // "MONARCH_DATASET"
    const char* argument;     // "SPEC[,SPEC...]" for --help
    const char* help;         // one sentence
};
// The most that --monarch-epochs and [defaults] epochs may say.
constexpr uint64_t max_epochs = 1'000'000;

// The eight rows of the table, in its order.
extern const OptionName option_names[8];

enum class SpecKind { catalog, path, url };

// One data set as the user names it.
struct DatasetSpec {
    SpecKind kind;
    std::string text;      // as given, %2C decoded
    std::string path;      // kind path: absolute, "//" "." and a trailing slash taken out; ".." is refused
    std::string name;      // catalog name, or the last component of path or URL
    std::string variable;  // MONARCH_DATASET_<NAME>
};

// Splits at commas, decodes %2C, refuses: empty items, control characters, relative paths, "..", "/" itself,
// unknown URL schemes, catalog names outside [A-Za-z0-9][A-Za-z0-9._-]*, more than MONARCH_MAX_SESSIONS, 4096
// bytes an item, two items with one variable.
Result<std::vector<DatasetSpec>> parse_datasets(std::string_view text);

// A catalog name: [A-Za-z0-9][A-Za-z0-9._-]*, at most 255 bytes.
bool valid_dataset_name(std::string_view name);
// [a-z][a-z0-9_-]*, at most 63 bytes.
bool valid_tier_name(std::string_view name);
// An absolute path without "//", ".", a trailing slash; an error for a relative path, "..", control
// characters, "/".
Result<std::string> clean_path(std::string_view text);

// How long the first open waits.
struct Wait {
    enum Kind { automatic, none, threshold } kind = automatic;
    unsigned percent = 0;  // of the planned bytes; 0: no such threshold (time alone)
    uint64_t limit_s = 0;  // 0: as long as policy allows
};
Result<Wait> parse_wait(std::string_view text);  // auto | none | all | 60% | 5m | all,5m | 60%,5m

struct Capacity {
    bool given = false;
    Size total;                           // when by_tier is empty
    std::map<std::string, Size> by_tier;  // a tier not named: 0
};
Result<Capacity> parse_capacity(std::string_view text);

// Valid orders of this version: auto, manifest, name. The error lists them.
Result<std::string> parse_order(std::string_view text);

enum class Access { preload, bind, none };

struct Options {
    std::vector<DatasetSpec> datasets;
    std::map<std::string, std::string> order;  // data-set name → order; "" → for all the others
    uint64_t epochs = 0;                       // 0: not said
    uint64_t ranks = 0;                        // per node; 0: not said
    Capacity capacity;
    bool wait_given = false;
    Wait wait;
    Access access = Access::preload;
    bool keep_given = false;
    bool keep_max = false;
    uint64_t keep_s = 0;
};

// `raw`: option name ("dataset", "order", …) → the user's text. Errors name the option as `prefix`NAME, e.g.
// prefix
// "--monarch-": "--monarch-capacity=12QB: unknown unit 'QB': use a size such as 500GiB, 1.5TB or 90%".
Result<Options> parse_options(const std::map<std::string, std::string>& raw, std::string_view prefix);

}  // namespace monarch
