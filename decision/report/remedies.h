// What to do about a culprit: commands to copy, each for a host, and a sentence.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "decision/model/verdict.h"

namespace ccld::decision::report {

struct Command {
  std::string host;  // where to run it; empty: not known
  std::string text;
};

// Of the culprits with the greatest shares, each command once; at most commands_max.
constexpr size_t commands_max = 3;
std::vector<Command> commands_for(const Incident&);
// "If it was stopped on purpose: kill -CONT 31227. ..."; empty: the incident's next_step says enough.
std::string advice_for(const Incident&);

}  // namespace ccld::decision::report
