// The configuration files as plain values with line numbers. The one cover of toml++, which is slow to
// compile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace monarch {

struct TomlKey;

struct TomlValue {
    enum Kind { table, array, string, integer, boolean, other } kind = other;
    int line = 0;
    std::string text;      // kind string
    int64_t integer_ = 0;  // kind integer
    bool boolean_ = false;
    std::vector<TomlValue> items;  // kind array
    std::vector<TomlKey> keys;     // kind table
    const TomlValue* find(std::string_view key) const;
};

struct TomlKey {
    std::string name;
    TomlValue value;
};

// "FILE:LINE: reason".
Error toml_error(const std::string& file, int line, const std::string& reason);

// The file's root table. Errors: "FILE: cannot be read: why", "FILE:LINE: reason".
Result<TomlValue> read_toml(const std::string& file);

// The files of `folder` that end in ".toml" and do not begin with a dot, in byte order of their names.
// `present` says whether there is such a folder. An error when it cannot be read.
Result<std::vector<std::string>> toml_files(const std::string& folder, bool& present);

// Takes one table apart, key by key. The error nearest to the table's top is kept until finish(); a key that
// nobody asked for is an error as well.
class TomlTable {
  public:
    TomlTable(std::string file, const TomlValue& table);

    std::optional<std::string> text(std::string_view key);
    std::optional<bool> boolean(std::string_view key);
    std::optional<std::vector<std::string>> texts(std::string_view key);
    // A string, or a whole number as its digits: sizes, times and counts.
    std::optional<std::string> quantity(std::string_view key);
    const TomlValue* table(std::string_view key);
    const TomlValue* array_of_tables(std::string_view key);

    // What `parse` (text → Result) makes of a string or whole number.
    template <typename Parse>
    auto parsed(std::string_view key, Parse parse)
        -> std::optional<std::decay_t<decltype(*parse(std::string()))>> {
        std::optional<std::string> given = quantity(key);
        if (!given) return std::nullopt;
        auto result = parse(*given);
        if (!result) return fail(key, result.error()), std::nullopt;
        return *result;
    }

    int line_of(std::string_view key) const;
    // "FILE:LINE: KEY: reason" of a key, or of the table's own line for a missing one.
    void fail(std::string_view key, const std::string& reason);
    // "FILE:LINE: reason".
    void fail_at(int line, const std::string& reason);
    Status finish();

  private:
    const TomlValue* take(std::string_view key, TomlValue::Kind kind, const char* what);

    std::string file_;
    const TomlValue& table_;
    std::vector<std::string> asked_;
    int error_line_ = 0;
    std::string error_;
};

}  // namespace monarch
