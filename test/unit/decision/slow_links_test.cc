#include "decision/measure/slow_links.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <iterator>

namespace ccld::decision {
namespace {

// A connection between two hosts whose clocks differ by an hour: without a healthy past nothing over two clocks counts.
struct Between {
  Edge edge;
  double posted_to_handed = 0.1, handed_to_sent = 0.1, awaited_to_arrived = 0.1;  // ms
  double steps = 64;
};

Links links_of(const std::vector<Between>& all) {
  constexpr double apart = 3600e9;
  Links links;
  for (const Between& b : all) {
    EdgeIntervals i;
    const auto set = [&](Interval which, double ns) {
      i.ns[static_cast<size_t>(which)] = ns;
      i.known[static_cast<size_t>(which)] = true;
    };
    set(Interval::posted_to_handed, b.posted_to_handed * 1e6);
    set(Interval::handed_to_sent, b.handed_to_sent * 1e6);
    set(Interval::awaited_to_arrived, b.awaited_to_arrived * 1e6);
    set(Interval::awaited_to_handed, apart);
    set(Interval::awaited_to_sent, apart);
    set(Interval::sent_to_arrived, apart);
    i.steps = b.steps;
    i.net_device = 0;
    links.emplace_back(b.edge, i);
  }
  return links;
}

// Begins of ranks whose launches nobody knows.
std::vector<RankBegin> begun(const std::vector<double>& at_ns) {
  std::vector<RankBegin> out;
  for (double ns : at_ns) out.push_back({ns, NAN});
  return out;
}

double waited_ms(const Links& links, const Edge& edge, Stage stage, const std::vector<RankBegin>& begins = {},
                 const absl::flat_hash_map<Edge, EdgeBaseline>& healthy = {}) {
  SlowWindow w;
  add_waits(links, healthy, 2, begins, w);
  const EdgeLoss& loss = w.edges.at(edge);
  return loss.waited_ns[static_cast<size_t>(stage)] / loss.steps / 1e6;
}

constexpr Edge slow{0, 1, 0}, next{1, 2, 0}, last{2, 3, 0}, back{3, 0, 0};

}  // namespace

TEST_CASE("A sender's proxy is not blamed for steps that its receiver did not await") {
  // Rank 0 delays. The others have what they sent, and rank 3 cannot send more because rank 0 awaits nothing.
  const Links links = links_of({{slow, 40, 0.1, 40}, {next, 0.1, 0.1, 40}, {last, 0.1, 0.1, 40}, {back, 40, 0.1, 0.1}});
  CHECK(waited_ms(links, slow, Stage::sender_proxy) > 15);
  CHECK(waited_ms(links, back, Stage::sender_proxy) < 1);
}

TEST_CASE(
    "A wire is not blamed if the sender gets rid of its steps at once: its receiver is starved from further away") {
  const Links links =
      links_of({{slow, 0.1, 40, 40}, {next, 0.1, 0.1, 40}, {last, 0.1, 0.1, 0.1}, {back, 0.1, 0.1, 0.1}});
  CHECK(waited_ms(links, slow, Stage::wire) > 15);
  CHECK(waited_ms(links, next, Stage::wire) < 1);
}

TEST_CASE("What a sender's proxy has only because the receiver starts late is not its own doing") {
  // 8 of 64 steps wait for 320 ms until rank 1 starts: 40 ms for each step.
  const Links links = links_of({{slow, 40, 0.1, 40}, {next, 0.1, 0.1, 40}, {last, 0.1, 0.1, 40}, {back, 0.1, 0.1, 40}});
  CHECK(waited_ms(links, slow, Stage::sender_proxy, begun({0, 320e6, 0, 0})) < 1);
  CHECK(waited_ms(links, slow, Stage::sender_proxy, begun({0, 0, 320e6, 0})) > 30);
  // Not known when it started: nothing is discounted.
  CHECK(waited_ms(links, slow, Stage::sender_proxy, begun({0, NAN, 0, 0})) > 30);
}

TEST_CASE("Steps of the later half waited for no late start") {
  Links links = links_of({{slow, 40, 0.1, 40}, {next, 0.1, 0.1, 40}, {last, 0.1, 0.1, 40}, {back, 0.1, 0.1, 40}});
  const auto proxy_ms = [&](double first_step) {
    links[0].second.first_step = first_step;
    return waited_ms(links, slow, Stage::sender_proxy, begun({0, 320e6, 0, 0}));
  };
  CHECK(proxy_ms(0) < 1);
  CHECK(proxy_ms(4) == Approx(40 - 320 * 4 / 60.0 - 0.1).margin(0.1));  // four of the slots are left out
  CHECK(proxy_ms(32) == Approx(40 - 0.1).margin(0.1));
}

TEST_CASE("A late GPU that was launched in time keeps nothing waiting in the network before the slots of it are full") {
  Links links = links_of({{slow, 40, 0.1, 40}, {next, 0.1, 0.1, 40}, {last, 0.1, 0.1, 40}, {back, 0.1, 0.1, 40}});
  const auto proxy_ms = [&](double in_front_of_gpu_ms, double queued_ms) {
    EdgeIntervals& i = links[0].second;
    i.ns[static_cast<size_t>(Interval::given_to_consumed)] = in_front_of_gpu_ms * 1e6;
    i.known[static_cast<size_t>(Interval::given_to_consumed)] = true;
    return waited_ms(links, slow, Stage::sender_proxy, {{0, 0}, {320e6, queued_ms * 1e6}, {0, 0}, {0, 0}});
  };
  CHECK(proxy_ms(10, 320) > 30);  // two of eight slots: the proxy is slow
  CHECK(proxy_ms(40, 320) < 1);   // eight
  CHECK(proxy_ms(10, 0) < 1);     // launched late, so its receives were not posted either
}

TEST_CASE("What waits for a kernel that was kept in the operation before waits for no GPU") {
  // 8 of 64 steps wait for 320 ms until rank 1, which loses no time between operations, begins.
  Links links = links_of({{slow, 0.1, 0.1, 0.1}, {next, 0.1, 0.1, 0.1}, {last, 0.1, 0.1, 0.1}, {back, 0.1, 0.1, 0.1}});
  const auto set = [](EdgeIntervals& i, Interval which, double ns) {
    i.ns[static_cast<size_t>(which)] = ns;
    i.known[static_cast<size_t>(which)] = true;
  };
  for (auto& [edge, i] : links) set(i, Interval::given_to_consumed, edge == slow ? 40e6 : 0.1e6);
  const std::vector<RankBegin> together{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  CHECK(waited_ms(links, slow, Stage::receiver_gpu, together) > 30);
  const std::vector<RankBegin> kept{{0, 0, 0}, {0, 0, 320e6}, {0, 0, 320e6}, {0, 0, 320e6}};
  CHECK(waited_ms(links, slow, Stage::receiver_gpu, kept) < 1);
}

TEST_CASE("Receives are posted at the launch: how long before anything can come is no wait, and may change") {
  // Usually rank 1 launches 400 ms ahead: 8 of 64 steps are awaited for so long, 50 ms for each step.
  EdgeIntervals usual;
  usual.one_clock = true;
  usual.steps = 64;
  usual.net_device = 0;
  const auto set = [](EdgeIntervals& i, Interval which, double ms) {
    i.ns[static_cast<size_t>(which)] = ms * 1e6;
    i.known[static_cast<size_t>(which)] = true;
  };
  set(usual, Interval::posted_to_handed, 0.1);
  set(usual, Interval::awaited_to_handed, 50);
  absl::flat_hash_map<Edge, EdgeBaseline> healthy;
  for (int n = 0; n < 5; ++n) learn_waits(slow, usual, {{0, 0}, {0, 0}}, healthy[slow]);
  const auto proxy_ms = [&](double posted_ms, double awaited_ms, double queued_ms) {
    EdgeIntervals now = usual;
    set(now, Interval::posted_to_handed, posted_ms);
    set(now, Interval::awaited_to_handed, awaited_ms);
    return waited_ms({{slow, now}}, slow, Stage::sender_proxy, {{0, 0}, {0, queued_ms * 1e6}}, healthy);
  };
  CHECK(proxy_ms(40, 90, 0) > 35);     // as before, and the proxy delays
  CHECK(proxy_ms(40, 40, -400) > 35);  // it launches at the last moment, and the proxy delays
  CHECK(proxy_ms(40, 100, 400) < 1);   // it launches even earlier, and what the proxy has is not awaited
}

TEST_CASE("Around a circle of machines clocks cancel: a wire has no more than all of them together") {
  // Rank 0's proxy delays; who comes next is starved. No clock agrees with another.
  Links ring = links_of({{slow, 40, 0.1, 40}, {next, 0.1, 0.1, 40}, {last, 0.1, 0.1, 0.1}, {back, 0.1, 0.1, 0.1}});
  constexpr double clock_ns[] = {0, 7e9, -3e9, 2e9};
  const auto set_wires_ms = [&](double of_slow) {
    for (auto& [edge, i] : ring) {
      i.sender_machine = edge.sender;
      i.receiver_machine = edge.receiver;
      i.ns[static_cast<size_t>(Interval::sent_to_arrived)] =
          (edge == slow ? of_slow : 0.1) * 1e6 + clock_ns[edge.receiver] - clock_ns[edge.sender];
    }
  };
  set_wires_ms(0.1);
  CHECK(waited_ms(ring, slow, Stage::wire) < 1);
  CHECK(waited_ms(ring, slow, Stage::sender_proxy) > 15);
  set_wires_ms(60);
  CHECK(waited_ms(ring, slow, Stage::wire) > 15);

  // Clocks that have drifted apart since all was well look like slow wires; not around the circle.
  set_wires_ms(0.1);
  absl::flat_hash_map<Edge, EdgeBaseline> healthy;
  for (int n = 0; n < 5; ++n)
    for (const auto& [edge, i] : ring) {
      EdgeIntervals earlier = i;
      std::fill(std::begin(earlier.ns), std::end(earlier.ns), 0.1e6);
      earlier.ns[static_cast<size_t>(Interval::sent_to_arrived)] =
          i.ns[static_cast<size_t>(Interval::sent_to_arrived)] + (edge == next   ? -20e6
                                                                  : edge == last ? 20e6
                                                                                 : 0);
      learn_waits(edge, earlier, {}, healthy[edge]);
    }
  CHECK(waited_ms(ring, next, Stage::wire, {}, healthy) < 1);
}

TEST_CASE("What lay on a wire until its receiver started is set apart, unless the sender could not get rid of it") {
  Links links = links_of({{slow, 0.1, 0.1, 40}, {next, 0.1, 0.1, 0.1}});
  links[0].second.one_clock = links[1].second.one_clock = true;
  links[0].second.ns[static_cast<size_t>(Interval::sent_to_arrived)] = 30e6;
  links[1].second.ns[static_cast<size_t>(Interval::sent_to_arrived)] = 0.1e6;
  const auto late_ms = [&](double later_ms) {
    SlowWindow w;
    add_waits(links, {}, 2, begun({0, later_ms * 1e6, later_ms * 1e6}), w);
    return w.edges.at(slow).unsure_wire_ns / w.edges.at(slow).steps / 1e6;
  };
  CHECK(late_ms(0) == 0);
  CHECK(late_ms(100) > 10);
  links[0].second.ns[static_cast<size_t>(Interval::posted_to_handed)] = 60e6;
  CHECK(late_ms(100) < 1);
}

TEST_CASE("Clocks that have drifted make a wire seem faster, and another one slower: as much of that is not sure") {
  Links links = links_of({{slow, 0.1, 0.1, 60}, {next, 0.1, 0.1, 60}});
  const auto sent = static_cast<size_t>(Interval::sent_to_arrived);
  absl::flat_hash_map<Edge, EdgeBaseline> healthy;
  for (auto& [edge, i] : links)
    for (int n = 0; n < 5; ++n) {
      i.ns[sent] = 7e6;  // with the difference of the clocks
      EdgeIntervals earlier = i;
      earlier.ns[static_cast<size_t>(Interval::awaited_to_arrived)] = 0.1e6;
      learn_waits(edge, earlier, {}, healthy[edge]);
    }
  links[0].second.ns[sent] = 27e6;
  const auto unsure_ms = [&] {
    SlowWindow w;
    add_waits(links, healthy, 2, begun({0, 0, 0}), w);
    return w.edges.at(slow).unsure_wire_ns / w.edges.at(slow).steps / 1e6;
  };
  CHECK(unsure_ms() < 1);
  links[1].second.ns[sent] = 3e6;
  CHECK(unsure_ms() == Approx(4).margin(0.5));
  links[0].second.ns[static_cast<size_t>(Interval::posted_to_handed)] = 60e6;  // it cannot get rid of its steps
  CHECK(unsure_ms() < 1);
}

}  // namespace ccld::decision
