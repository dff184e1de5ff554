#include "core/fields.h"

namespace monarch {

void Fields::add(std::string_view key, std::string_view value) {
    items_.emplace_back(std::string(key), std::string(value.substr(0, value.find('\0'))));
}

std::string Fields::get(std::string_view key, std::string_view fallback) const {
    for (const auto& [k, v] : items_)
        if (k == key) return v;
    return std::string(fallback);
}

bool Fields::has(std::string_view key) const {
    for (const auto& item : items_)
        if (item.first == key) return true;
    return false;
}

std::vector<std::string> Fields::all(std::string_view key) const {
    std::vector<std::string> values;
    for (const auto& [k, v] : items_)
        if (k == key) values.push_back(v);
    return values;
}

std::string Fields::format() const {
    std::string bytes;
    for (const auto& [k, v] : items_) bytes.append(k).append("=").append(v).push_back('\0');
    return bytes;
}

Result<Fields> Fields::parse(std::string_view bytes) {
    Fields fields;
    while (!bytes.empty()) {
        size_t end = bytes.find('\0');
        if (end == std::string_view::npos) return Error{"record cut short"};
        std::string_view item = bytes.substr(0, end);
        size_t equals = item.find('=');
        if (equals == std::string_view::npos || equals == 0) return Error{"record without a key"};
        fields.add(item.substr(0, equals), item.substr(equals + 1));
        bytes.remove_prefix(end + 1);
    }
    return fields;
}

}  // namespace monarch
