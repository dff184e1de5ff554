// The one record format between Monarch's parts: "key=value" strings, each ended by a NUL byte. Values are
// bytes (a path may hold anything but NUL). Used on the plugin's pipe to `monarch-stager attach`, from attach
// to the stager, in its inbox, in a session's map and in a job's `env` file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace monarch {

class Fields {
  public:
    // Appends a field. `value` must not hold a NUL byte (it would be cut there).
    void add(std::string_view key, std::string_view value);
    // The first value of `key`, or `fallback`.
    std::string get(std::string_view key, std::string_view fallback = {}) const;
    bool has(std::string_view key) const;
    // Every value of `key`, in order.
    std::vector<std::string> all(std::string_view key) const;
    const std::vector<std::pair<std::string, std::string>>& items() const { return items_; }

    std::string format() const;
    // Parses what format() made. An error for a string without '=', an empty key, or bytes after the last
    // NUL.
    static Result<Fields> parse(std::string_view bytes);

  private:
    std::vector<std::pair<std::string, std::string>> items_;
};

}  // namespace monarch
