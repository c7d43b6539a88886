// Inconsistent operations of one communicator into incidents. (Paper, section 4.2.2: H2.)
// Threads: those of the analyzer.
#pragma once

#include "decision/analysis/incident_writer.h"
#include "decision/analysis/watch.h"

namespace ccld::decision {

void look_for_mismatch(Watch&, IncidentWriter&, const Settings&, Nanoseconds now_ns);

}  // namespace ccld::decision
