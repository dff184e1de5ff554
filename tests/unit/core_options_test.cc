#include <doctest/doctest.h>

#include <string>

#include "core/options.h"
#include "core/shm.h"
#include "tests/unit/core_test.h"

using namespace monarch;
using namespace std::string_literals;

TEST_CASE("data sets: a name, a path, a URL") {
    auto specs = parse_datasets(
        "imagenet,/lustre//data/./COCO-2017/,s3://bucket/pre%2Cfix,https://host/a/list.json?x=1");
    REQUIRE(specs);
    REQUIRE(specs->size() == 4);
    const DatasetSpec &name = specs->at(0), &path = specs->at(1), &s3 = specs->at(2), &https = specs->at(3);
    CHECK(name.kind == SpecKind::catalog);
    CHECK(name.name == "imagenet");
    CHECK(name.variable == "MONARCH_DATASET_IMAGENET");
    CHECK(path.kind == SpecKind::path);
    CHECK(path.path == "/lustre/data/COCO-2017");
    CHECK(path.name == "COCO-2017");
    CHECK(path.variable == "MONARCH_DATASET_COCO_2017");
    CHECK(s3.kind == SpecKind::url);
    CHECK(s3.text == "s3://bucket/pre,fix");
    CHECK(s3.variable == "MONARCH_DATASET_PRE_FIX");
    CHECK(https.text == "https://host/a/list.json?x=1");
    CHECK(https.name == "list.json");
    CHECK(parse_datasets("s3://bucket")->front().name == "bucket");
    CHECK(parse_datasets("https://host/?q=/x")->front().name == "host");
}

TEST_CASE("data sets: names are bytes") {
    auto specs = parse_datasets("/data/M\xfcller,/data/a b;c:d,/data/100%,/data/%2c");
    REQUIRE(specs);
    CHECK(specs->at(0).path == "/data/M\xfcller");
    CHECK(specs->at(0).variable == "MONARCH_DATASET_M_LLER");
    CHECK(specs->at(1).path == "/data/a b;c:d");
    CHECK(specs->at(2).path == "/data/100%");
    CHECK(specs->at(3).path == "/data/,");
    CHECK(parse_datasets("/data/...")->front().path == "/data/...");
    CHECK(parse_datasets("/data/..x")->front().path == "/data/..x");
    CHECK(parse_datasets("/%2C..")->front().path == "/,..");
}

TEST_CASE("data sets: what is refused") {
    for (const std::string& bad : {""s,
                                   ","s,
                                   "a,"s,
                                   ",a"s,
                                   "a,,b"s,
                                   "data/x"s,
                                   "./x"s,
                                   "../x"s,
                                   "~/x"s,
                                   "/"s,
                                   "//"s,
                                   "/./"s,
                                   "/.."s,
                                   "/a/../b"s,
                                   "/a/.."s,
                                   "/../a"s,
                                   "a b"s,
                                   "-x"s,
                                   ".x"s,
                                   "_x"s,
                                   "a:b"s,
                                   "a%2Cb"s,
                                   "M\xfcller"s,
                                   "ftp://host/x"s,
                                   "file:///x"s,
                                   "://x"s,
                                   "s3://"s,
                                   "s3:///x"s,
                                   "https://?x"s,
                                   "s3://bucket/../x"s,
                                   "S3://bucket/x"s,
                                   "/a\nb"s,
                                   "/a\x1b[0m"s,
                                   "/a\0b"s,
                                   "a\0"s,
                                   "\0"s,
                                   "s3://b/\x7f"s,
                                   "/" + std::string(4096, 'x'),
                                   std::string(256, 'x'),
                                   std::string(1000000, 'x'),
                                   std::string(1000000, ','),
                                   "/" + std::string(1000000, '/'),
                                   "a,a"s,
                                   "a,A"s,
                                   "a-b,a_b"s,
                                   "/x/data,/y/data"s,
                                   "data,/x/data"s,
                                   "/x/a.b,s3://c/a-b"s}) {
        CAPTURE(brief(bad));
        auto specs = parse_datasets(bad);
        REQUIRE_FALSE(specs);
        check_message(specs.error());
    }
}

