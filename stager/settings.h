// The configuration as attach, detach and reap use it: files in a cluster, the request itself for `monarchctl
// run`.
#pragma once

#include <string>
#include <vector>

#include "core/config.h"
#include "core/fields.h"
#include "core/result.h"

namespace monarch {

struct Settings {
    bool user = false;  // `monarchctl run`: no root, no configuration needed
    Config config;
    Policy policy;
    Catalog catalog;
    std::string policy_error,
        catalog_error;    // why there is none: it forbids data sets, but must not keep a job from ending
    std::string library;  // libmonarch.so
    std::vector<std::string> reap_arguments;  // what `monarch-stager reap` needs to find the same folders
};

// `config_dir` "" = the request is `monarchctl run`'s: state=, run=, results= and tier=NAME, path=FOLDER,
// capacity=SIZE for each tier; its catalog is read from catalog=DIR when that is there.
Result<Settings> load_settings(const Fields& request, const std::string& config_dir);

}  // namespace monarch
