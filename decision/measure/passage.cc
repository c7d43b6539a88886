#include "decision/measure/passage.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {
namespace {

double known_ns(const EdgeIntervals& i, Interval which) {
  const auto n = static_cast<size_t>(which);
  return i.known[n] ? std::max(0.0, i.ns[n]) : 0;
}

}  // namespace

// Nobody delays what nobody awaits, behind a slow wire the sender cannot get rid of its steps, and around a circle of
// machines their clocks cancel: that bounds what includes the difference of two clocks. What waits until the
// receiver begins is not the network's.
void Passage::add(const EdgeIntervals& i, double around_ns, const Later& later) {
  const auto until = [&](double ns) { return of_mean_ns(i, std::max(0.0, ns)); };
  const double late_ns = until(later.begun_ns), posted_late_ns = until(later.posted_ns),
               waited_ns = until(later.all_begun_ns);
  const double posted_ns = known_ns(i, Interval::posted_to_handed), sent_ns = known_ns(i, Interval::handed_to_sent),
               awaited_ns = known_ns(i, Interval::awaited_to_arrived);
  // A Recv posts its receives when its kernel begins: of it `later` says all, and there is no circle.
  const bool bounded = std::isfinite(around_ns) && i.known[static_cast<size_t>(Interval::awaited_to_arrived)];
  const double wire_ns = i.one_clock ? std::min(known_ns(i, Interval::sent_to_arrived), bounded ? awaited_ns : INFINITY)
                                     : std::min({awaited_ns, posted_ns + sent_ns, around_ns});
  const double proxy_ns = std::min(posted_ns, i.one_clock ? known_ns(i, Interval::awaited_to_handed) : awaited_ns);
  steps += i.steps;
  ns[to_hand_on] += i.steps * std::max(0.0, proxy_ns - waited_ns);
  ns[to_be_sent] += i.steps * std::max(0.0, sent_ns - posted_late_ns);
  ns[on_the_wire] += i.steps * std::max(0.0, wire_ns - posted_late_ns);
  ns[to_be_given] +=
      i.steps * std::max(0.0, known_ns(i, Interval::arrived_to_given) - until(later.all_begun_ns - later.begun_ns));
  ns[to_be_taken] += i.steps * std::max(0.0, known_ns(i, Interval::given_to_consumed) - late_ns);
  sender_away_ns += i.sender_away_part * i.round_ns;
  receiver_away_ns += i.receiver_away_part * i.round_ns;
}

void Passage::add(const Passage& other) {
  steps += other.steps;
  for (size_t part = 0; part < passage_parts; ++part) ns[part] += other.ns[part];
  sender_away_ns += other.sender_away_ns;
  receiver_away_ns += other.receiver_away_ns;
}

}  // namespace ccld::decision
