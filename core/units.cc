#include "core/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace monarch {
namespace {

constexpr uint64_t max_bytes = INT64_MAX;
constexpr uint64_t max_seconds = 36500ull * 24 * 3600;  // in nanoseconds it still fits 63 bits
constexpr const char* size_advice = ": use a size such as 500GiB, 1.5TB or 90%";
constexpr const char* time_advice = ": use a time such as 90s, 5m or 24h";

bool digit(char c) {
    return c >= '0' && c <= '9';
}

// Takes the digits at the start of `text`. False when there are none or they do not fit 64 bits.
bool take_number(std::string_view& text, uint64_t& number) {
    size_t i = 0;
    number = 0;
    for (; i < text.size() && digit(text[i]); i++)
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, static_cast<unsigned>(text[i] - '0'), &number))
            return false;
    text.remove_prefix(i);
    return i > 0;
}

// Takes ".25" at the start of `text` as 0.25; 0 when there is none.
double take_fraction(std::string_view& text) {
    if (text.size() < 2 || text[0] != '.' || !digit(text[1])) return 0;
    double fraction = 0, weight = 0.1;
    size_t i = 1;
    for (; i < text.size() && digit(text[i]); i++, weight /= 10) fraction += (text[i] - '0') * weight;
    text.remove_prefix(i);
    return fraction;
}

// Bytes in `unit` in any case ("", B, K, KiB, KB, …); 0 for an unknown one.
uint64_t unit_bytes(std::string_view unit) {
    std::string u;
    for (char c : unit.substr(0, 4)) u.push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c);
    if (u.empty() || u == "B") return 1;
    size_t power = std::string_view("KMGTP").find(u[0]);
    std::string_view rest = std::string_view(u).substr(1);
    if (power == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "IB")) return 0;
    uint64_t bytes = 1;
    for (size_t i = 0; i <= power; i++) bytes *= rest == "B" ? 1000 : 1024;
    return bytes;
}

Result<Size> share(uint64_t whole, double fraction) {
    double percent = static_cast<double>(whole) + fraction;
    if (percent > 100) return Error{std::string("over 100 %") + size_advice};
    return Size{0, percent};
}

// The length of the UTF-8 sequence at the start of `s` (Unicode 15, table 3-7) and its code point; 0 if
// invalid.
size_t utf8_length(std::string_view s, uint32_t& code) {
    auto byte = [&](size_t i) -> uint32_t { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0; };
    uint32_t lead = byte(0);
    size_t length = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : 4;
    if (length == 1) return code = lead, 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    code = lead & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        code = code << 6 | (byte(i) & 0x3f);
    }
    constexpr std::array<uint32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < smallest[length] || code > 0x10ffff || surrogate ? 0 : length;
}

// Control characters, line separators and the marks that turn the direction of what follows.
bool moves_the_cursor(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

void append_hex(std::string& out, std::string_view bytes) {
    for (unsigned char c : bytes) {
        char hex[8];
        snprintf(hex, sizeof hex, "\\x%02x", c);
        out += hex;
    }
}

// One element of a pattern.
struct Token {
    enum Kind { one, star, star_star } kind;
    std::array<bool, 256> set{};  // kind one: the bytes that it takes
};

// Parses "[...]" at pattern[i] into `token`; returns the place after it, or i when it has no end.
size_t parse_set(std::string_view pattern, size_t i, Token& token) {
    size_t p = i + 1;
    bool negated = p < pattern.size() && (pattern[p] == '!' || pattern[p] == '^');
    if (negated) p++;
    size_t end = pattern.find(']', p + 1);
    if (end == std::string_view::npos) return i;
    for (; p < end; p++) {
        unsigned low = static_cast<unsigned char>(pattern[p]), high = low;
        if (p + 2 < end && pattern[p + 1] == '-') high = static_cast<unsigned char>(pattern[p += 2]);
        for (unsigned c = low; c <= high; c++) token.set[c] = true;
    }
    if (negated)
        for (bool& member : token.set) member = !member;
    token.set['/'] = false;
    return end + 1;
}

std::vector<Token> parse_pattern(std::string_view pattern) {
    std::vector<Token> tokens;
    for (size_t i = 0; i < pattern.size();) {
        Token token{Token::one};
        size_t after_set = pattern[i] == '[' ? parse_set(pattern, i, token) : i;
        if (after_set > i) {
            i = after_set;
        } else if (pattern[i] == '*') {
            bool twice = i + 1 < pattern.size() && pattern[i + 1] == '*';
            token.kind = twice ? Token::star_star : Token::star;
            i += twice ? 2 : 1;
        } else if (pattern[i] == '?') {
            token.set.fill(true);
            token.set['/'] = false;
            i++;
        } else {
            token.set[static_cast<unsigned char>(pattern[i++])] = true;
        }
        tokens.push_back(token);
    }
    return tokens;
}

}  // namespace

uint64_t Size::of(uint64_t whole) const {
    if (percent <= 0) return bytes;
    // In millionths of a percent, since 33.3 has no exact double and would be rounded down to less.
    auto millionths = static_cast<unsigned>(std::llround(std::min(percent, 100.0) * 1e6));
    return static_cast<uint64_t>(static_cast<unsigned __int128>(whole) * millionths / 100'000'000);
}

