// A session's report in the results folder: RESULTS/JOB/NODE.NAME.json, written as the user, off everybody's
// path.
#pragma once

#include <memory>
#include <string>

#include "core/counters.h"
#include "core/result.h"

namespace monarch {

struct Report {
    std::string folder, file;  // where it goes
    std::string job, node, dataset, source, predictor, outcome;
    int64_t attached_at = 0, written_at = 0;
    Counters counters{};
};

// The report as JSON text.
std::string report_json(const Report& report);
// Makes the folder and writes the file by rename.
Status write_report(const Report& report);

}  // namespace monarch
