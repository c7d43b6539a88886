// From rows to the service's verdicts: which GPU, network device or link it is, one incident for each.
//
// Contract
//   A slow connection between hosts is its sender's network device if that is slow to other hosts too, its receiver's
//   if that is slow from other hosts too, and the link itself if neither is. Where no third host could tell, it is the
//   link, and the reason says so.
// Threads: any; pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "decision/model/verdict.h"
#include "decision/validate/judge.h"

namespace ccld::decision::validate {

// Links between hosts that are suspect: what cross_passes() (schedule.h) is asked for.
std::vector<std::pair<int, int>> slow_between_hosts(const std::vector<Row>&, const std::vector<Member>&);

// `hung`: links over which nothing arrived within the timeout, as (sender, receiver).
std::vector<Incident> verdicts(const std::vector<Row>&, const std::vector<std::pair<int, int>>& hung,
                               const std::vector<Member>&, const std::string& job, Nanoseconds now_ns);

}  // namespace ccld::decision::validate
