#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "core/units.h"
#include "tests/unit/core_test.h"

using namespace monarch;
using namespace std::string_literals;

TEST_CASE("sizes: every unit, in any case") {
    CHECK(parse_size("0")->bytes == 0);
    CHECK(parse_size("4096")->bytes == 4096);
    CHECK(parse_size("12B")->bytes == 12);
    CHECK(parse_size("1K")->bytes == 1024);
    CHECK(parse_size("1k")->bytes == 1024);
    CHECK(parse_size("1KB")->bytes == 1000);
    CHECK(parse_size("1KiB")->bytes == 1024);
    CHECK(parse_size("3M")->bytes == 3ull << 20);
    CHECK(parse_size("500GiB")->bytes == 500ull << 30);
    CHECK(parse_size("500 GiB")->bytes == 500ull << 30);
    CHECK(parse_size("1.5TB")->bytes == 1500000000000ull);
    CHECK(parse_size("0.1TB")->bytes == 100000000000ull);
    CHECK(parse_size("2T")->bytes == 2ull << 40);
    CHECK(parse_size("1PiB")->bytes == 1ull << 50);
    CHECK(parse_size("8191PiB")->bytes == 8191ull << 50);
    CHECK(parse_size("9223372036854775807")->bytes == INT64_MAX);
}

TEST_CASE("sizes: shares") {
    CHECK(parse_size("90%")->percent == 90);
    CHECK(parse_size("90%")->of(1000) == 900);
    CHECK(parse_size("33.3%")->of(1000) == 333);
    CHECK(parse_size("0%")->of(1000) == 0);
    CHECK(parse_size("100%")->of(UINT64_MAX) == UINT64_MAX);
    CHECK(parse_size("90%")->of(0) == 0);
    CHECK(Size{12, 0}.of(5) == 12);
}

TEST_CASE("sizes: what is refused, in one line with advice") {
    for (const std::string& bad : {""s,
                                   " "s,
                                   "-1"s,
                                   "+1"s,
                                   "x"s,
                                   ".5G"s,
                                   "1."s,
                                   "1.G"s,
                                   "1.5"s,
                                   "1.5B"s,
                                   "12QB"s,
                                   "1Gi"s,
                                   "1GiBB"s,
                                   "1 "s,
                                   " 1"s,
                                   "1  G"s,
                                   "1E"s,
                                   "0x10"s,
                                   "1e3"s,
                                   "1,5G"s,
                                   "101%"s,
                                   "100.1%"s,
                                   "-1%"s,
                                   "%"s,
                                   "90%%"s,
                                   "90%G"s,
                                   "nan%"s,
                                   "inf"s,
                                   "9223372036854775808"s,
                                   "18446744073709551616"s,
                                   "8192PiB"s,
                                   "99999999999999999999999999%"s,
                                   "1\0"s,
                                   "1G\0"s,
                                   "1\nG"s,
                                   "1\x1b[31m"s,
                                   std::string(1000000, '9'),
                                   std::string(1000000, 'G'),
                                   "1" + std::string(1000000, 'G')}) {
        CAPTURE(brief(bad));
        Result<Size> size = parse_size(bad);
        REQUIRE_FALSE(size);
        CHECK(size.error().find(": use ") != std::string::npos);
        check_message(size.error());
    }
    CHECK(parse_size("12QB").error() == "unknown unit 'QB': use a size such as 500GiB, 1.5TB or 90%");
}

TEST_CASE("a long fraction costs nothing and changes nothing") {
    CHECK(parse_size("1." + std::string(1000000, '0') + "K")->bytes == 1024);
    CHECK(parse_size("1.5" + std::string(1000000, '0') + "K")->bytes == 1536);
    CHECK(parse_size("0." + std::string(1000000, '9') + "K")->bytes == 1024);
}

