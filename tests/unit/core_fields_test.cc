#include <doctest/doctest.h>

#include <string>

#include "core/fields.h"

using namespace monarch;
using namespace std::string_literals;

TEST_CASE("fields: what was added is read back, byte for byte") {
    std::string every_byte;
    for (int c = 1; c < 256; c++) every_byte.push_back(static_cast<char>(c));
    Fields fields;
    fields.add("path", every_byte);
    fields.add("path", "a=b=c\n");
    fields.add("empty", "");
    fields.add("big", std::string(1000000, 'x'));
    Result<Fields> read = Fields::parse(fields.format());
    REQUIRE(read);
    CHECK(read->items() == fields.items());
    CHECK(read->get("path") == every_byte);
    CHECK(read->all("path") == std::vector<std::string>{every_byte, "a=b=c\n"});
    CHECK(read->has("empty"));
    CHECK(read->get("empty", "x") == "");
    CHECK(read->get("none", "x") == "x");
    CHECK_FALSE(read->has("none"));
    CHECK(read->all("none").empty());
}

TEST_CASE("fields: a value ends at a NUL and cannot add another field") {
    Fields fields;
    fields.add("job", "1\0uid=0"s);
    Result<Fields> read = Fields::parse(fields.format());
    REQUIRE(read);
    CHECK(read->get("job") == "1");
    CHECK_FALSE(read->has("uid"));
}

TEST_CASE("fields: broken records are refused") {
    CHECK(Fields::parse("")->items().empty());
    for (const std::string& bad : {"a"s, "a=b"s, "a=b\0c"s, "a=b\0c=d"s, "=b\0"s, "\0"s, "a=b\0\0"s, "ab\0"s,
                                   std::string(1000000, 'a')})
        CHECK_FALSE(Fields::parse(bad));
}
