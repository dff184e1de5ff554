#include "core/config_toml.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "core/os.h"
#include "core/units.h"

namespace monarch {
namespace {

constexpr size_t max_file_bytes = 16 << 20;

TomlValue convert(const toml::node& node);

void convert_table(const toml::table& table, TomlValue& value) {
    value.kind = TomlValue::table;
    for (const auto& [key, child] : table) {
        value.keys.push_back({std::string(key.str()), convert(child)});
        int line = static_cast<int>(key.source().begin.line);
        TomlValue& last = value.keys.back().value;
        // A header's key says where a table begins; a list of tables has its own lines.
        if (line > 0 && !(last.kind == TomlValue::array && last.line > 0)) last.line = line;
    }
}

TomlValue convert(const toml::node& node) {
    TomlValue value;
    value.line = static_cast<int>(node.source().begin.line);
    if (const toml::table* table = node.as_table()) {
        convert_table(*table, value);
    } else if (const toml::array* array = node.as_array()) {
        value.kind = TomlValue::array;
        for (const toml::node& item : *array) value.items.push_back(convert(item));
    } else if (const auto* text = node.as_string()) {
        value.kind = TomlValue::string;
        value.text = text->get();
    } else if (const auto* integer = node.as_integer()) {
        value.kind = TomlValue::integer;
        value.integer_ = integer->get();
    } else if (const auto* boolean = node.as_boolean()) {
        value.kind = TomlValue::boolean;
        value.boolean_ = boolean->get();
    }
    return value;
}

// Links are followed here: configuration management makes them.
Result<std::string> read_configuration(const std::string& file) {
    auto failed = [&](const std::string& why) { return Error{printable(file) + ": cannot be read: " + why}; };
    Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat st;
    if (!fd || fstat(fd.get(), &st) != 0) return failed(strerror(errno));
    if (!S_ISREG(st.st_mode)) return failed("it is not a regular file");
    Result<std::string> bytes = read_fd(fd.get(), max_file_bytes);
    return bytes ? bytes : failed(bytes.error());
}

bool configuration_name(std::string_view name) {
    return name.ends_with(".toml") && name[0] != '.';
}

}  // namespace

Error toml_error(const std::string& file, int line, const std::string& reason) {
    return Error{printable(file) + ":" + std::to_string(line) + ": " + reason};
}

const TomlValue* TomlValue::find(std::string_view key) const {
    for (const auto& [name, value] : keys)
        if (name == key) return &value;
    return nullptr;
}

Result<TomlValue> read_toml(const std::string& file) {
    Result<std::string> bytes = read_configuration(file);
    if (!bytes) return Error{bytes.error()};
    toml::parse_result parsed = toml::parse(std::string_view(*bytes), std::string_view(file));
    if (!parsed) {
        const toml::parse_error& error = parsed.error();
        return toml_error(file, static_cast<int>(error.source().begin.line),
                          printable(error.description()) + ": mend the TOML syntax");
    }
    TomlValue root;
    convert_table(parsed.table(), root);
    root.line = 1;
    return root;
}

Result<std::vector<std::string>> toml_files(const std::string& folder, bool& present) {
    std::vector<std::string> files;
    std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
    present = dir != nullptr;
    if (!dir && errno == ENOENT) return files;
    if (!dir) return Error{printable(folder) + ": cannot be read: " + strerror(errno)};
    errno = 0;
    while (const dirent* entry = readdir(dir.get()))
        if (configuration_name(entry->d_name)) files.push_back(folder + "/" + entry->d_name);
    if (errno != 0) return Error{printable(folder) + ": cannot be read: " + strerror(errno)};
    std::sort(files.begin(), files.end());
    return files;
}

TomlTable::TomlTable(std::string file, const TomlValue& table) : file_(std::move(file)), table_(table) {}

const TomlValue* TomlTable::take(std::string_view key, TomlValue::Kind kind, const char* what) {
    asked_.emplace_back(key);
    const TomlValue* value = table_.find(key);
    if (!value || value->kind == kind) return value;
    fail(key, std::string("not ") + what + ": write " + what);
    return nullptr;
}

std::optional<std::string> TomlTable::text(std::string_view key) {
    const TomlValue* value = take(key, TomlValue::string, "a string in quotes");
    return value ? std::optional(value->text) : std::nullopt;
}

std::optional<bool> TomlTable::boolean(std::string_view key) {
    const TomlValue* value = take(key, TomlValue::boolean, "true or false");
    return value ? std::optional(value->boolean_) : std::nullopt;
}

std::optional<std::vector<std::string>> TomlTable::texts(std::string_view key) {
    const TomlValue* value = take(key, TomlValue::array, "a list of strings");
    if (!value) return std::nullopt;
    std::vector<std::string> list;
    for (const TomlValue& item : value->items) {
        if (item.kind != TomlValue::string || item.text.empty())
            fail(key, "an item that is not a string with something in it: write a list of strings");
        list.push_back(item.text);
    }
    return list;
}

std::optional<std::string> TomlTable::quantity(std::string_view key) {
    const TomlValue* value = table_.find(key);
    if (!value || value->kind != TomlValue::integer) return text(key);
    asked_.emplace_back(key);
    return std::to_string(value->integer_);
}

const TomlValue* TomlTable::table(std::string_view key) {
    return take(key, TomlValue::table, "a table");
}

const TomlValue* TomlTable::array_of_tables(std::string_view key) {
    std::string what = "a list of tables, each under [[" + std::string(key) + "]]";
    const TomlValue* value = take(key, TomlValue::array, what.c_str());
    if (!value) return nullptr;
    for (const TomlValue& item : value->items)
        if (item.kind != TomlValue::table) return fail(key, "not " + what + ": write it so"), nullptr;
    return value;
}

int TomlTable::line_of(std::string_view key) const {
    const TomlValue* value = table_.find(key);
    return value ? value->line : table_.line;
}

void TomlTable::fail(std::string_view key, const std::string& reason) {
    fail_at(line_of(key), printable(key) + ": " + reason);
}

void TomlTable::fail_at(int line, const std::string& reason) {
    if (!error_.empty() && error_line_ <= line) return;
    error_line_ = line;
    error_ = toml_error(file_, line, reason).message;
}

Status TomlTable::finish() {
    for (const auto& [key, value] : table_.keys)
        if (std::find(asked_.begin(), asked_.end(), key) == asked_.end())
            fail_at(value.line, "unknown key " + brief(key) + ": see monarch.toml(5) for the keys");
    return error_.empty() ? Status(Done{}) : Error{error_};
}

}  // namespace monarch
