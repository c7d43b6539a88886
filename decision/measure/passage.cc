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
  const double posted_ns = known_ns(i, Interval::posted_to_handed),
               awaited_ns = known_ns(i, Interval::awaited_to_arrived);
  const bool bounded = later.posts_at_launch && i.known[static_cast<size_t>(Interval::awaited_to_arrived)];
  const double handed_ns = known_ns(i, Interval::handed_to_sent);
  const double sent_ns =
      !bounded ? handed_ns : std::min(handed_ns, i.one_clock ? known_ns(i, Interval::awaited_to_sent) : awaited_ns);
  const double wire_ns = i.one_clock ? std::min(known_ns(i, Interval::sent_to_arrived), bounded ? awaited_ns : INFINITY)
                                     : std::min({awaited_ns, posted_ns + handed_ns, around_ns});
  const double proxy_ns = std::min(posted_ns, i.one_clock ? known_ns(i, Interval::awaited_to_handed) : awaited_ns);
  steps += i.steps;
  ns[to_hand_on] += i.steps * std::max(0.0, proxy_ns - waited_ns);
  ns[to_be_sent] += i.steps * std::max(0.0, sent_ns - posted_late_ns);
  ns[on_the_wire] += i.steps * std::max(0.0, wire_ns - (bounded ? 0 : posted_late_ns));
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

void StepTimes::add(const Passage& p, double operation_ns) {
  ++operations_;
  steps_ += p.steps, operations_ns_ += operation_ns;
  sender_away_ns_ += p.sender_away_ns, receiver_away_ns_ += p.receiver_away_ns;
  double given_after_ns = 0;
  for (size_t part = 0; part < passage_parts; ++part) {
    sums_ns_[part] += p.ns[part] / p.steps;
    if (part < to_be_taken) given_after_ns += p.ns[part] / p.steps;
  }
  given_after_ns_ += given_after_ns, given_after_squares_ += given_after_ns * given_after_ns;
}

double StepTimes::mean_ns(size_t part) const { return sums_ns_[part] / static_cast<double>(operations_); }

double StepTimes::given_after_error_ns() const {
  const auto n = static_cast<double>(operations_);
  const double mean = given_after_ns();
  return std::sqrt(std::max(0.0, given_after_squares_ / n - mean * mean) / n);
}

WhosePart whose_part(const double (&beyond_ns)[passage_parts], double receiver_sends_ns, double proxy_part_min) {
  const double under_way_ns = beyond_ns[to_be_sent] + beyond_ns[on_the_wire],
               behind_ns = under_way_ns + beyond_ns[to_be_given], sender_ns = beyond_ns[to_hand_on],
               receiver_ns = beyond_ns[to_be_given] + receiver_sends_ns;
  if (sender_ns >= proxy_part_min * (sender_ns + behind_ns) && sender_ns >= receiver_ns)
    return WhosePart::senders_proxy;
  if (receiver_ns >= proxy_part_min * (receiver_ns + under_way_ns)) return WhosePart::receivers_proxy;
  return beyond_ns[to_be_sent] > beyond_ns[on_the_wire] ? WhosePart::device : WhosePart::wire;
}

}  // namespace ccld::decision
