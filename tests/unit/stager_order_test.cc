#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "stager/order/order.h"
#include "tests/unit/stager_test.h"

using namespace monarch;

namespace {

// torchvision.datasets.folder.make_dataset, again and in its own way: a tree; for each class in sorted order,
// sorted(os.walk(class)), and in each folder sorted(files). Files beside the classes, which it never sees,
// follow.
struct Tree {
    std::map<std::string, Tree> folders;
    std::set<std::string> files;
    void add(const std::string& path) {
        size_t slash = path.find('/');
        if (slash == std::string::npos)
            files.insert(path);
        else
            folders[path.substr(0, slash)].add(path.substr(slash + 1));
    }
    void walk(const std::string& root,
              std::vector<std::pair<std::string, std::set<std::string>>>& out) const {
        out.emplace_back(root, files);
        for (const auto& [name, tree] : folders) tree.walk(root + "/" + name, out);
    }
};

std::vector<std::string> torchvision(const std::vector<std::string>& paths) {
    Tree tree;
    for (const auto& p : paths) tree.add(p);
    std::vector<std::string> order;
    for (const auto& [name, folder] : tree.folders) {
        std::vector<std::pair<std::string, std::set<std::string>>> walked;
        folder.walk(name, walked);
        std::sort(walked.begin(), walked.end());
        for (const auto& [root, files] : walked)
            for (const auto& f : files) order.push_back(root + "/" + f);
    }
    order.insert(order.end(), tree.files.begin(), tree.files.end());
    return order;
}

Manifest manifest_of(const std::vector<std::string>& paths) {
    Manifest m;
    for (const auto& p : paths) m.add(p, p.size(), 0);
    m.sort();
    return m;
}

std::vector<std::string> by_name(const Manifest& m) {
    std::vector<std::string> order;
    for (uint32_t id : order_name(m)) order.emplace_back(m.path(id));
    return order;
}

}  // namespace

TEST_CASE("order: names that sort differently as paths and as components") {
    std::vector<std::string> paths = {"a/1",     "a/b/1",   "a-b/1",  "a/b-c/1", "a/b/c/1",     "a.b/x",
                                      "a/z",     "a/b0",    "beside", "a0/1",    "A/1",         "a/b!/1",
                                      "a/b/!",   "\xff/1",  "a/\xfe", "\x01",    "a/b/c-d/e/1", "a b/1",
                                      "a/b/c/d", "0beside", "a!/b/c"};
    CHECK(by_name(manifest_of(paths)) == torchvision(paths));
}

TEST_CASE("order: random trees walk as torchvision does") {
    unsigned state = 1;
    auto next = [&](unsigned n) { return (state = state * 1103515245 + 12345) / 65536 % n; };
    const std::string alphabet[] = {"a", "b", "-", ".", "!", "0", "\xff", "\xc3\xa9", " "};
    for (int round = 0; round < 200; round++) {
        std::set<std::string> files, folders;
        for (int n = 0; n < 30; n++) {
            std::string path;
            for (unsigned depth = next(4) + 1; depth > 0; depth--) {
                if (!path.empty()) folders.insert(path), path += "/";
                for (unsigned length = next(3) + 1; length > 0; length--) path += alphabet[next(9)];
            }
            files.insert(path);
        }
        std::vector<std::string> paths;
        for (const auto& f : files)
            if (!folders.contains(f)) paths.push_back(f);
        CHECK(by_name(manifest_of(paths)) == torchvision(paths));
    }
}

TEST_CASE("order: each predictor gives every id once, and says who it is") {
    Manifest m = manifest_of({"b/1", "a/1", "c"});
    for (const char* order : {"auto", "name", "manifest"}) {
        Prediction p = predict(order, m);
        auto sorted = p.sequence;
        std::sort(sorted.begin(), sorted.end());
        std::vector<uint32_t> all(m.size());
        std::iota(all.begin(), all.end(), 0u);
        CHECK(sorted == all);
        CHECK(p.predictor == (std::string(order) == "manifest" ? "manifest" : "name"));
        CHECK(p.confidence == (std::string(order) == "auto" ? 0.5 : 1));
    }
    CHECK(order_manifest(m) == std::vector<uint32_t>{0, 1, 2});
    CHECK(predict("auto", Manifest()).sequence.empty());
}