TEST_CASE("durations") {
    CHECK(*parse_duration("0") == 0);
    CHECK(*parse_duration("90") == 90);
    CHECK(*parse_duration("90s") == 90);
    CHECK(*parse_duration("5m") == 300);
    CHECK(*parse_duration("24h") == 86400);
    CHECK(*parse_duration("7d") == 604800);
    CHECK(*parse_duration("1h30m") == 5400);
    CHECK(*parse_duration("1d2h3m4s") == 93784);
    CHECK(*parse_duration("36500d") == 36500ull * 86400);
    for (const std::string& bad : {""s, "s"s, "-1"s, "1.5h"s, "5 m"s, "5mm"s, "5min"s, "1m1h"s, "1m1m"s,
                                   "1h30"s, "1w"s, "36500d1s"s, "36501d"s, "18446744073709551616"s,
                                   "999999999999999999d"s, "5m\0"s, "5\n"s, std::string(1000000, '1')}) {
        CAPTURE(brief(bad));
        Result<uint64_t> time = parse_duration(bad);
        REQUIRE_FALSE(time);
        check_message(time.error());
    }
}

TEST_CASE("counts") {
    CHECK(*parse_count("0", 0, 5) == 0);
    CHECK(*parse_count("5", 0, 5) == 5);
    CHECK(*parse_count("007", 0, 7) == 7);
    CHECK(*parse_count("18446744073709551615", 0, UINT64_MAX) == UINT64_MAX);
    for (const std::string& bad : {""s, "6"s, "-1"s, "1.0"s, " 1"s, "1 "s, "1\0"s, "18446744073709551616"s}) {
        CAPTURE(brief(bad));
        CHECK_FALSE(parse_count(bad, 0, 5));
    }
    CHECK(parse_count("6", 1, 5).error() == "'6' is not in range: use a whole number from 1 to 5");
}

TEST_CASE("bytes and durations as people read them") {
    CHECK(format_bytes(0) == "0 B");
    CHECK(format_bytes(1023) == "1023 B");
    CHECK(format_bytes(1024) == "1 KiB");
    CHECK(format_bytes(1536ull << 20) == "1.5 GiB");
    CHECK(format_bytes((1ull << 30) - 1) == "1 GiB");
    CHECK(format_bytes(1ull << 50) == "1 PiB");
    CHECK(format_bytes(UINT64_MAX) == "16 EiB");
    CHECK(format_duration(0) == "0s");
    CHECK(format_duration(90) == "1m30s");
    CHECK(format_duration(5400) == "1h30m");
    CHECK(format_duration(90061) == "1d1h1m1s");
    for (uint64_t s : {1ull, 59ull, 3600ull, 86399ull, 31536000ull})
        CHECK(*parse_duration(format_duration(s)) == s);
}

