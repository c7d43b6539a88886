// Communicators whose initialization does not end, into incidents. (Beyond the paper, which starts at the first
// operation.) One that waits for the cause of a hang elsewhere is a victim of that one; communicators that wait for an
// initialization are its victims. Threads: those of the analyzer.
#pragma once

#include "decision/analysis/incident_writer.h"
#include "decision/analysis/init_waits.h"
#include "decision/model/init_book.h"

namespace ccld::decision {

void look_at_inits(InitBook&, const InitLinks&, const Watches&, const ProcessTable&, IncidentWriter&, const Settings&,
                   Nanoseconds now_ns);

}  // namespace ccld::decision