TEST_CASE("data sets: as many as a job may have, as long as one may be") {
    std::string text = "d0";
    for (int i = 1; i < MONARCH_MAX_SESSIONS; i++) text += ",d" + std::to_string(i);
    CHECK(parse_datasets(text)->size() == MONARCH_MAX_SESSIONS);
    CHECK_FALSE(parse_datasets(text + ",one-more"));
    CHECK(parse_datasets("/" + std::string(4095, 'x')));
    CHECK(parse_datasets(std::string(255, 'x')));
}

TEST_CASE("waiting") {
    auto is = [](const char* text, Wait::Kind kind, unsigned percent, uint64_t limit_s) {
        CAPTURE(text);
        auto wait = parse_wait(text);
        REQUIRE(wait);
        CHECK(wait->kind == kind);
        CHECK(wait->percent == percent);
        CHECK(wait->limit_s == limit_s);
    };
    is("auto", Wait::automatic, 0, 0);
    is("none", Wait::none, 0, 0);
    is("all", Wait::threshold, 100, 0);
    is("60%", Wait::threshold, 60, 0);
    is("5m", Wait::threshold, 0, 300);
    is("all,5m", Wait::threshold, 100, 300);
    is("60%,5m", Wait::threshold, 60, 300);
    is("5m,60%", Wait::threshold, 60, 300);
    // No time or no share is no waiting: limit_s = 0 would be "without end".
    is("0", Wait::none, 0, 0);
    is("0%", Wait::none, 0, 0);
    is("60%,0s", Wait::none, 0, 0);
    for (const std::string& bad : {""s, ","s, "60"s + "%%", "101%"s, "%"s, "60%,"s, "60%,5m,1m"s, "60%,70%"s,
                                   "5m,6m"s, "all,60%"s, "auto,5m"s, "none,5m"s, "All"s, "-5m"s, "1.5%"s,
                                   "5m\0"s, "(null)"s, std::string(1000000, '1') + "%"}) {
        CAPTURE(brief(bad));
        auto wait = parse_wait(bad);
        REQUIRE_FALSE(wait);
        check_message(wait.error());
    }
}

TEST_CASE("capacity") {
    CHECK(parse_capacity("500GiB")->total.bytes == 500ull << 30);
    CHECK(parse_capacity("50%")->total.percent == 50);
    auto by_tier = parse_capacity("ram=16GiB,nvme-2=50%");
    REQUIRE(by_tier);
    CHECK(by_tier->by_tier.size() == 2);
    CHECK(by_tier->by_tier.at("ram").bytes == 16ull << 30);
    CHECK(by_tier->by_tier.at("nvme-2").percent == 50);
    CHECK(by_tier->given);
    for (const std::string& bad : {""s,
                                   "x"s,
                                   "12QB"s,
                                   "ram="s,
                                   "=1G"s,
                                   "ram"s,
                                   "RAM=1G"s,
                                   "1ram=1G"s,
                                   "../x=1G"s,
                                   "ram=1G,"s,
                                   "ram=1G,2G"s,
                                   "1G,ram=1G"s,
                                   "ram=1G,ram=2G"s,
                                   "ram==1G"s,
                                   "ram=1G=2"s,
                                   "1G,2G"s,
                                   "ram=1G\0"s,
                                   "ra\nm=1G"s,
                                   std::string(64, 'x') + "=1G",
                                   std::string(1000000, '='),
                                   std::string(1000000, 'x') + "=1"}) {
        CAPTURE(brief(bad));
        auto capacity = parse_capacity(bad);
        REQUIRE_FALSE(capacity);
        check_message(capacity.error());
    }
}