TEST_CASE("printable: one line, nothing that a terminal obeys") {
    CHECK(printable("plain file.jpg") == "plain file.jpg");
    CHECK(printable("a\\b") == "a\\\\b");
    CHECK(printable("a\nb\tc\x7f") == "a\\x0ab\\x09c\\x7f");
    CHECK(printable("\x1b[31mred"s) == "\\x1b[31mred");
    CHECK(printable("a\0b"s) == "a\\x00b");
    CHECK(printable("Müller/日本/🦋") == "Müller/日本/🦋");
    CHECK(printable("M\xfcller") == "M\\xfcller");                   // Latin-1
    CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");                    // overlong '/'
    CHECK(printable("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");           // overlong '/'
    CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // surrogate
    CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // over U+10FFFF
    CHECK(printable("\xf8\x88\x80\x80\x80").substr(0, 4) == "\\xf8");
    CHECK(printable("a\xe6\x97") == "a\\xe6\\x97");         // cut short
    CHECK(printable("\xc2\x85") == "\\xc2\\x85");           // C1: next line
    CHECK(printable("\xe2\x80\xa8") == "\\xe2\\x80\\xa8");  // line separator
    CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");  // turns the direction
    CHECK(printable("") == "");
}

TEST_CASE("printable: different bytes stay different") {
    CHECK(printable("\\x0a") != printable("\n"));
    for (int c = 0; c < 256; c++)
        for (int d = c + 1; d < 256; d++)
            REQUIRE(printable(std::string(1, static_cast<char>(c))) !=
                    printable(std::string(1, static_cast<char>(d))));
}

TEST_CASE("brief: short, in quotes, not cut within a character") {
    CHECK(brief("x") == "'x'");
    CHECK(brief(std::string(80, 'x')) == "'" + std::string(80, 'x') + "'");
    CHECK(brief(std::string(1000000, 'x')) == "'" + std::string(80, 'x') + "...'");
    CHECK(brief(std::string(79, 'x') + "日本") == "'" + std::string(79, 'x') + "...'");
    CHECK(brief(std::string(1000000, '\xbf')).size() < 400);
}

TEST_CASE("glob: * stays within a component, ** does not") {
    CHECK(glob_match("", ""));
    CHECK_FALSE(glob_match("", "a"));
    CHECK(glob_match("abc", "abc"));
    CHECK_FALSE(glob_match("abc", "abcd"));
    CHECK_FALSE(glob_match("abc", "xabc"));
    CHECK(glob_match("*", ""));
    CHECK(glob_match("*", "alice"));
    CHECK_FALSE(glob_match("*", "a/b"));
    CHECK(glob_match("**", "a/b"));
    CHECK(glob_match("gpu*", "gpu"));
    CHECK(glob_match("gpu*", "gpu-long"));
    CHECK_FALSE(glob_match("gpu*", "cpu"));
    CHECK(glob_match("/lustre/**", "/lustre/a/b/c"));
    CHECK(glob_match("/lustre/**", "/lustre/.hidden"));
    CHECK_FALSE(glob_match("/lustre/**", "/lustre"));
    CHECK_FALSE(glob_match("/lustre/**", "/lustre2/a"));
    CHECK(glob_match("/lustre/*/data", "/lustre/alice/data"));
    CHECK_FALSE(glob_match("/lustre/*/data", "/lustre/a/b/data"));
    CHECK(glob_match("/**/data/*.tar", "/x/y/data/1.tar"));
    CHECK(glob_match("**a*b", "x/axxb"));
    CHECK(glob_match("**a*b", "a/x/a/ab"));
    CHECK_FALSE(glob_match("**a*b", "a/b"));
    CHECK(glob_match("a***b", "a/x/b"));
}

TEST_CASE("glob: ? and sets") {
    CHECK(glob_match("a?c", "abc"));
    CHECK_FALSE(glob_match("a?c", "ac"));
    CHECK_FALSE(glob_match("a?c", "a/c"));
    CHECK(glob_match("n[0-9]", "n7"));
    CHECK_FALSE(glob_match("n[0-9]", "nx"));
    CHECK(glob_match("[!a-c]x", "dx"));
    CHECK_FALSE(glob_match("[!a-c]x", "bx"));
    CHECK_FALSE(glob_match("[!a]", "/"));
    CHECK(glob_match("[^a]", "b"));
    CHECK(glob_match("[]a]", "]"));
    CHECK(glob_match("[a-]", "-"));
    CHECK(glob_match("[*]", "*"));
    CHECK_FALSE(glob_match("[*]", "a"));
    CHECK_FALSE(glob_match("[z-a]", "m"));
    CHECK(glob_match("[", "["));
    CHECK(glob_match("a[b", "a[b"));
    CHECK(glob_match("[]", "[]"));
    CHECK(glob_match("[\x80-\xff]", "\xfc"));
    CHECK(glob_match("\\", "\\"));
    CHECK(glob_match("a\0*"s, "a\0b"s));
    CHECK_FALSE(glob_match("a", "a\0"s));
}

TEST_CASE("glob: hostile patterns end in time") {
    std::string stars, text(4096, 'a');
    for (int i = 0; i < 100; i++) stars += "*a";
    CHECK_FALSE(glob_match(stars + "b", text));
    CHECK(glob_match(stars + "*", text));
    CHECK_FALSE(glob_match("**a**a**a**a**a**a**a**a**b", text));
    CHECK(glob_match("**", std::string(1000000, '/')));
}
