// A snapshot in the Prometheus text format: the answer of /metrics. Bounded: no label has more values than classes and
// states have, so a large cluster does not flood the metrics store. Threads: any.
#pragma once

#include <string>

#include "decision/report/status_json.h"

namespace ccld::decision::report {

std::string prometheus_text(const Snapshot&);

}  // namespace ccld::decision::report