TEST_CASE("options: all at once, as the user writes them") {
    auto options = parse_options({{"dataset", "imagenet,/data/coco"},
                                  {"order", "manifest;coco:name"},
                                  {"epochs", "90"},
                                  {"ranks", "4"},
                                  {"capacity", "ram=1G"},
                                  {"wait", "60%,5m"},
                                  {"access", "none"},
                                  {"keep", "24h"}},
                                 "--monarch-");
    REQUIRE(options);
    CHECK(options->datasets.size() == 2);
    CHECK(options->order == std::map<std::string, std::string>{{"", "manifest"}, {"coco", "name"}});
    CHECK(options->epochs == 90);
    CHECK(options->ranks == 4);
    CHECK(options->capacity.given);
    CHECK(options->wait_given);
    CHECK(options->wait.percent == 60);
    CHECK(options->access == Access::none);
    CHECK(options->keep_given);
    CHECK_FALSE(options->keep_max);
    CHECK(options->keep_s == 86400);
}

TEST_CASE("options: what is not given stays at its default") {
    auto options = parse_options({}, "--");
    REQUIRE(options);
    CHECK(options->datasets.empty());
    CHECK(options->order.empty());
    CHECK(options->epochs == 0);
    CHECK_FALSE(options->capacity.given);
    CHECK_FALSE(options->wait_given);
    CHECK_FALSE(options->keep_given);
    CHECK(options->access == Access::preload);
    CHECK(parse_options({{"keep", "max"}}, "--")->keep_max);
    CHECK(parse_options({{"access", "bind"}}, "--")->access == Access::bind);
    CHECK(parse_options({{"order", "name"}}, "--")->order.at("") == "name");
}

TEST_CASE("options: errors name the option and the text") {
    CHECK(parse_options({{"capacity", "12QB"}}, "--monarch-").error() ==
          "--monarch-capacity=12QB: unknown unit 'QB': use a size such as 500GiB, 1.5TB or 90%");
    CHECK(parse_options({{"order", "random"}}, "--").error() ==
          "--order=random: unknown order 'random': use auto, manifest or name");
    using Raw = std::map<std::string, std::string>;
    for (const Raw& bad : {Raw{{"datasets", "x"}},
                           Raw{{"", ""}},
                           Raw{{"x\n\x1b", "y"}},
                           Raw{{"epochs", "0"}},
                           Raw{{"epochs", "1000001"}},
                           Raw{{"epochs", ""}},
                           Raw{{"ranks", "0"}},
                           Raw{{"ranks", "65537"}},
                           Raw{{"access", "Preload"}},
                           Raw{{"keep", "forever"}},
                           Raw{{"keep", ""}},
                           Raw{{"wait", "(null)"}},
                           Raw{{"order", ""}},
                           Raw{{"order", "name;name"}},
                           Raw{{"order", "name;"}},
                           Raw{{"dataset", "a"}, {"order", "b:name"}},
                           Raw{{"dataset", "a"}, {"order", "a:name;a:auto"}},
                           Raw{{"dataset", "a"}, {"order", "a:"}},
                           Raw{{"order", std::string(1000000, ';')}},
                           Raw{{"dataset", "/a\n\x1b[2J"}},
                           Raw{{"dataset", std::string(1000000, '/')}}}) {
        auto options = parse_options(bad, "--monarch-");
        REQUIRE_FALSE(options);
        check_message(options.error());
        CHECK(options.error().starts_with("--monarch-") + options.error().starts_with("unknown option") == 1);
    }
}

TEST_CASE("options: the table's eight rows, each parsed") {
    std::map<std::string, std::string> good = {{"dataset", "x"},   {"order", "auto"}, {"epochs", "1"},
                                               {"ranks", "1"},     {"capacity", "1"}, {"wait", "auto"},
                                               {"access", "none"}, {"keep", "0"}};
    for (const OptionName& option : option_names) {
        CAPTURE(option.name);
        REQUIRE(good.contains(option.name));
        CHECK(parse_options({{option.name, good[option.name]}}, "--"));
        CHECK_FALSE(parse_options({{option.name, "\x01"}}, "--"));
        std::string variable = "MONARCH_";
        for (const char* c = option.name; *c; c++) variable.push_back(static_cast<char>(*c - 'a' + 'A'));
        CHECK(option.environment == variable);
    }
}
