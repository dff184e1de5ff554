// What the tests of core/ share.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "core/units.h"

namespace monarch {

// An error message is one short line that a terminal can show as it is, and says what to do after a colon.
inline void check_message(const std::string& message) {
    CAPTURE(message);
    std::string text = message;
    text.erase(std::remove(text.begin(), text.end(), '\\'), text.end());  // printable() doubles them
    CHECK(printable(text) == text);
    CHECK(message.size() < 1200);
    CHECK(message.find(": ") != std::string::npos);
}

}  // namespace monarch
