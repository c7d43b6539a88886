// Where the steps of a round sat on their way between two GPUs: the stages that both ends of a connection reported,
// matched. (Paper, section 4.2.2: S2; in place of SendRate and RecvRate, which are equal everywhere.)
//
// Contract: pure. Times in nanoseconds; an interval over two hosts contains the difference of their clocks.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "decision/measure/slow_window.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

struct EdgeIntervals {
  double ns[interval_count];
  bool known[interval_count] = {};
  bool one_clock = false;                               // both ends on one machine
  int sender_machine = -1, receiver_machine = -1;       // numbers of this round
  double sender_away_part = 0, receiver_away_part = 0;  // of the round, in which the proxies did not look at their work
  double round_ns = 0;
  double steps = 0;
  double first_step = 0;  // the means leave out the steps before
  int net_device = -1;
};
using Links = std::vector<std::pair<Edge, EdgeIntervals>>;

using LinkRows = std::vector<std::pair<Rank, LinkStages>>;  // and who reported them

// `round_ns`: how long it took; 0: not known. `machine`: number of a rank's machine; -1: not known.
Links match_links(const LinkRows&, double round_ns, absl::FunctionRef<int(Rank)> machine);

// Until the other end begins, at most all slots wait: of the mean over the steps so much.
double of_mean_ns(const EdgeIntervals&, double ns);

// When a rank's kernel began. NaN: not known.
struct RankBegin {
  double at_ns = NAN;      // after its previous operation; only differences between ranks mean something
  double queued_ns = NAN;  // by how much longer than usual it had been launched by then
  double begun_ns = NAN;   // likewise, with what it was kept longer in the previous operation than others
};

// A healthy round. (At the usual launches: see add_waits().)
void learn_waits(const Edge&, const EdgeIntervals&, const std::vector<RankBegin>& begins, EdgeBaseline& healthy);

// How long steps waited in each stage beyond what is healthy, into `window`. What has no healthy past is compared with
// the other edges of the round. What an end waited only because the other one had not begun is no wait of the
// network's.
void add_waits(const Links&, const absl::flat_hash_map<Edge, EdgeBaseline>& healthy, double spread_factor,
               const std::vector<RankBegin>& begins, SlowWindow& window);

}  // namespace ccld::decision
