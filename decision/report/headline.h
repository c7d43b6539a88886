// An incident in one line, from its culprits and what is wrong with them: "process of rank 2 is stopped". The one place
// that makes such words.
// Threads: any.
#pragma once

#include <string>

#include "decision/model/verdict.h"

namespace ccld::decision::report {

// "HANG", "SLOW", "MISMATCH": what the engineer sees of it.
const char* kind_text(FaultClass);
// Where nobody is named: what it is about ("communicator initialization does not end"), or who is left.
std::string headline(const Incident&);
// The part of it that is about one culprit: "link rank 3 -> rank 4 is slow".
std::string headline(const Culprit&, const Incident&);
// "AllReduce #278"; "Send or Recv" where there is no operation number.
std::string call_text(const Incident&);

}  // namespace ccld::decision::report
