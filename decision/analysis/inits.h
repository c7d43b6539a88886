// Communicators whose making does not end, into incidents. (Beyond the paper, which starts at the first operation.)
// Threads: those of the analyzer.
#pragma once

#include "decision/analysis/incident_writer.h"
#include "decision/model/init_book.h"

namespace ccld::decision {

void look_at_inits(InitBook&, const ProcessTable&, IncidentWriter&, const Settings&, Nanoseconds now_ns);

}  // namespace ccld::decision
