#include "stager/report.h"

#include <nlohmann/json.hpp>

#include "core/os.h"
#include "core/units.h"

namespace monarch {

std::string report_json(const Report& r) {
    nlohmann::ordered_json j;
    j["job"] = printable(r.job);
    j["node"] = printable(r.node);
    j["dataset"] = printable(r.dataset);
    j["source"] = printable(r.source);
    j["state"] = r.outcome;
    j["attached_at"] = r.attached_at;
    j["written_at"] = r.written_at;
    j["predictor"] = printable(r.predictor);
    for (size_t n = 0; n < counter_names.size(); n++) j[counter_names[n]] = counter(r.counters, n);
    return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Status write_report(const Report& r) {
    if (Status s = make_dirs(r.folder, 0700); !s.ok()) return s;
    return write_file(r.folder + "/" + r.file, report_json(r), 0600);
}

}  // namespace monarch
