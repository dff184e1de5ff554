#include "core/options.h"

#include <algorithm>

#include "core/shm.h"

namespace monarch {

const OptionName option_names[8] = {
    {"dataset", "MONARCH_DATASET", "SPEC[,SPEC...]",
     "stage the data set SPEC on the job's nodes: a catalog name, /path or URL; 'list' prints the catalog"},
    {"order", "MONARCH_ORDER", "ORDER", "order in which the job reads: auto (default), manifest or name"},
    {"epochs", "MONARCH_EPOCHS", "N", "how many epochs the job runs, when it is known"},
    {"ranks", "MONARCH_RANKS", "N", "ranks per node, where one task starts several (torchrun)"},
    {"capacity", "MONARCH_CAPACITY", "SIZE|TIER=SIZE[,...]",
     "use at most this much space per node; default: the job's share"},
    {"wait", "MONARCH_WAIT", "WHEN",
     "the first open waits: none, all, 60%, 5m or 60%,5m (whichever comes first); default: auto"},
    {"access", "MONARCH_ACCESS", "HOW", "how the job reaches the copies: preload (default), bind or none"},
    {"keep", "MONARCH_KEEP", "TIME|max", "keep the copies on disk for TIME after the job"},
};

namespace {

constexpr size_t max_spec_bytes = 4096;
constexpr uint64_t max_ranks = 65536;

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> items;
    for (size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1))
        items.push_back(text.substr(0, end));
    items.push_back(text);
    return items;
}

bool letter_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string decode_commas(std::string_view item) {
    std::string text(item);
    for (size_t at = 0; (at = text.find('%', at)) != std::string::npos; at++)
        if (text.compare(at, 3, "%2C") == 0 || text.compare(at, 3, "%2c") == 0) text.replace(at, 3, ",");
    return text;
}

std::string variable_of(std::string_view name) {
    std::string variable = "MONARCH_DATASET_";
    for (char c : name) {
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
        variable.push_back(letter_or_digit(c) ? c : '_');
    }
    return variable;
}

// The part after the last '/' of a path or URL without its scheme and query.
std::string last_component(std::string_view path) {
    path = path.substr(0, path.find_first_of("?#"));
    while (!path.empty() && path.back() == '/') path.remove_suffix(1);
    return std::string(path.substr(path.rfind('/') + 1));
}

Status parse_url(DatasetSpec& spec, size_t scheme_end) {
    std::string_view scheme = std::string_view(spec.text).substr(0, scheme_end);
    std::string_view rest = std::string_view(spec.text).substr(scheme_end + 3);
    if (scheme != "s3" && scheme != "https" && scheme != "http")
        return Error{"unknown URL scheme " + brief(scheme) + ": use s3, https or http"};
    if (rest.empty() || !(letter_or_digit(rest[0]) || rest[0] == '['))
        return Error{"no host in " + brief(spec.text) + ": use a URL such as s3://bucket/prefix"};
    for (std::string_view part : split(rest, '/'))
        if (part == "..") return Error{"'..' in " + brief(spec.text) + ": give the URL without it"};
    spec.kind = SpecKind::url;
    spec.name = last_component(rest);
    return Done{};
}

Status parse_path(DatasetSpec& spec) {
    Result<std::string> path = clean_path(spec.text);
    if (!path) return Error{path.error()};
    spec.kind = SpecKind::path;
    spec.path = *path;
    spec.name = spec.path.substr(spec.path.rfind('/') + 1);
    return Done{};
}

Status parse_name(DatasetSpec& spec) {
    if (!valid_dataset_name(spec.text))
        return Error{
            brief(spec.text) +
            " is neither a catalog name nor an absolute path nor a URL: use NAME, /path or s3://bucket"};
    spec.kind = SpecKind::catalog;
    spec.name = spec.text;
    return Done{};
}

