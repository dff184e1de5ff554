#include "cli/cli.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/units.h"

namespace monarch::cli {
namespace {

using Json = nlohmann::ordered_json;

int say(std::string_view message, int status) {
    fprintf(stderr, "monarchctl: %.*s\n", static_cast<int>(message.size()), message.data());
    return status;
}

int print(const std::string& text) {
    bool good = fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (fflush(stdout) != 0) good = false;
    return good ? 0 : fail("standard output cannot be written: see to where it goes");
}

// Columns that `text` takes on a terminal: its characters, bytes that go on a UTF-8 sequence not counted.
size_t width(std::string_view text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, size_t to, bool right) {
    std::string space(to > width(text) ? to - width(text) : 0, ' ');
    return right ? space + text : text + space;
}

size_t column_width(const Table& table, size_t column) {
    size_t widest = width(table.columns[column].header);
    for (const auto& row : table.rows) widest = std::max(widest, width(row[column].text));
    return widest;
}

// Column by column, so that each is measured once; no line has spaces at its end.
std::string format(const Table& table) {
    std::vector<std::string> lines(table.rows.size() + 1);
    for (size_t c = 0; c < table.columns.size(); c++) {
        const Column& column = table.columns[c];
        if (column.header.empty()) continue;
        size_t to = column_width(table, c);
        for (size_t i = 0; i < lines.size(); i++) {
            const std::string& text = i == 0 ? column.header : table.rows[i - 1][c].text;
            lines[i] += (lines[i].empty() ? "" : "  ") + padded(text, to, column.right);
        }
    }
    std::string text;
    for (const std::string& line : lines) text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    return text;
}

Json row_json(const Table& table, const std::vector<Cell>& row) {
    Json object = Json::object();
    for (size_t c = 0; c < table.columns.size(); c++)
        std::visit([&](const auto& value) { object[table.columns[c].key] = value; }, row[c].value);
    return object;
}

}  // namespace

int fail(std::string_view message) {
    return say(message, 1);
}
int misuse(std::string_view message) {
    return say(message, 2);
}

std::string this_node() {
    if (const char* name = getenv("SLURMD_NODENAME"); name && *name) return name;
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0) return "";
    std::string name = host;
    return name.substr(0, name.find('.'));
}

void add_json_flag(CLI::App& command, Context& context) {
    command.add_flag("--json", context.json, "Print the same facts as JSON");
}

Cell no_cell() {
    return {"-", nullptr};
}
Cell text_cell(std::string_view bytes) {
    std::string text = printable(bytes);
    return {text.empty() ? "-" : text, text};
}
Cell number_cell(uint64_t number) {
    return {std::to_string(number), number};
}
Cell bytes_cell(uint64_t bytes) {
    return {format_bytes(bytes), bytes};
}
Cell share_cell(double share) {
    return {std::to_string(std::lround(share * 100)) + " %", share};
}
Cell yes_cell(bool truth) {
    return {truth ? "yes" : "no", truth};
}
Cell list_cell(const std::vector<std::string>& strings) {
    std::string text;
    std::vector<std::string> values;
    for (const std::string& s : strings) {
        values.push_back(printable(s));
        text += (text.empty() ? "" : ", ") + values.back();
    }
    return {text.empty() ? "-" : text, values};
}

int print_tables(const std::vector<Table>& tables, bool json) {
    std::string text;
    Json object = Json::object();
    for (const Table& table : tables) {
        Json& rows = object[table.name] = Json::array();
        for (const auto& row : table.rows) rows.push_back(row_json(table, row));
        text += (text.empty() ? "" : "\n") + format(table);
    }
    return print(json ? object.dump(2) + "\n" : text);
}

int print_record(const Table& table, bool json) {
    if (json) return print(row_json(table, table.rows.at(0)).dump(2) + "\n");
    size_t widest = 0;
    for (const Column& column : table.columns) widest = std::max(widest, width(column.header) + 1);
    std::string text;
    for (size_t c = 0; c < table.columns.size(); c++)
        if (!table.columns[c].header.empty())
            text +=
                padded(table.columns[c].header + ":", widest, false) + "  " + table.rows.at(0)[c].text + "\n";
    return print(text);
}

}  // namespace monarch::cli
