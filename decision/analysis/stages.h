// Where in the training iteration the incidents lie that are about to be handed out. (decision/iteration/stage.h)
// Threads: those of the analyzer.
#pragma once

#include "decision/analysis/incident_book.h"
#include "decision/analysis/iterations.h"
#include "decision/analysis/watch.h"

namespace ccld::decision {

void describe_stages(IncidentBook&, const Watches&, const IterationAnalysis&, const Settings&);

}  // namespace ccld::decision