Result<DatasetSpec> parse_dataset(std::string_view item) {
    DatasetSpec spec{};
    if (item.empty()) return Error{"an empty name: use NAME, /path or URL, separated by single commas"};
    if (item.size() > max_spec_bytes) return Error{brief(item) + " is over 4096 bytes: use a shorter name"};
    if (has_control(item)) return Error{"a control character in " + brief(item) + ": use a name without it"};
    spec.text = decode_commas(item);
    size_t scheme_end = spec.text.find("://");
    Status parsed = spec.text[0] == '/'               ? parse_path(spec)
                    : scheme_end != std::string::npos ? parse_url(spec, scheme_end)
                                                      : parse_name(spec);
    if (!parsed) return Error{parsed.error()};
    spec.variable = variable_of(spec.name);
    return spec;
}

Result<uint64_t> parse_percent(std::string_view item) {
    if (item == "all") return uint64_t{100};
    return parse_count(item.substr(0, item.size() - 1), 0, 100);
}

Result<std::map<std::string, std::string>> parse_orders(std::string_view text,
                                                        const std::vector<DatasetSpec>& datasets) {
    std::map<std::string, std::string> orders;
    for (std::string_view item : split(text, ';')) {
        std::string name;
        for (const DatasetSpec& spec : datasets)
            if (item.starts_with(spec.name + ":")) name = spec.name;
        Result<std::string> order = parse_order(name.empty() ? item : item.substr(name.size() + 1));
        if (!order) return Error{order.error()};
        if (!orders.emplace(name, *order).second)
            return Error{"two orders for " + (name.empty() ? "all data sets" : brief(name)) + ": keep one"};
    }
    return orders;
}

Result<Access> parse_access(std::string_view text) {
    if (text == "preload") return Access::preload;
    if (text == "bind") return Access::bind;
    if (text == "none") return Access::none;
    return Error{"unknown access " + brief(text) + ": use preload, bind or none"};
}

// Sets `target` from `parsed`, or says why not.
template <typename T>
Status assign(T& target, const Result<T>& parsed) {
    if (!parsed) return Error{parsed.error()};
    target = *parsed;
    return Done{};
}

Status parse_keep(Options& options, std::string_view text) {
    options.keep_given = true;
    options.keep_max = text == "max";
    return options.keep_max ? Status(Done{}) : assign(options.keep_s, parse_duration(text));
}

Status parse_option(Options& options, std::string_view name, std::string_view text) {
    if (name == "dataset") return assign(options.datasets, parse_datasets(text));
    if (name == "order") return assign(options.order, parse_orders(text, options.datasets));
    if (name == "epochs") return assign(options.epochs, parse_count(text, 1, max_epochs));
    if (name == "ranks") return assign(options.ranks, parse_count(text, 1, max_ranks));
    if (name == "capacity") return assign(options.capacity, parse_capacity(text));
    if (name == "wait") return options.wait_given = true, assign(options.wait, parse_wait(text));
    if (name == "access") return assign(options.access, parse_access(text));
    return parse_keep(options, text);
}

}  // namespace

