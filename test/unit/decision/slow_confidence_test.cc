#include "decision/analysis/slow_confidence.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "decision/analysis/whatif_findings.h"

namespace ccld::decision {
namespace {

Culprit culprit(int rank, Component component, Basis basis, int cause, double share = 0) {
  Culprit c;
  c.rank = Rank{rank};
  c.component = component;
  c.basis = basis;
  c.cause = cause;
  c.lost_time_share = share;
  return c;
}

double alone(Component component, Basis basis) { return confidence_of({culprit(0, component, basis, 1)}); }

whatif::Explanation two_causes() {
  whatif::Explanation e;
  e.length_ns = 1000, e.length_without_ns = 600;
  e.causes.resize(2);
  e.causes[0].gain_ns = 300, e.causes[1].gain_ns = 100;
  return e;
}

}  // namespace

TEST_CASE("Every row of the table is a part of one, and stands once") {
  const auto& rows = slow_confidences();
  for (const SlowConfidence& r : rows) {
    CHECK(r.right > 0);
    CHECK(r.right <= 1);
    CHECK(std::count_if(rows.begin(), rows.end(), [&](const SlowConfidence& o) {
            return o.basis == r.basis && o.component == r.component;
          }) == 1);
  }
}

TEST_CASE("A verdict is as sure as what told its causes, all together") {
  const Culprit late = culprit(1, Component::gpu, Basis::peers, 1),
                wire = culprit(2, Component::link, Basis::connections, 2);
  CHECK(confidence_of({late}) == row_of(late).right);
  CHECK(confidence_of({late, wire}) == row_of(late).right * row_of(wire).right);
}

TEST_CASE("Several culprits of one cause are not several doubts") {
  const Culprit one = culprit(1, Component::link, Basis::transfers, 1),
                other = culprit(2, Component::link, Basis::transfers, 1);
  CHECK(confidence_of({one, other}) == confidence_of({one}));
}

TEST_CASE("A network device has the row of a link, and what has no row that of the unknown") {
  CHECK(alone(Component::nic, Basis::connections) == alone(Component::link, Basis::connections));
  CHECK(alone(Component::application, Basis::peers) == slow_confidences().back().right);
  CHECK(confidence_of({}) == slow_confidences().back().right);
}

TEST_CASE("What is gained and how sure it is follow the culprits that are left") {
  Finding f;
  f.culprits = {culprit(1, Component::gpu, Basis::peers, 1, 0.75),
                culprit(2, Component::link, Basis::connections, 2, 0.25)};
  weigh(two_causes(), 0, 400, f);
  CHECK(f.gain.now_ns == 1000);
  CHECK(f.gain.without_ns == 600);
  CHECK_FALSE(f.gain.of_iteration);
  CHECK(f.confidence == confidence_of(f.culprits));
  const double both = f.confidence;
  f.culprits.pop_back();
  weigh(two_causes(), 0, 400, f);
  CHECK(f.gain.without_ns == 700);
  CHECK(f.confidence > both);
}

TEST_CASE("Gains are told for one iteration where that is known") {
  Finding f;
  f.culprits = {culprit(1, Component::gpu, Basis::peers, 1, 1)};
  weigh(two_causes(), 5000, 400, f);
  CHECK(f.gain.now_ns == 5000);
  CHECK(f.gain.without_ns == 3000);
  CHECK(f.gain.of_iteration);
}

TEST_CASE("A cause that is told elsewhere, or is not sure yet, is not gained here") {
  Finding f;
  f.culprits = {culprit(1, Component::gpu, Basis::peers, 1, 1)};
  weigh(two_causes(), 0, 300, f);
  CHECK(f.gain.without_ns == 700);
}

}  // namespace ccld::decision
