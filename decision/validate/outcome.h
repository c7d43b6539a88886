// What a validation found out, and how it is told: a table and lines for people, a document for programs, an exit
// status. Threads: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "decision/report/verdict_json.h"
#include "decision/validate/judge.h"

namespace ccld::decision::validate {

constexpr int exit_healthy = 0;
constexpr int exit_suspect = 1;
constexpr int exit_usage = 2;
constexpr int exit_not_measured = 3;

struct Outcome {
  std::vector<Member> members;
  std::vector<Row> rows;
  std::vector<std::pair<int, int>> hung;  // links over which nothing arrived
  std::vector<Incident> incidents;
  size_t ring_and_tree_passes = 0, extra_passes = 0;
  bool own_orders = false;  // rings and trees are NCCL's own
  double held_s = 0;        // in a running job: for how long it held; 0: alone
  std::string failure;      // why it ended early, one line; empty: it did not
  Nanoseconds now_ns = 0;   // of the calendar
};

// Suspects win over what could not be measured: they are facts. One row that was not measured is not yet a healthy
// machine.
int exit_status(const Outcome&);
// {"schema", "time", "verdict", "failure", "held_s", "members", "passes", "rows", "incidents": verdicts as everywhere
// with "source" added}
report::Json outcome_json(const Outcome&);
// `all`: every row, else those that are not healthy and one line for each check.
std::string outcome_text(const Outcome&, bool all);

}  // namespace ccld::decision::validate