bool valid_dataset_name(std::string_view name) {
    if (name.empty() || name.size() > 255 || !letter_or_digit(name[0])) return false;
    return std::all_of(name.begin(), name.end(),
                       [](char c) { return letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

bool valid_tier_name(std::string_view name) {
    if (name.empty() || name.size() > 63 || name[0] < 'a' || name[0] > 'z') return false;
    return std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    });
}

Result<std::string> clean_path(std::string_view text) {
    if (has_control(text) || text.find('\0') != std::string_view::npos)
        return Error{"a control character in " + brief(text) + ": use a path without it"};
    if (text.empty() || text[0] != '/')
        return Error{brief(text) + " is not an absolute path: use one that begins with /"};
    std::string path;
    for (std::string_view part : split(text, '/')) {
        if (part == "..") return Error{"'..' in " + brief(text) + ": give the path without it"};
        if (!part.empty() && part != ".") path.append("/").append(part);
    }
    if (path.empty()) return Error{"'/' is the whole file system: use a folder below it"};
    return path;
}

Result<std::vector<DatasetSpec>> parse_datasets(std::string_view text) {
    if (std::count(text.begin(), text.end(), ',') >= MONARCH_MAX_SESSIONS)
        return Error{"more than " + std::to_string(MONARCH_MAX_SESSIONS) +
                     " data sets: use fewer in one job"};
    std::vector<DatasetSpec> specs;
    for (std::string_view item : split(text, ',')) {
        Result<DatasetSpec> spec = parse_dataset(item);
        if (!spec) return Error{spec.error()};
        for (const DatasetSpec& other : specs)
            if (other.variable == spec->variable)
                return Error{brief(other.text) + " and " + brief(spec->text) + " would share the variable " +
                             brief(spec->variable) + ": use one of them, or a catalog name"};
        specs.push_back(*spec);
    }
    return specs;
}

Result<Wait> parse_wait(std::string_view text) {
    if (text == "auto") return Wait{};
    if (text == "none") return Wait{Wait::none, 0, 0};
    Wait wait{Wait::threshold, 0, 0};
    bool percent_given = false, limit_given = false;
    for (std::string_view item : split(text, ',')) {
        bool is_percent = item == "all" || item.ends_with('%');
        bool& given = is_percent ? percent_given : limit_given;
        Result<uint64_t> number = is_percent ? parse_percent(item) : parse_duration(item);
        if (!number || given)
            return Error{brief(text) + " is not a time to wait: use auto, none, all, 60%, 5m or 60%,5m"};
        given = true;
        if (*number == 0) return Wait{Wait::none, 0, 0};
        if (is_percent)
            wait.percent = static_cast<unsigned>(*number);
        else
            wait.limit_s = *number;
    }
    return wait;
}

Result<Capacity> parse_capacity(std::string_view text) {
    Capacity capacity;
    capacity.given = true;
    if (text.find('=') == std::string_view::npos) {
        Status total = assign(capacity.total, parse_size(text));
        return total ? Result<Capacity>(capacity) : Error{total.error()};
    }
    for (std::string_view item : split(text, ',')) {
        size_t equals = item.find('=');
        std::string_view tier = item.substr(0, equals);
        if (equals == std::string_view::npos || !valid_tier_name(tier))
            return Error{brief(item) + " is not TIER=SIZE: use for example ram=16GiB,nvme=500GiB"};
        Result<Size> size = parse_size(item.substr(equals + 1));
        if (!size) return Error{size.error()};
        if (!capacity.by_tier.emplace(tier, *size).second)
            return Error{"tier " + brief(tier) + " twice: name it once"};
    }
    return capacity;
}

Result<std::string> parse_order(std::string_view text) {
    if (text == "auto" || text == "manifest" || text == "name") return std::string(text);
    return Error{"unknown order " + brief(text) + ": use auto, manifest or name"};
}

Result<Options> parse_options(const std::map<std::string, std::string>& raw, std::string_view prefix) {
    auto known = [](const std::string& name) {
        return std::any_of(std::begin(option_names), std::end(option_names),
                           [&](const OptionName& option) { return name == option.name; });
    };
    for (const auto& [name, text] : raw)
        if (!known(name))
            return Error{"unknown option " + brief(std::string(prefix) + name) + ": see --help"};
    Options options;
    for (const OptionName& option : option_names) {  // `dataset` first: orders name data sets
        auto given = raw.find(option.name);
        if (given == raw.end()) continue;
        Status parsed = parse_option(options, option.name, given->second);
        if (parsed) continue;
        std::string text = brief(given->second);
        return Error{std::string(prefix) + option.name + "=" + text.substr(1, text.size() - 2) + ": " +
                     parsed.error()};
    }
    return options;
}

}  // namespace monarch
