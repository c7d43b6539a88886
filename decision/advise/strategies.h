// What can be done about an incident, what an iteration takes then, what that costs and when it pays. (Greyhound,
// section 5.)
//
// When: the ski-rental rule. How long an incident lasts nobody knows; who acts when the time that it has cost so far
// equals what the action costs never loses more than twice what was best. A hang does not end by waiting: it pays to
// act when it is sure.
//
// Contract: pure. What is not known is said in `why_not`, never guessed; nobody is named whom the facts do not name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decision/advise/facts.h"

namespace ccld::decision::advise {

enum class Action { wait, micro_batches, placement, restart };
constexpr size_t actions = 4;
const char* name(Action);  // "micro_batches"

// How far off a prediction may be, as a part of it, beyond what is not known of the job. Chosen, not measured;
// README.md has what recorded jobs show.
constexpr double model_error = 0.1;

struct Range {
  double low = 0, expected = 0, high = 0;
};

// Equal numbers of micro-batches for these replicas, ascending.
struct Share {
  uint64_t count = 0;
  std::vector<uint64_t> replicas;
};

struct Strategy {
  Action action = Action::wait;
  std::string why_not;              // empty: it is possible and helps
  std::string only_if;              // what it depends on; empty: nothing
  std::optional<Range> time;        // what is timed then takes; none: not known
  double cost = 0;                  // time that the job loses once
  bool cost_is_least = false;       // a part of it is not known
  std::optional<double> due_after;  // since the onset; none: never, or not before the incident is confirmed
  std::vector<Share> shares;        // micro_batches: the largest count first
  uint64_t equal_share = 0;         // what each replica has now
  std::vector<std::pair<uint64_t, uint64_t>>
      exchanges;                   // placement: of all processes of the tensor groups of these processes
  std::vector<std::string> hosts;  // restart: without them; empty: hosts need not change
  bool either_host = false;        // one of them will do
  bool possible() const { return why_not.empty(); }
};

struct Advice {
  double loss_share = 0;  // of the time that passes, 0..1
  bool loss_known = false;
  std::vector<Strategy> strategies;  // all four, the cheapest first
};

Advice advise(const Facts&, const Known&);

}  // namespace ccld::decision::advise
