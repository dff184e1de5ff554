// The text side of libmonarch.so: which paths lie in a data set, and what an open means to do. Its C files
// are compiled in here, so that they are checked by the same sanitizers as everything else.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#undef _GNU_SOURCE
extern "C" {
#include "preload/flags.c"
#undef _GNU_SOURCE
#include "preload/path.c"
}

namespace {

std::string below(const char* root, const char* path, bool relative = false) {
    const char* rest = path_below(root, path, relative);
    return rest == nullptr ? "no" : rest;
}

std::string normal(const char* head, const char* tail, bool* slash = nullptr) {
    char text[64];
    bool ignored;
    int length = path_normalise({head, tail}, text, sizeof text, slash == nullptr ? &ignored : slash);
    return length < 0 ? "no" : std::string(text, static_cast<size_t>(length));
}

// A folder that is gone after the test.
struct Folder {
    std::string path;
    Folder() {
        char name[] = "/tmp/preload_test.XXXXXX";
        path = std::filesystem::canonical(mkdtemp(name)).string();
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string operator/(const std::string& name) const { return path + "/" + name; }
};

std::string resolved(const std::string& path, bool follow = true, int dirfd = AT_FDCWD) {
    walk w;
    if (!walk_start(&w, dirfd, path.c_str()) || !walk_all(&w, follow)) return "no";
    return w.text;
}

}  // namespace

TEST_CASE("preload: a path lies below a root, or not") {
    CHECK(below("/data/set", "/data/set/a/b") == "/a/b");
    CHECK(below("/data/set", "/data/set") == "");
    CHECK(below("/data/set", "/data/set/") == "/");
    CHECK(below("/data/set", "//data/./set//a") == "//a");
    CHECK(below("/data/set", "/./data/././/set/./a") == "/./a");
    CHECK(below("/data/set", "/data/set2/a") == "no");
    CHECK(below("/data/set", "/data/se") == "no");
    CHECK(below("/data/set", "/data") == "no");
    CHECK(below("/data/set", "/") == "no");
    CHECK(below("/data/set", "") == "no");
    CHECK(below("/data/set", "data/set/a") == "no");
    CHECK(below("/data/set", "/data/../data/set/a") == "no");
    CHECK(below("/data/set", "/data/.set/a") == "no");
    CHECK(below("/data/.set", "/data/.set/a") == "/a");
    CHECK(below("/data/set", "/data/.") == "no");
    CHECK(below("/d", "/d/\xff\n \x01") == "/\xff\n \x01");
}

TEST_CASE("preload: a path that goes on from a folder above the root") {
    CHECK(below("/set", "set/a", true) == "/a");
    CHECK(below("/set", "./set/a", true) == "/a");
    CHECK(below("/set", "sets/a", true) == "no");
    CHECK(below("/a/set", "a/set/x", true) == "/x");
    CHECK(below("/a/set", "../a/set/x", true) == "no");
}

TEST_CASE("preload: relative paths are made normal, and .. is refused") {
    bool slash = true;
    CHECK(normal("", "/a//b/./c", &slash) == "/a/b/c");
    CHECK_FALSE(slash);
    CHECK(normal("/a", "b/c") == "/a/b/c");
    CHECK(normal("/a", "./b") == "/a/b");
    CHECK(normal("", "") == "");
    CHECK(normal("/", "./") == "");
    CHECK(normal("/a", "../b") == "no");
    CHECK(normal("/a/..", "b") == "no");
    CHECK(normal("/a", "..b/...") == "/a/..b/...");
    for (const char* folder : {"/a/", "/a/.", "/a//", "/a/./", "/."}) {
        normal("", folder, &slash);
        CHECK(slash);
    }
    for (const char* file : {"/a", "/a.", "/.a", "//a"}) {
        normal("", file, &slash);
        CHECK_FALSE(slash);
    }
    CHECK(normal("/1234567890123456789012345678901", "/123456789012345678901234567890") ==
          "/1234567890123456789012345678901/123456789012345678901234567890");
    CHECK(normal("/1234567890123456789012345678901", "/1234567890123456789012345678901") == "no");
}

TEST_CASE("preload: links are followed as the kernel follows them") {
    Folder f;
    std::filesystem::create_directories(f / "set/train/deep");
    std::filesystem::create_symlink("set/train", f / "short");
    std::filesystem::create_symlink(f / "set", f / "absolute");
    std::filesystem::create_symlink("absolute/train/../train", f / "chain");
    std::filesystem::create_symlink("loop", f / "loop");
    std::filesystem::create_symlink("short/deep/", f / "slash");
    CHECK(resolved(f / "set/train") == f / "set/train");
    CHECK(resolved(f / "short/x") == f / "set/train/x");
    CHECK(resolved(f / "absolute//train/./x") == f / "set/train/x");
    CHECK(resolved(f / "chain/x") == f / "set/train/x");
    CHECK(resolved(f / "short/../x") == f / "set/x");
    CHECK(resolved(f / "slash/x") == f / "set/train/deep/x");
    CHECK(resolved(f / "short") == f / "set/train");
    CHECK(resolved(f / "short", false) == f / "short");
    CHECK(resolved(f / "short/", false) == f / "set/train");
    CHECK(resolved(f / "loop/x") == "no");
    CHECK(resolved(f / "missing/a/b") == f / "missing/a/b");
    CHECK(resolved("/") == "");
    CHECK(resolved("/..") == "");
    CHECK(resolved("/../tmp/..") == "");

    int dirfd = open((f / "set").c_str(), O_RDONLY | O_DIRECTORY);
    CHECK(resolved("train/x", true, dirfd) == f / "set/train/x");
    CHECK(resolved("../short/x", true, dirfd) == f / "set/train/x");
    CHECK(resolved("x", true, dirfd) == f / "set/x");
    close(dirfd);
    CHECK(resolved("x", true, 1000000) == "no");
    char cwd[4096];
    REQUIRE(getcwd(cwd, sizeof cwd) != nullptr);
    CHECK(resolved("no-such-name") == std::string(cwd) + "/no-such-name");
}

TEST_CASE("preload: paths at the limit are followed or refused, never cut") {
    std::string longest = "/tmp";
    while (longest.size() + 8 < 4095) longest += "/missing";
    CHECK(resolved(longest) == longest);
    CHECK(resolved(longest.substr(1), true) != "");
    CHECK(resolved(longest + longest) == "no");
    Folder f;
    std::string target(3000, 'x');
    for (size_t i = 200; i < target.size(); i += 200) target[i] = '/';
    std::filesystem::create_symlink(target, f / "long");
    CHECK(resolved(f / "long") == f / target);
    CHECK(resolved(f / ("long/" + std::string(2000, 'y'))) == "no");
}

TEST_CASE("preload: descriptors and system folders") {
    char text[FD_PATH_BYTES];
    path_of_descriptor(0, text);
    CHECK(std::string(text) == "/proc/self/fd/0");
    path_of_descriptor(2147483647, text);
    CHECK(std::string(text) == "/proc/self/fd/2147483647");
    CHECK(path_system("/proc/self/maps"));
    CHECK(path_system("/dev/null"));
    CHECK_FALSE(path_system("/dev/shm/set/a"));
    CHECK_FALSE(path_system("/device"));
    CHECK_FALSE(path_system("/etc"));
    CHECK_FALSE(path_system("/"));
    CHECK(path_hash(0, "/a/b/c/d/e", 10) != path_hash(0, "/a/b/c/d/f", 10));
    CHECK(path_hash(0, "abc", 3) != path_hash(1, "abc", 3));
}

TEST_CASE("preload: which opens read, and what the others change") {
    CHECK(read_flags(O_RDONLY));
    CHECK(read_flags(O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOATIME | O_LARGEFILE | O_NOFOLLOW));
    for (int flag : {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_DIRECTORY, O_PATH, O_DIRECT, O_APPEND, O_SYNC})
        CHECK_FALSE(read_flags(flag));

    CHECK(change_of_flags(O_RDONLY) == 0);
    CHECK(change_of_flags(O_RDONLY | O_DIRECTORY) == 0);
    CHECK(change_of_flags(O_PATH) == 0);
    CHECK(change_of_flags(O_TMPFILE | O_RDWR) == 0);
    CHECK(change_of_flags(O_RDWR) == (BYTES | FOLLOW | AFTER));
    CHECK(change_of_flags(O_WRONLY | O_NOFOLLOW) == (BYTES | AFTER));
    CHECK(change_of_flags(O_RDONLY | O_TRUNC) == (BYTES | FOLLOW));
    CHECK(change_of_flags(O_WRONLY | O_CREAT | O_TRUNC) == (BYTES | FOLLOW | NEW));
    CHECK(change_of_flags(O_WRONLY | O_CREAT | O_EXCL) == (BYTES | NEW | AFTER));

    for (const char* mode : {"r", "rb", "rm", "re", "rce", "r,ccs=UTF-8", "rb,ccs=UTF+8"}) {
        CHECK(read_mode(mode));
        CHECK(change_of_mode(mode) == 0);
    }
    for (const char* mode : {"r+", "rb+", "r+b", "w", "w+", "wx", "a", "ab", "a+", "", "x", "+r"})
        CHECK_FALSE(read_mode(mode));
    CHECK(change_of_mode("r+") == (BYTES | FOLLOW | AFTER));
    CHECK(change_of_mode("ab") == (BYTES | FOLLOW | AFTER | NEW));
    CHECK(change_of_mode("wbx") == (BYTES | FOLLOW | NEW));
    CHECK(change_of_mode("q") == 0);
    CHECK(change_of_mode("") == 0);
    CHECK(change_of_mode(nullptr) == 0);
    CHECK_FALSE(read_mode(nullptr));
}
