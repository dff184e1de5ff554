#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/config.h"
#include "core/shm.h"
#include "tests/unit/core_test.h"

using namespace monarch;
using namespace std::string_literals;
namespace fs = std::filesystem;

namespace {

// A configuration folder that goes away with the test.
class Folder {
  public:
    Folder() {
        char name[] = "/tmp/monarch-config-XXXXXX";
        REQUIRE(mkdtemp(name));
        path = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { fs::remove_all(path); }

    void write(const std::string& name, const std::string& text) {
        fs::create_directories(fs::path(path + "/" + name).parent_path());
        std::ofstream(path + "/" + name, std::ios::binary) << text;
    }
    std::string path;
};

const std::string a_tier = "[[tier]]\nname = 'nvme'\npath = '/local/monarch'\n";

// The error that loading `text` as monarch.toml gives, without the folder's name.
std::string config_error(const std::string& text) {
    Folder folder;
    folder.write("monarch.toml", text);
    auto config = load_config(folder.path, "n1");
    if (config) return "";
    CHECK(config.error().starts_with(folder.path + "/"));
    check_message(config.error());
    return config.error().substr(folder.path.size() + 1);
}

std::string policy_error(const std::string& text) {
    Folder folder;
    folder.write("policy.d/50-gpu.toml", text);
    auto policy = load_policy(folder.path);
    if (policy) return "";
    CHECK(policy.error().starts_with(folder.path + "/policy.d/"));
    check_message(policy.error());
    return policy.error().substr(folder.path.size() + 10);
}

std::string catalog_error(const std::string& text) {
    Folder folder;
    folder.write("datasets.d/x.toml", text);
    auto catalog = load_catalog(folder.path);
    if (catalog) return "";
    CHECK(catalog.error().starts_with(folder.path + "/datasets.d/"));
    check_message(catalog.error());
    return catalog.error().substr(folder.path.size() + 12);
}

Policy policy_of(const std::string& text) {
    Folder folder;
    folder.write("policy.d/50-gpu.toml", text);
    auto policy = load_policy(folder.path);
    REQUIRE_MESSAGE(policy, policy.error());
    return *policy;
}

}  // namespace

TEST_CASE("monarch.toml: the design's example") {
    Folder folder;
    folder.write("monarch.toml", R"(
[paths]
state = "/var/lib/monarch/%n"
run   = "/run//monarch/%n/"
results = "~/monarch/%n"
[[tier]]
name = "ram"
tmpfs = "64GiB"     # mounted by Monarch
[[tier]]
name = "nvme"
path = "/local/%n/monarch"
capacity = "80%"
on_root = true
[defaults]
order = "name"
wait = "60%,5m"
epochs = 12
)");
    auto config = load_config(folder.path, "n1");
    REQUIRE_MESSAGE(config, config.error());
    CHECK(config->dir == folder.path);
    CHECK(config->state == "/var/lib/monarch/n1");
    CHECK(config->run == "/run/monarch/n1");
    CHECK(config->results == "~/monarch/n1");
    REQUIRE(config->tiers.size() == 2);
    CHECK(config->tiers[0].name == "ram");
    CHECK(config->tiers[0].tmpfs);
    CHECK(config->tiers[0].path == "");
    CHECK(config->tiers[0].capacity.bytes == 64ull << 30);
    CHECK_FALSE(config->tiers[1].tmpfs);
    CHECK(config->tiers[1].path == "/local/n1/monarch");
    CHECK(config->tiers[1].capacity.percent == 80);
    CHECK(config->tiers[1].on_root);
    CHECK(config->order == "name");
    CHECK(config->wait.percent == 60);
    CHECK(config->wait.limit_s == 300);
    CHECK(config->epochs == 12);
}

TEST_CASE("monarch.toml: one tier is enough, the rest has defaults") {
    Folder folder;
    folder.write("monarch.toml", a_tier);
    auto config = load_config(folder.path, "n1");
    REQUIRE(config);
    CHECK(config->state == "/var/lib/monarch");
    CHECK(config->run == "/run/monarch");
    CHECK(config->results == "");
    CHECK(config->tiers[0].capacity.percent == 90);
    CHECK_FALSE(config->tiers[0].on_root);
    CHECK(config->order == "auto");
    CHECK(config->wait.kind == Wait::automatic);
    CHECK(config->epochs == 10);
}

TEST_CASE("monarch.toml: whole numbers are bytes and counts") {
    Folder folder;
    folder.write("monarch.toml", a_tier + "capacity = 4096\n[defaults]\nepochs = 3\nwait = 60\n");
    auto config = load_config(folder.path, "n1");
    REQUIRE_MESSAGE(config, config.error());
    CHECK(config->tiers[0].capacity.bytes == 4096);
    CHECK(config->epochs == 3);
    CHECK(config->wait.limit_s == 60);
}

TEST_CASE("monarch.toml: a node's name cannot leave its folder") {
    Folder folder;
    folder.write("monarch.toml", a_tier + "[paths]\nrun = '/run/%n/x'\n");
    CHECK_FALSE(load_config(folder.path, ".."));
    CHECK_FALSE(load_config(folder.path, "../.."));
    CHECK(load_config(folder.path, "%n")->run == "/run/%n/x");
    CHECK(load_config(folder.path, "")->run == "/run/x");
}

TEST_CASE("monarch.toml: errors name file and line") {
    CHECK(config_error(a_tier).empty());
    CHECK(config_error("").starts_with("monarch.toml:1: tier: missing: add at least one"));
    CHECK(config_error("tier = []").starts_with("monarch.toml:1: tier: missing: add at least one"));
    CHECK(config_error(a_tier + "x = = 1").starts_with("monarch.toml:4: "));
    CHECK(config_error(a_tier + "colour = 1\n") ==
          "monarch.toml:4: unknown key 'colour': see monarch.toml(5) for the keys");
    CHECK(config_error("\nhello = 1\n" + a_tier).starts_with("monarch.toml:2: unknown key 'hello'"));
    CHECK(config_error(a_tier + "[path]\nrun='/x'\n").starts_with("monarch.toml:4: unknown key 'path'"));
    CHECK(config_error(a_tier + "[paths]\nrun='/x'\nstat='/y'\n")
              .starts_with("monarch.toml:6: unknown key 'stat'"));
    CHECK(config_error(a_tier + "[paths]\nrun = 'x'\n")
              .starts_with("monarch.toml:5: run: 'x' is not an absolute"));
    CHECK(config_error(a_tier + "[paths]\nrun = '/a/../b'\n").starts_with("monarch.toml:5: run: '..'"));
    CHECK(config_error(a_tier + "[paths]\nrun = \"/a\\u0000b\"\n")
              .starts_with("monarch.toml:5: run: a control"));
    CHECK(config_error(a_tier + "[paths]\nrun = '/'\n").starts_with("monarch.toml:5: run: '/'"));
    CHECK(config_error(a_tier + "[paths]\nrun = ''\n")
              .starts_with("monarch.toml:5: run: '' is not an absolute"));
    CHECK(config_error(a_tier + "[paths]\nresults = '~x/y'\n").starts_with("monarch.toml:5: results: "));
    CHECK(config_error(a_tier + "[paths]\nrun = true\n").starts_with("monarch.toml:5: run: not a string"));
    CHECK(config_error("paths = 1\n" + a_tier).starts_with("monarch.toml:1: paths: not a table"));
    CHECK(config_error("tier = 'x'\n").starts_with("monarch.toml:1: tier: not a list of tables"));
    CHECK(config_error("tier = ['x']\n").starts_with("monarch.toml:1: tier: not a list of tables"));
    CHECK(config_error("[tier]\nname = 'x'\n").starts_with("monarch.toml:1: tier: not a list of tables"));
    CHECK(config_error(a_tier + "[defaults]\norder = 'random'\n")
              .starts_with("monarch.toml:5: order: unknown order"));
    CHECK(config_error(a_tier + "[defaults]\nwait = 'x'\n").starts_with("monarch.toml:5: wait: "));
    CHECK(config_error(a_tier + "[defaults]\nepochs = 0\n").starts_with("monarch.toml:5: epochs: "));
    CHECK(config_error(a_tier + "[defaults]\nepochs = -1\n").starts_with("monarch.toml:5: epochs: "));
    CHECK(config_error(a_tier + "[defaults]\nepochs = 1.5\n").starts_with("monarch.toml:5: epochs: "));
}

TEST_CASE("monarch.toml: tiers that cannot be") {
    CHECK(config_error("\n[[tier]]\n").starts_with("monarch.toml:2: "));
    CHECK(config_error("[[tier]]\npath='/x'\n") == "monarch.toml:1: name: missing: give the tier a name");
    CHECK(config_error("[[tier]]\nname='x'\n").starts_with("monarch.toml:1: neither path nor tmpfs"));
    CHECK(config_error("[[tier]]\nname='x'\npath='/x'\ntmpfs='1G'\n")
              .starts_with("monarch.toml:1: both path and tmpfs"));
    CHECK(config_error("[[tier]]\nname='x'\ntmpfs='1G'\ncapacity='1G'\n")
              .starts_with("monarch.toml:4: capacity"));
    CHECK(config_error("[[tier]]\nname='x'\ntmpfs='1G'\non_root=true\n")
              .starts_with("monarch.toml:4: on_root"));
    CHECK(config_error("[[tier]]\nname='x'\ntmpfs='0'\n")
              .starts_with("monarch.toml:3: tmpfs: a tier without room"));
    CHECK(
        config_error("[[tier]]\nname='x'\ntmpfs=true\n").starts_with("monarch.toml:3: tmpfs: not a string"));
    CHECK(config_error(a_tier + "capacity = '101%'\n").starts_with("monarch.toml:4: capacity: over 100 %"));
    CHECK(config_error(a_tier + "capacity = -5\n").starts_with("monarch.toml:4: capacity: "));
    CHECK(
        config_error(a_tier + "on_root = 'yes'\n").starts_with("monarch.toml:4: on_root: not true or false"));
    for (const char* name : {"", "Ram", "1x", "a/b", "..", "a b", "\xc3\xbc"})
        CHECK(config_error("[[tier]]\nname='"s + name + "'\npath='/x'\n")
                  .starts_with("monarch.toml:2: name: "));
    CHECK(config_error(a_tier + "[[tier]]\nname='nvme'\npath='/b'\n")
              .starts_with("monarch.toml:4: two tiers 'nvme'"));
    CHECK(config_error(a_tier + "[[tier]]\nname='b'\npath='/local/monarch/'\n")
              .starts_with("monarch.toml:4: the paths"));
    CHECK(config_error(a_tier + "[[tier]]\nname='b'\npath='/local/monarch/b'\n")
              .starts_with("monarch.toml:4: "));
    CHECK(config_error(a_tier + "[[tier]]\nname='b'\npath='/local'\n")
              .starts_with("monarch.toml:4: the paths"));
    CHECK(config_error(a_tier + "[[tier]]\nname='b'\npath='/local/monarch2'\n").empty());
    std::string many;
    for (int i = 0; i < MONARCH_MAX_TIERS; i++)
        many += "[[tier]]\nname='t" + std::to_string(i) + "'\ntmpfs='1G'\n";
    CHECK(config_error(many).empty());
    CHECK(config_error(many + a_tier).find("tier: more than 8") != std::string::npos);
}

TEST_CASE("monarch.toml: files that are none") {
    Folder folder;
    CHECK(load_config(folder.path, "n").error() ==
          folder.path + "/monarch.toml: cannot be read: No such file or directory");
    CHECK_FALSE(load_config(folder.path + "\n/x", "n"));
    CHECK(load_config(folder.path + "\n", "n").error().find('\n') == std::string::npos);
    fs::create_directory(folder.path + "/monarch.toml");
    CHECK(load_config(folder.path, "n").error().find("not a regular file") != std::string::npos);
    for (const std::string& bad :
         {"\xff\xfe"s, "\0"s, "[[tier]"s, "a = \"\n"s, "name = 'x'\nname = 'y'\n"s,
          "a = " + std::string(100000, '['), std::string(1000000, 'a'),
          "a = '" + std::string(1000000, 'x') + "'\n", a_tier + a_tier.substr(0, 8) + "[tier.x"}) {
        std::string error = config_error(bad);
        CHECK(error.starts_with("monarch.toml:"));
        CHECK(error.size() < 1000);
    }
    CHECK(config_error("\xef\xbb\xbf" + a_tier).empty());  // a byte order mark
    CHECK(config_error("# \r\n[[tier]]\r\nname = 'x'\r\npath = '/x'\r\n").empty());
}

TEST_CASE("policy: the design's example") {
    Policy policy = policy_of(R"([[rule]]
users = ["*"]
groups = ["ml-*", "staff"]
partitions = ["gpu*"]
max_capacity = { nvme = "500GiB", ram = "10%" }
max_bandwidth = "2GiB/s"
max_streams = 64
paths = ["/lustre/**"]
keep_max = "24h"
wait_max = "10m"
)");
    REQUIRE(policy.rules.size() == 1);
    const Rule& rule = policy.rules[0];
    CHECK(policy.any_file);
    CHECK(rule.line == 1);
    CHECK(rule.limits_capacity);
    CHECK(rule.max_capacity.at("nvme").bytes == 500ull << 30);
    CHECK(rule.max_capacity.at("ram").percent == 10);
    CHECK(rule.max_bandwidth == 2ull << 30);
    CHECK(rule.max_streams == 64);
    CHECK(rule.limits_paths);
    CHECK(rule.keep_max_s == 86400);
    CHECK(rule.wait_max_s == 600);
    CHECK(policy.match({"alice", {"ml-vision"}, "gpu-long"}) == &rule);
    CHECK(policy.match({"alice", {"users", "staff"}, "gpu"}) == &rule);
    CHECK(policy.match({"alice", {"users"}, "gpu"}) == nullptr);
    CHECK(policy.match({"alice", {}, "gpu"}) == nullptr);
    CHECK(policy.match({"alice", {"staff"}, "cpu"}) == nullptr);
    CHECK(policy.match({"alice", {"staff"}, ""}) == &rule);
}

TEST_CASE("policy: without a rule everyone may use everything") {
    Folder folder;
    auto policy = load_policy(folder.path);
    REQUIRE(policy);
    CHECK_FALSE(policy->any_file);
    const Rule* rule = policy->match({"alice", {}, "any"});
    REQUIRE(rule);
    CHECK_FALSE(rule->limits_capacity);
    CHECK_FALSE(rule->limits_paths);
    CHECK(policy->allows_submission({"alice", {}, ""}, *parse_datasets("/x")));
    folder.write("policy.d/50-example.toml", "# [[rule]]\n");
    CHECK(load_policy(folder.path)->match({"alice", {}, "any"}));
}

TEST_CASE("policy: the first rule that matches, files in the order of their names") {
    Folder folder;
    folder.write("policy.d/90-b.toml", "[[rule]]\nmax_streams = 90\n");
    folder.write("policy.d/10-a.toml",
                 "[[rule]]\nusers = ['bob']\nmax_streams = 10\n[[rule]]\nusers = ['b*']\nmax_streams = 11\n");
    folder.write("policy.d/.hidden.toml", "broken = = =");
    folder.write("policy.d/10-a.toml.rpmsave", "broken = = =");
    folder.write("policy.d/10-a.toml~", "broken = = =");
    auto policy = load_policy(folder.path);
    REQUIRE_MESSAGE(policy, policy.error());
    CHECK(policy->match({"bob", {}, "x"})->max_streams == 10);
    CHECK(policy->match({"bea", {}, "x"})->max_streams == 11);
    CHECK(policy->match({"al", {}, "x"})->max_streams == 90);
    CHECK(policy->match({"al", {}, "x"})->line == 1);
    folder.write("policy.d/99-broken.toml", "[[rule]]\nuser = ['bob']\n");
    CHECK(load_policy(folder.path).error() ==
          folder.path + "/policy.d/99-broken.toml:2: unknown key 'user': see monarch.toml(5) for the keys");
}

TEST_CASE("policy: which paths") {
    Policy policy = policy_of("[[rule]]\npaths = ['/lustre/**']\n");
    const Rule& rule = policy.rules[0];
    CHECK(rule_allows(rule, parse_datasets("/lustre/x/y")->front()));
    CHECK(rule_allows(rule, parse_datasets("imagenet")->front()));
    CHECK(rule_allows(rule, parse_datasets("s3://bucket/x")->front()));
    CHECK(rule_allows(rule, parse_datasets("/home/x")->front()).error() ==
          "path /home/x is not allowed by 50-gpu.toml: ask for one of /lustre/**");
    Policy none = policy_of("[[rule]]\npaths = []\n");
    CHECK(rule_allows(none.rules[0], parse_datasets("/lustre/x")->front()).error() ==
          "path /lustre/x is not allowed by 50-gpu.toml: use a name of the catalog");
}

TEST_CASE("policy: the submit host refuses what no partition could allow") {
    Policy policy = policy_of(R"(
[[rule]]
users = ["guest"]
max_capacity = {}
[[rule]]
partitions = ["gpu*"]
paths = ["/lustre/**"]
[[rule]]
partitions = ["cpu"]
paths = ["/home/**"]
[[rule]]
paths = ["/scratch/**"]
[[rule]]
paths = ["/never/**"]
)");
    auto allowed = [&](const Requester& who, const char* text) {
        return policy.allows_submission(who, *parse_datasets(text)).ok();
    };
    CHECK(allowed({"al", {}, ""}, "/lustre/x"));
    CHECK(allowed({"al", {}, ""}, "/home/x"));
    CHECK(allowed({"al", {}, ""}, "/scratch/x"));
    CHECK_FALSE(allowed({"al", {}, ""}, "/never/x"));           // the rule before it takes every partition
    CHECK_FALSE(allowed({"al", {}, ""}, "/lustre/x,/home/y"));  // no partition allows both
    CHECK(allowed({"al", {}, "gpu1"}, "/lustre/x"));
    CHECK_FALSE(allowed({"al", {}, "gpu1"}, "/home/x"));
    CHECK(allowed({"al", {}, "cpu"}, "/home/x"));
    CHECK_FALSE(allowed({"guest", {}, ""}, "imagenet"));
    CHECK(policy.allows_submission({"guest", {}, ""}, *parse_datasets("imagenet")).error() ==
          "50-gpu.toml allows no space on any tier: ask the administrator");
    Policy only_bob = policy_of("[[rule]]\nusers = ['bob']\n");
    CHECK(only_bob.allows_submission({"al\n", {}, ""}, *parse_datasets("x")).error() ==
          "no rule of policy.d lets 'al\\x0a' stage data sets: ask the administrator");
}

TEST_CASE("policy: errors name file and line") {
    CHECK(policy_error("").empty());
    CHECK(policy_error("[[rule]]\n").empty());
    CHECK(policy_error("[rule]\n").starts_with("50-gpu.toml:1: rule: not a list of tables"));
    CHECK(policy_error("[[rules]]\n").starts_with("50-gpu.toml:1: unknown key 'rules'"));
    CHECK(
        policy_error("[[rule]]\nusers = 'bob'\n").starts_with("50-gpu.toml:2: users: not a list of strings"));
    CHECK(policy_error("[[rule]]\nusers = [1]\n").starts_with("50-gpu.toml:2: users: an item"));
    CHECK(policy_error("[[rule]]\nusers = ['']\n").starts_with("50-gpu.toml:2: users: an item"));
    CHECK(policy_error("[[rule]]\nusers = []\n").starts_with("50-gpu.toml:2: users: an empty list"));
    CHECK(policy_error("[[rule]]\ngroups = []\n").starts_with("50-gpu.toml:2: groups: an empty list"));
    CHECK(policy_error("[[rule]]\nmax_streams = 0\n").starts_with("50-gpu.toml:2: max_streams: "));
    CHECK(policy_error("[[rule]]\nmax_streams = 4097\n").starts_with("50-gpu.toml:2: max_streams: "));
    CHECK(policy_error("[[rule]]\nmax_bandwidth = '50%'\n").starts_with("50-gpu.toml:2: max_bandwidth: "));
    CHECK(policy_error("[[rule]]\nmax_bandwidth = '0'\n").starts_with("50-gpu.toml:2: max_bandwidth: "));
    CHECK(policy_error("[[rule]]\nmax_bandwidth = '1GiB/h'\n").starts_with("50-gpu.toml:2: max_bandwidth: "));
    CHECK(policy_error("[[rule]]\nmax_capacity = '1G'\n")
              .starts_with("50-gpu.toml:2: max_capacity: not a table"));
    CHECK(policy_error("[[rule]]\nmax_capacity = { nvme = 'x' }\n")
              .starts_with("50-gpu.toml:2: nvme: 'x' is not a size"));
    CHECK(policy_error("[[rule]]\nmax_capacity = { NVME = '1G' }\n")
              .starts_with("50-gpu.toml:2: NVME: not a tier"));
    CHECK(policy_error("[[rule]]\n[rule.max_capacity]\nram = '1G'\nnvme = 'x'\n")
              .starts_with("50-gpu.toml:4: nvme: "));
    CHECK(policy_error("[[rule]]\npaths = ['lustre/**']\n")
              .starts_with("50-gpu.toml:2: paths: 'lustre/**' can match"));
    CHECK(policy_error("[[rule]]\nkeep_max = '3651d'\n").starts_with("50-gpu.toml:2: keep_max: over 3650d"));
    CHECK(policy_error("[[rule]]\nwait_max = '8d'\n").starts_with("50-gpu.toml:2: wait_max: over 7d"));
    CHECK(
        policy_error("[[rule]]\nwait_max = 'x'\n").starts_with("50-gpu.toml:2: wait_max: 'x' is not a time"));
    CHECK(policy_error("[[rule]]\n[[rule]]\n\nx = 1\n").starts_with("50-gpu.toml:4: unknown key 'x'"));
    CHECK(policy_error("rule = [ { users = ['a'] },\n { user = ['b'] } ]\n")
              .starts_with("50-gpu.toml:2: unknown"));
}

TEST_CASE("catalog: entries of all files, by name") {
    Folder folder;
    CHECK_FALSE(load_catalog(folder.path)->present);
    folder.write("datasets.d/a.toml",
                 "[dataset.imagenet]\nsource = '/lustre//imagenet/'\nmanifest = '/lustre/imagenet.manifest'\n"
                 "description = \"ILSVRC\\n2012\"\n[dataset.\"coco.2017\"]\nsource = 's3://bucket/coco'\n");
    folder.write("datasets.d/b.toml",
                 "[dataset.comma]\nsource = '/data/a,b'\n[dataset.n1]\nsource='https://h/m'\n");
    auto catalog = load_catalog(folder.path);
    REQUIRE_MESSAGE(catalog, catalog.error());
    CHECK(catalog->present);
    CHECK(catalog->entries.size() == 4);
    const CatalogEntry* entry = catalog->find("imagenet");
    REQUIRE(entry);
    CHECK(entry->source == "/lustre/imagenet");
    CHECK(entry->manifest == "/lustre/imagenet.manifest");
    CHECK(entry->file == folder.path + "/datasets.d/a.toml");
    CHECK(catalog->find("coco.2017")->source == "s3://bucket/coco");
    CHECK(catalog->find("comma")->source == "/data/a,b");
    CHECK(catalog->find("none") == nullptr);
    folder.write("datasets.d/c.toml",
                 "[dataset.new]\nsource = '/new'\n\n[dataset.imagenet]\nsource = '/other'\n");
    CHECK(load_catalog(folder.path).error() == folder.path + "/datasets.d/c.toml:4: imagenet is already in " +
                                                   folder.path + "/datasets.d/a.toml: remove or rename one");
}

TEST_CASE("catalog: errors name file and line") {
    CHECK(catalog_error("").empty());
    CHECK(catalog_error("[dataset.x]\n") == "x.toml:1: source: missing: say where the data set lies");
    CHECK(catalog_error("[dataset.x]\nsource = 'x'\n").starts_with("x.toml:2: source: 'x' is neither"));
    CHECK(catalog_error("[dataset.x]\nsource = '/a/../b'\n").starts_with("x.toml:2: source: '..'"));
    CHECK(catalog_error("[dataset.x]\nsource = '/'\n").starts_with("x.toml:2: source: '/'"));
    CHECK(
        catalog_error("[dataset.x]\nsource = \"/a\\u0000,b\"\n").starts_with("x.toml:2: source: a control"));
    CHECK(catalog_error("[dataset.x]\nsource = 'ftp://h/x'\n")
              .starts_with("x.toml:2: source: unknown URL scheme"));
    CHECK(catalog_error("[dataset.x]\nsource = 's3://b/x,y'\n").starts_with("x.toml:2: source: "));
    CHECK(catalog_error("[dataset.x]\nsource = ''\n").starts_with("x.toml:2: source: "));
    CHECK(catalog_error("[dataset.x]\nsource = '/x'\nmanifest = 'm'\n").starts_with("x.toml:3: manifest: "));
    CHECK(catalog_error("[dataset.x]\nsource = '/x'\npath = '/y'\n")
              .starts_with("x.toml:3: unknown key 'path'"));
    CHECK(catalog_error("[dataset.'a b']\nsource = '/x'\n")
              .starts_with("x.toml:1: 'a b' cannot be a data set's name"));
    CHECK(catalog_error("[dataset.list]\nsource = '/x'\n").starts_with("x.toml:1: 'list' cannot be"));
    CHECK(catalog_error("[dataset.'']\nsource = '/x'\n").starts_with("x.toml:1: '' cannot be"));
    CHECK(catalog_error("[dataset]\nimagenet = '/x'\n").starts_with("x.toml:2: imagenet is not a table"));
    CHECK(catalog_error("dataset = 1\n").starts_with("x.toml:1: dataset: not a table"));
    CHECK(catalog_error("[datasets.x]\nsource = '/x'\n").starts_with("x.toml:1: unknown key 'datasets'"));
}
