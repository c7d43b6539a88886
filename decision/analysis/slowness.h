// Slow communicators into incidents. (Paper, section 4.2.2: S1 to S3.)
// Threads: those of the analyzer.
#pragma once

#include "decision/analysis/incident_writer.h"
#include "decision/analysis/watch.h"

namespace ccld::decision {

// Takes the rounds that all ranks have reported since the last call.
void look_for_slow(Watch&, IncidentWriter&, Nanoseconds now_ns);

}  // namespace ccld::decision
