// Latency and faults, which the control file changes while slowfs runs.
#pragma once

#include <fnmatch.h>
#include <string.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "slowfs_stats.h"

namespace slowfs {

struct Rule {
    enum class Fault { fail, hang, shorten } fault;
    std::optional<Op> only;  // nothing: every kind of request
    int error = 0;           // of `fail`
    std::string glob;
};

struct Control {
    uint64_t metadata_latency_us = 0;
    uint64_t data_latency_us = 0;
    uint64_t bandwidth_mbs = 0;  // MB (10^6 bytes) a second over all reads and writes; 0: no cap
    std::vector<Rule> rules;

    // The first rule for this request; `path` is relative to the source. `*` also matches `/`.
    const Rule* match(Op op, const std::string& path) const {
        for (const Rule& rule : rules) {
            if (rule.only && *rule.only != op) continue;
            if (rule.fault == Rule::Fault::shorten && op != Op::read) continue;
            if (fnmatch(rule.glob.c_str(), path.c_str(), 0) == 0) return &rule;
        }
        return nullptr;
    }
};

inline std::optional<uint64_t> parse_number(std::string_view text) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return {};
    return value;
}

// EIO and its kind to the number; 0: no such error.
inline int errno_named(const std::string& name) {
    for (int number = 1; number < 200; number++) {
        const char* known = strerrorname_np(number);
        if (known && name == known) return number;
    }
    return 0;
}

// Reads a number into what `latency` and its kind set; false: not such a line.
inline bool parse_setting(const std::string& word, const std::string& rest, Control& control) {
    std::optional<uint64_t> value = parse_number(rest);
    if (!value) return false;
    bool both = word == "latency";
    if (both || word == "metadata-latency") control.metadata_latency_us = *value;
    if (both || word == "data-latency") control.data_latency_us = *value;
    if (word == "bandwidth") control.bandwidth_mbs = *value;
    return both || word == "metadata-latency" || word == "data-latency" || word == "bandwidth";
}

// FAULT[:KIND] [ERROR] GLOB; the glob is the rest of the line, since names may hold spaces.
inline bool parse_rule(const std::string& word, std::string rest, Control& control) {
    std::string fault = word.substr(0, word.find(':'));
    Rule rule{};
    if (fault != word) {
        rule.only = op_named(word.substr(fault.size() + 1));
        if (!rule.only) return false;
    }
    if (fault == "fail") {
        size_t space = rest.find(' ');
        if (space == std::string::npos) return false;
        rule.fault = Rule::Fault::fail;
        rule.error = errno_named(rest.substr(0, space));
        if (rule.error == 0) return false;
        rest.erase(0, rest.find_first_not_of(' ', space));
    } else if (fault == "hang") {
        rule.fault = Rule::Fault::hang;
    } else if (fault == "short") {
        rule.fault = Rule::Fault::shorten;
    } else {
        return false;
    }
    rule.glob = rest;
    control.rules.push_back(rule);
    return !rest.empty();
}

// Applies the control file's text to `control`. Returns the number of the first line that is wrong, 0 if
// none.
inline int parse_control(const std::string& text, Control& control) {
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); number++) {
        size_t start = line.find_first_not_of(" \t");
        if (start == std::string::npos || line[start] == '#') continue;
        size_t end = line.find_first_of(" \t", start);
        if (end == std::string::npos) return number;
        std::string word = line.substr(start, end - start);
        size_t rest_at = line.find_first_not_of(" \t", end);
        std::string rest = rest_at == std::string::npos ? "" : line.substr(rest_at);
        if (!parse_setting(word, rest, control) && !parse_rule(word, rest, control)) return number;
    }
    return 0;
}

// The control that holds now. Everything that waits in slowfs waits here, so that its end wakes it.
class Conditions {
  public:
    using Clock = std::chrono::steady_clock;

    std::shared_ptr<const Control> now() {
        std::lock_guard lock(mutex_);
        return control_;
    }

    void set(Control control) {
        std::lock_guard lock(mutex_);
        control_ = std::make_shared<const Control>(std::move(control));
        changed_.notify_all();
    }
    void end() {
        std::lock_guard lock(mutex_);
        ending_ = true;
        changed_.notify_all();
    }

    // False: slowfs ends.
    bool wait_for_change(const std::shared_ptr<const Control>& since) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ending_ || control_ != since; });
        return !ending_;
    }
    void sleep_until(Clock::time_point when) {
        std::unique_lock lock(mutex_);
        changed_.wait_until(lock, when, [&] { return ending_; });
    }

    // Books `bytes` on the wire that all requests share; returns when the last of them has passed.
    Clock::time_point book(uint64_t bytes, uint64_t bandwidth_mbs) {
        std::lock_guard lock(wire_mutex_);
        auto duration = std::chrono::nanoseconds(bytes * 1000 / bandwidth_mbs);
        return wire_free_ = std::max(wire_free_, Clock::now()) + duration;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::shared_ptr<const Control> control_ = std::make_shared<const Control>();
    bool ending_ = false;
    std::mutex wire_mutex_;
    Clock::time_point wire_free_{};
};

// Lets at most `max` requests in at a time; 0: any number.
class Gate {
  public:
    void enter(uint64_t max) {
        if (max == 0) return;
        std::unique_lock lock(mutex_);
        free_.wait(lock, [&] { return inside_ < max; });
        inside_++;
    }
    void leave(uint64_t max) {
        if (max == 0) return;
        std::lock_guard lock(mutex_);
        inside_--;
        free_.notify_one();
    }

  private:
    std::mutex mutex_;
    std::condition_variable free_;
    uint64_t inside_ = 0;
};

}  // namespace slowfs