Result<Size> parse_size(std::string_view text) {
    if (text.empty()) return Error{std::string("no size") + size_advice};
    std::string_view rest = text;
    uint64_t whole = 0;
    if (!digit(rest[0])) return Error{brief(text) + " is not a size" + size_advice};
    if (!take_number(rest, whole)) return Error{std::string("over 8 EiB") + size_advice};
    double fraction = take_fraction(rest);
    if (rest == "%") return share(whole, fraction);
    if (rest.size() > 1 && rest[0] == ' ') rest.remove_prefix(1);
    uint64_t unit = unit_bytes(rest);
    if (unit == 0) return Error{"unknown unit " + brief(rest) + size_advice};
    if (unit == 1 && fraction > 0) return Error{std::string("a part of a byte") + size_advice};
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(whole, unit, &bytes) ||
        __builtin_add_overflow(
            bytes, static_cast<uint64_t>(std::llround(fraction * static_cast<double>(unit))), &bytes) ||
        bytes > max_bytes)
        return Error{std::string("over 8 EiB") + size_advice};
    return Size{bytes, 0};
}

Result<uint64_t> parse_duration(std::string_view text) {
    if (text.empty()) return Error{std::string("no time") + time_advice};
    constexpr std::string_view units = "dhms";
    constexpr std::array<uint64_t, 4> unit_s = {86400, 3600, 60, 1};
    uint64_t total = 0;
    size_t next_unit = 0;  // units come from long to short, each once
    for (std::string_view rest = text; !rest.empty();) {
        uint64_t number = 0;
        if (!digit(rest[0])) return Error{brief(text) + " is not a time" + time_advice};
        if (!take_number(rest, number)) return Error{std::string("over 36500d") + time_advice};
        bool bare = rest.empty() && next_unit == 0;
        size_t unit = bare ? 3 : rest.empty() ? std::string_view::npos : units.find(rest[0], next_unit);
        if (unit == std::string_view::npos) return Error{brief(text) + " is not a time" + time_advice};
        if (!bare) rest.remove_prefix(1);
        next_unit = unit + 1;
        if (__builtin_mul_overflow(number, unit_s[unit], &number) ||
            __builtin_add_overflow(total, number, &total) || total > max_seconds)
            return Error{std::string("over 36500d") + time_advice};
    }
    return total;
}

Result<uint64_t> parse_count(std::string_view text, uint64_t min, uint64_t max) {
    uint64_t number = 0;
    std::string_view rest = text;
    if (!take_number(rest, number) || !rest.empty() || number < min || number > max)
        return Error{brief(text) + " is not in range: use a whole number from " + std::to_string(min) +
                     " to " + std::to_string(max)};
    return number;
}

std::string format_bytes(uint64_t bytes) {
    constexpr std::array<const char*, 7> names = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    for (; value >= 1023.95; unit++) value /= 1024;  // 1023.95 would be printed as 1024.0
    char text[32];
    bool whole = unit == 0 || std::fabs(value - std::round(value)) < 0.05;
    snprintf(text, sizeof text, whole ? "%.0f %s" : "%.1f %s", value, names[unit]);
    return text;
}

std::string format_duration(uint64_t seconds) {
    if (seconds == 0) return "0s";
    std::string text;
    auto part = [&](uint64_t unit, char name) {
        if (seconds >= unit) text += std::to_string(seconds / unit) + name;
        seconds %= unit;
    };
    part(86400, 'd'), part(3600, 'h'), part(60, 'm'), part(1, 's');
    return text;
}

std::string printable(std::string_view bytes) {
    std::string out;
    while (!bytes.empty()) {
        uint32_t code = 0;
        size_t length = utf8_length(bytes, code);
        std::string_view taken = bytes.substr(0, length ? length : 1);
        if (length == 0 || moves_the_cursor(code))
            append_hex(out, taken);
        else if (code == '\\')
            out += "\\\\";
        else
            out += taken;
        bytes.remove_prefix(taken.size());
    }
    return out;
}

std::string brief(std::string_view bytes) {
    constexpr size_t most = 80;
    if (bytes.size() <= most) return "'" + printable(bytes) + "'";
    // Not within a UTF-8 sequence.
    size_t cut = most;
    while (cut > most - 4 && (static_cast<unsigned char>(bytes[cut]) & 0xc0) == 0x80) cut--;
    return "'" + printable(bytes.substr(0, cut)) + "...'";
}

// Walks all places of the pattern that the text read so far can have reached, so that the work is at most the
// product of the two lengths, whatever the pattern.
bool glob_match(std::string_view pattern, std::string_view text) {
    std::vector<Token> tokens = parse_pattern(pattern);
    std::vector<char> here(tokens.size() + 1, 0), next;
    auto skip_stars = [&](std::vector<char>& places) {
        for (size_t i = 0; i < tokens.size(); i++)
            if (places[i] && tokens[i].kind != Token::one) places[i + 1] = 1;
    };
    here[0] = 1;
    skip_stars(here);
    for (char c : text) {
        next.assign(tokens.size() + 1, 0);
        for (size_t i = 0; i < tokens.size(); i++) {
            if (!here[i]) continue;
            if (tokens[i].kind == Token::star_star || (tokens[i].kind == Token::star && c != '/'))
                next[i] = 1;
            if (tokens[i].kind == Token::one && tokens[i].set[static_cast<unsigned char>(c)]) next[i + 1] = 1;
        }
        skip_stars(next);
        here.swap(next);
    }
    return here.back() != 0;
}

}  // namespace monarch
