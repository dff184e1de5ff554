#include <doctest/doctest.h>
#include <unistd.h>

#include <string>

#include "core/tier.h"

using namespace monarch;

// What needs root, a mounted disk and a marker is in tests/programs/cli.bats.

TEST_CASE("a tmpfs tier is ready, its capacity its size") {
    Config config;
    config.run = "/run/monarch";
    TierConfig tier{"ram", "", true, *parse_size("64MiB"), false};
    TierState state = inspect_tier(tier, config);
    CHECK(state.ready);
    CHECK(state.path == "/run/monarch/tiers/ram");
    CHECK(state.capacity_bytes == 64ull << 20);
    tier.capacity = *parse_size("50%");
    uint64_t memory =
        static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    CHECK(inspect_tier(tier, config).capacity_bytes == memory / 2);
    CHECK(init_tier(tier, config)->empty());
}

TEST_CASE("a disk tier that cannot be used says why and what to do") {
    auto why = [](const std::string& path) {
        TierState state = inspect_tier({"nvme", path, false, *parse_size("90%"), false}, Config{});
        CHECK_FALSE(state.ready);
        CHECK(state.capacity_bytes == 0);
        return state.why;
    };
    for (const char* path : {"/tmp", "/tmp/x", "/var/tmp/x/y", "/dev/shm/x"})
        CHECK(why(path).find("which jobs may see as their own: use another folder") != std::string::npos);
    CHECK(why("/nonexistent/x").starts_with("missing: run `monarchctl tier init`"));
    CHECK(why("/proc/mounts").starts_with("it is a link or no folder"));
    CHECK(why("/proc/self/fd").find(": ") != std::string::npos);
    CHECK(why("/tmpx").starts_with("missing"));
}
