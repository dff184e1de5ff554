// Predictors: manifest and options → the node's sequence of file ids. Pure functions, no I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stager/manifest.h"

namespace monarch {

struct Prediction {
    std::string predictor;           // who says so: "name", "manifest"
    double confidence = 0;           // 0..1, how sure: 1 when the job said it
    std::vector<uint32_t> sequence;  // every file id once, in the order of first use
};

// `order` is a name that parse_order() of core/options.h let through. `auto` is `name` with less confidence.
Prediction predict(std::string_view order, const Manifest& manifest);

// As listed: ids in their order.
std::vector<uint32_t> order_manifest(const Manifest& manifest);
// What torchvision's ImageFolder walks: classes (first component) sorted by bytes, in each class the folders
// sorted by their whole path, in each folder the files by name; files beside the classes come last. Source:
// torchvision.datasets.folder.make_dataset; sorting bytes of UTF-8 equals Python's order of str.
std::vector<uint32_t> order_name(const Manifest& manifest);

}  // namespace monarch
