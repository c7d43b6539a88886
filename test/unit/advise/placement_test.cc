#include "decision/advise/placement.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <random>
#include <set>

namespace ccld::decision::advise {
namespace {

// Where the cells that were at these places are after the exchanges.
uint64_t after(const Placement& p, uint64_t place) {
  for (const auto& [a, b] : p.exchanges) place = place == a ? b : place == b ? a : place;
  return place;
}

std::set<uint64_t> stages_of(const Grid& g, const Placement& p, const Troubles& t) {
  std::set<uint64_t> stages;
  for (const SlowCell& c : t.cells) stages.insert(after(p, c.place) % g.stages);
  return stages;
}

}  // namespace

TEST_CASE("Cells of a stage exchange gradients, neighbours in a replica activations, others nothing") {
  const Grid g{4, 2};
  CHECK(traffic_between(g, g.place(1, 0), g.place(1, 1)) == Traffic::gradients);
  CHECK(traffic_between(g, g.place(1, 0), g.place(2, 0)) == Traffic::activations);
  CHECK(traffic_between(g, g.place(1, 0), g.place(3, 0)) == Traffic::none);
  CHECK(traffic_between(g, g.place(1, 0), g.place(2, 1)) == Traffic::none);
}

TEST_CASE("A slow link between two replicas comes to lie where nothing is sent") {
  const Grid g{2, 2};
  const Troubles t{{}, {{g.place(0, 0), g.place(0, 1), 100}}};
  const Placement p = place_troubles(g, t, 8);
  CHECK(p.exchanges.size() == 1);
  CHECK(traffic_between(g, after(p, g.place(0, 0)), after(p, g.place(0, 1))) == Traffic::none);
  CHECK(p.loss_before == 100);
  CHECK(p.loss_after == 0);
}

TEST_CASE("Where every pair of places sends something, a slow link gets the least of it") {
  const Grid g{3, 1};
  const Troubles t{{}, {{0, 1, 100}}};
  const Placement p = place_troubles(g, t, 8);
  CHECK(traffic_between(g, after(p, 0), after(p, 1)) == Traffic::none);
  const Grid two{2, 1};
  CHECK(place_troubles(two, {{}, {{0, 1, 100}}}, 8).exchanges.empty());
}

TEST_CASE("Slow cells of one replica go to several replicas, in one stage, not the first or last") {
  const Grid g{4, 4};
  const Troubles t{{{g.place(0, 1), 10}, {g.place(2, 1), 10}, {g.place(3, 1), 10}}, {}};
  const Placement p = place_troubles(g, t, 8);
  CHECK(p.loss_before == Approx(30 + 7 * 10));
  CHECK(p.loss_after == Approx(10 + 7 * 10));
  CHECK(stages_of(g, p, t) == std::set<uint64_t>{2});
}

TEST_CASE("More slow cells than replicas share the fewest stages that hold them") {
  const Grid g{4, 2};
  // All of one replica.
  const Troubles t{{{0, 5}, {1, 5}, {2, 5}, {3, 5}}, {}};
  const Placement p = place_troubles(g, t, 4);
  CHECK(p.loss_after == Approx(2 * 5 + 3 * 5));
  CHECK(stages_of(g, p, t).size() <= 3);
  CHECK(p.loss_after < p.loss_before);
}

TEST_CASE("What no exchange makes shorter stays where it is") {
  const Grid g{4, 4};
  CHECK(place_troubles(g, {{{g.place(1, 1), 10}}, {}}, 8).exchanges.empty());
  // Already in replicas of their own: other stages would make no iteration shorter.
  CHECK(place_troubles(g, {{{g.place(0, 1), 10}, {g.place(3, 2), 10}}, {}}, 8).exchanges.empty());
  CHECK(place_troubles(g, {{}, {{5, 5, 10}}}, 8).exchanges.empty());
  CHECK(place_troubles({1, 8}, {{{3, 1}}, {{0, 1, 10}}}, 8).exchanges.empty());
  CHECK(place_troubles(g, {{{1000, 10}}, {{1000, 3, 10}}}, 8).exchanges.empty());
}

TEST_CASE("No exchange ever makes it worse, whatever the troubles") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const Grid g{1 + random() % 6, 1 + random() % 6};
    Troubles t;
    std::set<uint64_t> places;
    for (uint64_t n = random() % 6; n > 0; --n)
      if (const uint64_t place = random() % g.places(); places.insert(place).second)
        t.cells.push_back({place, 1.0 + random() % 9});
    for (uint64_t n = random() % 4; n > 0; --n)
      t.links.push_back({random() % g.places(), random() % g.places(), 1.0 + random() % 50});
    const Placement p = place_troubles(g, t, 1 + random() % 16);
    CHECK(p.loss_after <= p.loss_before * (1 + 1e-9));
    CHECK(p.exchanges.size() <= exchanges_max);
    std::set<uint64_t> all;
    for (uint64_t place = 0; place < g.places(); ++place) all.insert(after(p, place));
    CHECK(all.size() == g.places());
  }
}

TEST_CASE("1,024 places with as many troubles as are looked at take less than a second") {
  const Grid g{16, 64};
  Troubles t;
  for (uint64_t i = 0; i < troubles_max / 2; ++i) {
    t.cells.push_back({g.place(i, 3), 1.0 + static_cast<double>(i)});
    t.links.push_back({g.place(i, 10), g.place(i, 20), 5});
  }
  double best_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Placement p = place_troubles(g, t, 32);
    best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    CHECK(p.loss_after < p.loss_before);
  }
  WARN(best_s << " s");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(best_s < 1);
#endif
}

}  // namespace ccld::decision::advise
