#include "decision/measure/passage.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {
namespace {

double known_ns(const EdgeIntervals& i, Interval which) {
  const auto n = static_cast<size_t>(which);
  return i.known[n] ? std::max(0.0, i.ns[n]) : 0;
}

double at_most_ns(const EdgeIntervals& i, Interval which) {
  return i.known[static_cast<size_t>(which)] ? known_ns(i, which) : INFINITY;
}

}  // namespace

// Nobody delays what nobody awaits, and behind a slow wire the sender cannot get rid of its steps: that bounds what
// includes the difference of two clocks. What waits until the receiver begins is not the network's.
void Passage::add(const EdgeIntervals& i, const Later& later) {
  const auto until = [&](double ns) { return of_mean_ns(i, std::max(0.0, ns)); };
  const double late_ns = until(later.begun_ns), posted_late_ns = until(later.posted_ns),
               waited_ns = until(later.all_begun_ns);
  ++channels;
  steps += i.steps;
  network |= i.net_device >= 0;
  const auto add = [&](PassagePart part, double at_most_ns, double explained_ns) {
    most_ns[part] += i.steps * at_most_ns;
    ns[part] += i.steps * std::max(0.0, at_most_ns - explained_ns);
  };
  if (i.net_device < 0) {
    add(to_be_taken, known_ns(i, Interval::posted_to_consumed), late_ns);
    return;
  }
  // A receive that is posted before the sender begins is awaited from the sender's begin on.
  const auto awaited_to = [&](Interval which) {
    return std::max(0.0, at_most_ns(i, which) - (later.posts_at_launch ? until(-later.posted_ns) : 0));
  };
  const double posted_ns = known_ns(i, Interval::posted_to_handed), handed_ns = known_ns(i, Interval::handed_to_sent),
               awaited_ns = awaited_to(Interval::awaited_to_arrived);
  const bool bounded = later.posts_at_launch && std::isfinite(awaited_ns);
  const double sent_ns = bounded ? std::min({handed_ns, awaited_to(Interval::awaited_to_sent), awaited_ns}) : handed_ns;
  double wire_ns = at_most_ns(i, Interval::sent_to_arrived);
  if (i.two_clocks) wire_ns = std::max(i.wire_at_least_ns, std::min({wire_ns, awaited_ns, posted_ns + handed_ns}));
  if (bounded) wire_ns = std::min(wire_ns, awaited_ns);
  if (std::isinf(wire_ns)) wire_ns = 0;
  // Not from the sender's begin on: a proxy that is slow also posts its own receives later than at the launch.
  const double handed_late_ns = at_most_ns(i, Interval::awaited_to_handed),
               proxy_ns = std::min({posted_ns, handed_late_ns, at_most_ns(i, Interval::awaited_to_arrived)});
  const double given_ns = known_ns(i, Interval::arrived_to_given), taken_ns = known_ns(i, Interval::given_to_consumed);
  // A proxy waits for a late rank where the receiver has no room: then the steps before these wait further on. Or it
  // has posted no receives yet; where it is known since when they were awaited, that is not in proxy_ns.
  const double unposted_ns = std::isfinite(handed_late_ns) ? 0 : posted_late_ns;
  add(to_hand_on, proxy_ns, std::min(waited_ns, unposted_ns + sent_ns + wire_ns + given_ns + taken_ns));
  add(to_be_sent, sent_ns, bounded ? 0 : posted_late_ns);
  add(on_the_wire, wire_ns, bounded ? 0 : posted_late_ns);
  add(to_be_given, given_ns, until(later.all_begun_ns - later.begun_ns));
  // The receiver's GPU may wait for what a rank has to give that has not begun.
  add(to_be_taken, taken_ns, std::max(late_ns, waited_ns));
  round_ns = i.round_ns;
  sender_away_ns = std::max(sender_away_ns, i.sender_away_part * i.round_ns);
  receiver_away_ns = std::max(receiver_away_ns, i.receiver_away_part * i.round_ns);
}

void StepTimes::add(const Passage& p, double operation_ns) {
  ++operations_;
  steps_ += p.steps / p.channels, operations_ns_ += operation_ns;
  rounds_ns_ += p.round_ns;
  sender_away_ns_ += p.sender_away_ns, receiver_away_ns_ += p.receiver_away_ns;
  double given_after_ns = 0;
  for (size_t part = 0; part < passage_parts; ++part) {
    sums_ns_[part] += p.ns[part] / p.steps, most_sums_ns_[part] += p.most_ns[part] / p.steps;
    if (part < to_be_taken) given_after_ns += p.ns[part] / p.steps;
  }
  taken_squares_ += p.ns[to_be_taken] / p.steps * (p.ns[to_be_taken] / p.steps);
  given_after_ns_ += given_after_ns, given_after_squares_ += given_after_ns * given_after_ns;
}

double StepTimes::error_ns(double sum_ns, double squares) const {
  const auto n = static_cast<double>(operations_);
  return std::sqrt(std::max(0.0, squares / n - sum_ns / n * (sum_ns / n)) / n);
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
