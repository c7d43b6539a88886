#include "decision/measure/passage.h"

#include <catch2/catch.hpp>
#include <map>

namespace ccld::decision {
namespace {

constexpr double ms = 1e6;
constexpr Later together{0, 0, 0, true};

// Steps of a connection, with the milliseconds of what is not 0.1.
EdgeIntervals steps(std::map<Interval, double> longer_ms, double count = 64, double first_step = 0) {
  EdgeIntervals i;
  for (size_t which = 0; which < interval_count; ++which) {
    const auto it = longer_ms.find(static_cast<Interval>(which));
    i.ns[which] = (it == longer_ms.end() ? 0.1 : it->second) * ms;
    i.known[which] = true;
  }
  i.wire_at_least_ns = i.ns[static_cast<size_t>(Interval::sent_to_arrived)];
  i.steps = count, i.first_step = first_step;
  i.net_device = 0;
  return i;
}

double mean_ms(const EdgeIntervals& i, const Later& later, PassagePart part) {
  Passage p;
  p.add(i, later);
  return p.ns[part] / p.steps / ms;
}

}  // namespace

TEST_CASE("A sender's proxy is not blamed for steps that its receiver did not await") {
  CHECK(mean_ms(steps({{Interval::posted_to_handed, 20}}), together, to_hand_on) == Approx(0.1));
  const EdgeIntervals awaited =
      steps({{Interval::posted_to_handed, 20}, {Interval::awaited_to_handed, 20}, {Interval::awaited_to_arrived, 20}});
  CHECK(mean_ms(awaited, together, to_hand_on) == Approx(20));
}

TEST_CASE("By two clocks the receiver's own says what was awaited, and the sender's what it could not get rid of") {
  EdgeIntervals i = steps({{Interval::sent_to_arrived, 3600e3}, {Interval::awaited_to_arrived, 30}});
  i.two_clocks = true, i.wire_at_least_ns = 0;
  CHECK(mean_ms(i, together, on_the_wire) == Approx(0.2));  // posted_to_handed and handed_to_sent
  i.wire_at_least_ns = 20 * ms;
  CHECK(mean_ms(i, together, on_the_wire) == Approx(20));
  i.ns[static_cast<size_t>(Interval::posted_to_handed)] = 50 * ms;
  CHECK(mean_ms(i, together, on_the_wire) == Approx(30));
  i.wire_at_least_ns = 0, i.ns[static_cast<size_t>(Interval::sent_to_arrived)] = 5 * ms;
  CHECK(mean_ms(i, together, on_the_wire) == Approx(5));
}

TEST_CASE("What was awaited before the sender began was not under way") {
  const EdgeIntervals i = steps({{Interval::handed_to_sent, 5},
                                 {Interval::awaited_to_sent, 10},
                                 {Interval::sent_to_arrived, 12},
                                 {Interval::awaited_to_arrived, 10}});
  CHECK(mean_ms(i, together, to_be_sent) == Approx(5));
  CHECK(mean_ms(i, together, on_the_wire) == Approx(10));
  const Later ahead{0, -64 * ms, 0, true};  // eight of 64 steps have had a receive for so long
  CHECK(mean_ms(i, ahead, to_be_sent) == Approx(2));
  CHECK(mean_ms(i, ahead, on_the_wire) == Approx(2));
}

TEST_CASE("What waits until the last rank has begun is no proxy's doing") {
  const EdgeIntervals i = steps({{Interval::posted_to_handed, 2},
                                 {Interval::awaited_to_handed, 2},
                                 {Interval::awaited_to_arrived, 2},
                                 {Interval::given_to_consumed, 3}});
  CHECK(mean_ms(i, {0, 0, 16 * ms, true}, to_hand_on) == 0);  // eight of 64 steps can have been posted until then
  CHECK(mean_ms(i, {0, 0, 8 * ms, true}, to_hand_on) == Approx(1));
}

TEST_CASE("A proxy whose receiver has room waits for no late rank") {
  EdgeIntervals i =
      steps({{Interval::posted_to_handed, 2}, {Interval::awaited_to_handed, 2}, {Interval::awaited_to_arrived, 2}});
  CHECK(mean_ms(i, {0, 0, 16 * ms, true}, to_hand_on) == Approx(2 - 0.4));  // 0.1 in each of the other parts
  i.known[static_cast<size_t>(Interval::awaited_to_handed)] = false;
  CHECK(mean_ms(i, {0, 16 * ms, 16 * ms}, to_hand_on) == 0);  // it may have posted no receive
}

TEST_CASE("Steps of the later half waited for no late rank") {
  const EdgeIntervals i = steps(
      {{Interval::posted_to_handed, 2}, {Interval::awaited_to_handed, 2}, {Interval::awaited_to_arrived, 2}}, 64, 32);
  CHECK(mean_ms(i, {0, 0, 16 * ms, true}, to_hand_on) == Approx(2));
}

TEST_CASE("What waits for a kernel that has not begun waits for no GPU") {
  const EdgeIntervals i = steps({{Interval::given_to_consumed, 4}});
  CHECK(mean_ms(i, together, to_be_taken) == Approx(4));
  CHECK(mean_ms(i, {16 * ms, 0, 16 * ms, true}, to_be_taken) == Approx(2));
}

TEST_CASE("A GPU that does not take steps before the last rank has begun may wait for that rank") {
  const EdgeIntervals i = steps({{Interval::given_to_consumed, 2}});
  CHECK(mean_ms(i, {0, 0, 16 * ms, true}, to_be_taken) == 0);  // eight of 64 steps can have been given until then
  CHECK(mean_ms(i, {0, 0, 8 * ms, true}, to_be_taken) == Approx(1));
}

TEST_CASE("Within a node steps wait for the receiver's GPU only") {
  EdgeIntervals i = steps({{Interval::posted_to_consumed, 7}});
  i.net_device = -1;
  CHECK(mean_ms(i, together, to_be_taken) == Approx(7));
  for (PassagePart part : {to_hand_on, to_be_sent, on_the_wire, to_be_given}) CHECK(mean_ms(i, together, part) == 0);
}

TEST_CASE("Time of a step is the mean over operations, and steps that wait are those of a channel") {
  StepTimes times;
  for (double wire_ms : {10.0, 20.0}) {
    Passage p;
    for (int channel = 0; channel < 2; ++channel)
      p.add(steps({{Interval::sent_to_arrived, wire_ms}, {Interval::awaited_to_arrived, wire_ms}}), together);
    times.add(p, 640 * ms);
  }
  CHECK(times.operations() == 2);
  CHECK(times.mean_ns(on_the_wire) == Approx(15 * ms));
  CHECK(times.waiting(15 * ms) == Approx(1.5));  // 64 steps of 15 ms in 640 ms
  CHECK(times.given_after_ns() == Approx(15.3 * ms));
  CHECK(times.given_after_error_ns() == Approx(5 / std::sqrt(2.0) * ms));
}

TEST_CASE("Only a proxy lets steps wait to be handed on or to be given") {
  const auto whose = [](double hand_on, double sent, double wire, double given, double receiver_sends = 0) {
    const double beyond_ns[passage_parts] = {hand_on, sent, wire, given};
    return whose_part(beyond_ns, receiver_sends, 0.15);
  };
  CHECK(whose(0.1, 0.2, 10, 0.1) == WhosePart::wire);
  CHECK(whose(0.1, 10, 0.2, 0.1) == WhosePart::device);
  CHECK(whose(5, 5, 5, 0) == WhosePart::senders_proxy);
  CHECK(whose(0, 1, 5, 5) == WhosePart::receivers_proxy);
  CHECK(whose(0, 1, 5, 0, 5) == WhosePart::receivers_proxy);  // it also hands on late what its own GPU sends
}

}  // namespace ccld::decision
