#include "probe/agent/finished_rounds.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <set>

namespace ccld::probe {
namespace {

constexpr Instant now{1, 1};

std::vector<LinkTrack> connections(uint16_t count) {
  std::vector<LinkTrack> links(count);
  for (uint16_t i = 0; i < count; ++i) {
    links[i].channel = i;
    links[i].gpu.reached(0, 4, steps_unlimited, 1);
  }
  return links;
}

// The operations of which links are told if those from `first` to `last` are sent together. `longest`: takes ten times
// as long, and has so many steps.
std::set<uint64_t> told(uint64_t first, uint64_t last, uint32_t samples, uint16_t links, uint64_t longest = 0,
                        uint32_t its_steps = 40) {
  FinishedRounds finished(7, 0, true);
  for (uint64_t op = first; op <= last; ++op) {
    FinishedRound round{};
    round.samples = op == longest ? 10 * samples : samples;
    round.send_steps = op == longest ? its_steps : 4;
    finished.add(op, abi::OpRecord{}, round, connections(links), now);
  }
  const RoundsMessage m = finished.take_rounds(now, true);
  CHECK(m.rounds.size() == last - first + 1);
  std::set<uint64_t> out;
  for (const auto& link : m.links) out.insert(link.op_seq());
  return out;
}

TEST_CASE("where not all links can be told, both ends choose the same rounds") {
  // One rank sends every 40 rounds, the other begins elsewhere.
  std::set<uint64_t> here, there;
  for (uint64_t first = 1; first < 2000; first += 40) {
    here.merge(told(first, first + 39, 2, 32));
    there.merge(told(first + 13, first + 52, 2, 32));
  }
  std::set<uint64_t> both;
  std::set_intersection(here.begin(), here.end(), there.begin(), there.end(), std::inserter(both, both.begin()));
  CHECK(here.size() == 50 * links_per_message_max / 32);
  CHECK(2 * both.size() > here.size());  // by chance it would be a fifth
  // Whatever an iteration's length, each of its operations is told sometimes.
  for (uint64_t iteration : {4, 8, 12, 16}) {
    std::set<uint64_t> places;
    for (uint64_t op : both) places.insert(op % iteration);
    CHECK(places.size() == iteration);
  }
}

TEST_CASE("links of the longest kind are told first, and of one round however many") {
  CHECK(told(1, 40, 2, 32, 23).count(23) == 1);
  CHECK(told(1, 40, 2, links_per_message_max, 23) == std::set<uint64_t>{23});
  CHECK(told(1, 2, 2, links_per_message_max + 1, 2) == std::set<uint64_t>{2});
}

TEST_CASE("a round that takes longer than others of its kind is told no sooner") {
  const std::set<uint64_t> alike = told(1, 40, 2, 32);
  for (uint64_t longest = 1; longest <= 40; ++longest) CHECK(told(1, 40, 2, 32, longest, 4) == alike);
}

}  // namespace
}  // namespace ccld::probe
