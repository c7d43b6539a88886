// What one import has found, whichever format it was: incidents in the words of the service, and what the data cannot
// show. Plain data.
#pragma once

#include <string>
#include <vector>

#include "decision/model/verdict.h"

namespace ccld::decision::dumps {

struct Findings {
  const char* source = "";          // "flight-recorder": as --format names it
  std::vector<Incident> incidents;  // the oldest first, numbered from 1
  std::vector<std::string> notes;   // of the files and of what is not a verdict
  std::vector<std::string> not_shown;
  std::string summary;        // "4 dumps, 2 groups, 120 calls"
  Nanoseconds newest_ns = 0;  // of the calendar; 0: the data have no times
};

}  // namespace ccld::decision::dumps
