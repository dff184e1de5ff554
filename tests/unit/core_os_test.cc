#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <string>

#include "core/os.h"
#include "tests/unit/stager_test.h"

using namespace monarch;

TEST_CASE("os: remove_tree removes everything, and follows no link") {
    TestFolder f;
    put(f / "outside/kept", "kept");
    put(f / "tree/a/b/c", "x");
    put(f / "tree/\xff\n", "x");
    std::filesystem::create_symlink("../outside", f / "tree/folder");
    std::filesystem::create_symlink("../../outside/kept", f / "tree/a/file");
    std::filesystem::create_symlink("nowhere", f / "tree/dangling");
    REQUIRE(mkfifo((f / "tree/fifo").c_str(), 0600) == 0);
    put(f / "tree/a/removed.0", "the name that moved folders get");
    put(f / "tree/removed.0/removed.1/removed.0/x", "the same");
    std::filesystem::create_directories(f / "tree/removed.1/e");
    CHECK(remove_tree(f / "tree") == 0);
    CHECK_FALSE(std::filesystem::exists(f / "tree"));
    CHECK(get(f / "outside/kept") == "kept");
    CHECK(remove_tree(f / "tree") == 0);  // gone already
    std::filesystem::create_symlink("outside", f / "link");
    CHECK(remove_tree(f / "link") == 0);
    CHECK(get(f / "outside/kept") == "kept");
    CHECK(remove_tree(f / "outside/kept") == 0);
}

TEST_CASE("os: remove_tree takes folders whose rights were taken away") {
    TestFolder f;
    put(f / "tree/a/b/c", "x");
    put(f / "tree/d/e", "x");
    for (const char* folder : {"tree/a/b", "tree/a", "tree/d", "tree"})
        REQUIRE(chmod((f / folder).c_str(), 0) == 0);
    pid_t pid = fork();
    if (pid == 0) {  // root may do anything
        if (geteuid() == 0 && (chown(f.path.c_str(), 65534, 65534) != 0 ||
                               system(("chown -R 65534:65534 " + f.path).c_str()) != 0 ||
                               setgid(65534) != 0 || setuid(65534) != 0))
            _exit(2);
        _exit(remove_tree(f / "tree") == 0 ? 0 : 1);
    }
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WEXITSTATUS(status) == 0);
    CHECK_FALSE(std::filesystem::exists(f / "tree"));
}

TEST_CASE("os: remove_tree needs the same few descriptors however deep and wide the tree is") {
    TestFolder f;
    REQUIRE(mkdir((f / "tree").c_str(), 0700) == 0);
    Fd at(open((f / "tree").c_str(), O_RDONLY | O_DIRECTORY));
    for (int depth = 0; depth < 5000; depth++) {
        REQUIRE(mkdirat(at.get(), "d", 0700) == 0);
        if (depth % 500 == 0) REQUIRE(mkdirat(at.get(), "e", 0700) == 0);
        Fd file(openat(at.get(), "f", O_CREAT | O_WRONLY, 0600));
        at = Fd(openat(at.get(), "d", O_RDONLY | O_DIRECTORY));
        REQUIRE(at);
    }
    at.reset();
    for (int n = 0; n < 3000; n++) put(f / ("tree/wide/" + std::to_string(n)), "");
    rlimit before, few;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    few.rlim_cur = 24;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    uint64_t left = remove_tree(f / "tree");
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(left == 0);
    CHECK_FALSE(std::filesystem::exists(f / "tree"));
}

TEST_CASE("os: remove_tree stays on its file system and counts what it leaves") {
    TestFolder f;
    put(f / "tree/a/x", "x");
    REQUIRE(mkdir((f / "tree/a/mount").c_str(), 0700) == 0);
    if (geteuid() != 0 || mount("test", (f / "tree/a/mount").c_str(), "tmpfs", 0, "size=1M") != 0) return;
    put(f / "tree/a/mount/kept", "kept");
    CHECK(remove_tree(f / "tree") > 0);
    bool kept = get(f / "tree/a/mount/kept") == "kept" || get(f / "tree/removed.0/mount/kept") == "kept";
    CHECK(kept);
    std::string folder =
        std::filesystem::exists(f / "tree/a/mount") ? f / "tree/a/mount" : f / "tree/removed.0/mount";
    REQUIRE(umount2(folder.c_str(), MNT_DETACH) == 0);
    CHECK(remove_tree(f / "tree") == 0);
}

TEST_CASE("os: make_dir makes a folder, or takes a real one of the right owner") {
    TestFolder f;
    REQUIRE(make_dir(f / "a", 0711, geteuid(), getegid()));
    struct stat st;
    REQUIRE(stat((f / "a").c_str(), &st) == 0);
    CHECK((st.st_mode & 07777) == 0711);
    CHECK(make_dir(f / "a", 0700, geteuid()));
    REQUIRE(stat((f / "a").c_str(), &st) == 0);
    CHECK((st.st_mode & 07777) == 0711);  // one that is there is left as it is
    std::filesystem::create_directory_symlink("a", f / "link");
    CHECK_FALSE(make_dir(f / "link", 0700, geteuid()));
    CHECK_FALSE(make_dirs(f / "link", 0700));
    CHECK(make_dirs(f / "link/b/c", 0700));  // a parent may be an administrator's link
    put(f / "file", "x");
    CHECK_FALSE(make_dir(f / "file", 0700));
    CHECK_FALSE(make_dir(f / "missing/b", 0700));
    Status other = make_dir(f / "a", 0700, geteuid() + 1);
    REQUIRE_FALSE(other);
    CHECK(other.error().find("belongs to uid") != std::string::npos);
}

TEST_CASE("os: files are read up to a limit, never through a link or from a fifo") {
    TestFolder f;
    put(f / "file", "12345");
    CHECK(get(f / "file") == "12345");
    CHECK(read_file(f / "file", 5));
    CHECK_FALSE(read_file(f / "file", 4));
    std::filesystem::create_symlink("file", f / "link");
    CHECK_FALSE(read_file(f / "link", 100));
    REQUIRE(mkfifo((f / "fifo").c_str(), 0600) == 0);
    CHECK_FALSE(read_file(f / "fifo", 100));
    CHECK_FALSE(read_file(f.path, 100));
}

TEST_CASE("os: write_file replaces whole, and a link by a file") {
    TestFolder f;
    put(f / "kept", "kept");
    std::filesystem::create_symlink("kept", f / "file");
    REQUIRE(write_file(f / "file", "new", 0640));
    CHECK(get(f / "file") == "new");
    CHECK(get(f / "kept") == "kept");
    struct stat st;
    REQUIRE(stat((f / "file").c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0640);
    CHECK_FALSE(write_file(f / "missing/file", "x", 0600));
    CHECK(std::distance(std::filesystem::directory_iterator(f.path), {}) == 2);
}

TEST_CASE("os: a process's start is the same while it lives, and none when it is gone or a zombie") {
    uint64_t own = process_start(getpid());
    CHECK(own > 0);
    CHECK(process_start(getpid()) == own);
    CHECK(process_start(0) == 0);
    CHECK(process_start(-1) == 0);
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    siginfo_t info;
    REQUIRE(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
    CHECK(process_start(pid) == 0);
    waitpid(pid, nullptr, 0);
    CHECK(process_start(pid) == 0);
    CHECK(boot_id().size() == 36);
}
