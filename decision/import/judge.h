// Verdicts on a job by its Flight Recorder dumps. (Paper, section 4.2.2: H1, H2 and H3 as far as calls alone tell
// them.)
//
// Rules
//   H2  calls of one number differ: the minority is named, with or without a hang. Hangs of that group that come later
//   are
//       part of it.
//   H1  ranks wait in a call that others did not make: these are named, except those that wait elsewhere themselves.
//   One
//       incident for the end of a chain of such waits; a chain without an end is a circle.
//   H3  everybody is in a call and it does not end: only suspected, since no counts of channels tell where it stands.
// Confidence says how much of this the dumps prove: README.md.
// Pure. Threads: any.
#pragma once

#include "decision/import/findings.h"
#include "decision/import/job.h"
#include "decision/import/thresholds.h"

namespace ccld::decision::dumps {

Findings judge(const Job&, const Thresholds& = {});

}  // namespace ccld::decision::dumps
