// The stages that both ends of a connection reported of one operation or transfer, matched.
// (Paper, section 4.2.2: S2; in place of SendRate and RecvRate, which are equal everywhere.)
//
// Contract: pure. Times in nanoseconds. What is by the clocks of two machines is not known until machine_clocks.h says
// how these differ.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "decision/measure/edges.h"
#include "decision/model/events.h"
#include "schemas/wire/link_steps.h"

namespace ccld::decision {

constexpr double slots = wire::slots;  // steps that an end may be ahead of the other

struct EdgeIntervals {
  double ns[interval_count];  // NaN: was not reported
  bool known[interval_count] = {};
  bool two_clocks = false;                         // of its ends: their difference is in what both measured
  double wire_at_least_ns = 0;                     // of what sent_to_arrived is at most
  int sender_machine = -1, receiver_machine = -1;  // -1: not known
  double sender_away_part = 0,
         receiver_away_part = 0;  // of the round, in which the proxies did not poll their connections
  double round_ns = 0;
  double sent_realtime_ns = 0;  // of its steps on average, by the sender's clock
  double steps = 0;
  double first_step = 0;   // the means leave out the steps before
  bool same_steps = true;  // both means are of the same ones; a probe may not have looked until the end
  int net_device = -1;
};
using Links = std::vector<std::pair<Edge, EdgeIntervals>>;

using LinkRows = std::vector<std::pair<Rank, LinkStages>>;  // and who reported them

// `round_ns`: how long it took; 0: not known. `machine`: number of a rank's machine; -1: not known.
Links match_links(const LinkRows&, double round_ns, absl::FunctionRef<int(Rank)> machine);

// Until the other end begins, at most all slots wait: of the mean over the steps so much.
double of_mean_ns(const EdgeIntervals&, double ns);

}  // namespace ccld::decision
