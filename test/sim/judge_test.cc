#include "test/sim/judge/judge.h"

#include <catch2/catch.hpp>

#include "decision/analysis/slow_confidence.h"

namespace ccld::sim {
namespace {

using namespace decision;

struct Court {
  Court() : layout(sizes()), job(layout, traffic, conditions, 1, 0) {
    planted.kind = FaultKind::never_calls;
    planted.processes = {3};
    planted.at = 10 * ns_per_s;
    incident.id = 1;
    incident.fault = FaultClass::h1_not_entered;
    incident.comm = CommUid{layout.comms()[0].uid};
    incident.suspected_ns = 16 * ns_per_s;
    incident.culprits = {culprit(3, Component::application)};
  }
  static LayoutSizes sizes() {
    LayoutSizes s;
    s.data = 8;
    s.world = false;
    return s;
  }
  static Culprit culprit(int rank, Component component) {
    Culprit c;
    c.rank = Rank{rank};
    c.component = component;
    return c;
  }
  Mistake verdict(std::vector<Incident> said) const { return judged(std::move(said)).mistake; }
  std::vector<Word> words(std::vector<Incident> said) const { return judged(std::move(said)).words; }
  Judgement judged(std::vector<Incident> said) const {
    Truth truth;
    truth.planted = &planted;
    truth.job = &job;
    truth.suspect_by = 20 * ns_per_s;
    truth.untold = untold;
    truth.tied = tied;
    return judge(truth, {said, said});
  }
  Traffic traffic;
  Conditions conditions{std::vector<ProcessConditions>(8), {}, {}, {}};
  Layout layout;
  Job job;
  Planted planted;
  Incident incident;
  bool untold = false, tied = false;
};

TEST_CASE("the planted process, class and component are right") {
  const Court court;
  CHECK(court.verdict({court.incident}) == Mistake::none);
}

TEST_CASE("silence is right for a difference that the service was never told of, and nothing else but the truth is") {
  Court court;
  court.planted.kind = FaultKind::other_reduction;
  CHECK(court.verdict({}) == Mistake::missed);
  court.untold = true;
  CHECK(court.verdict({}) == Mistake::none);
  CHECK(court.verdict({court.incident}) == Mistake::wrong_class);
}

TEST_CASE("a GPU that keeps its host from calling looks like a program that does not call") {
  Court court;
  court.planted.kind = FaultKind::kernel_never_starts;
  court.incident.op = OpSeq{1};
  CHECK(court.verdict({court.incident}) == Mistake::none);
  court.incident.culprits[0].component = Component::proxy;
  CHECK(court.verdict({court.incident}) == Mistake::wrong_component);
  court.incident.culprits[0].component = Component::application;
}

TEST_CASE("both ends of a call whose byte counts differ may be candidates") {
  Court court;
  court.planted.kind = FaultKind::other_bytes;
  court.incident.fault = FaultClass::h2_inconsistent;
  court.incident.culprits.clear();
  court.incident.candidates = {Rank{2}, Rank{3}};
  CHECK(court.verdict({court.incident}) == Mistake::none);
  court.incident.candidates = {Rank{2}, Rank{4}};
  CHECK(court.verdict({court.incident}) == Mistake::wrong_rank);
}

TEST_CASE("where the culprit and one other have told, both may be candidates, and nobody else") {
  Court court;
  court.planted.kind = FaultKind::other_root;
  court.incident.fault = FaultClass::h2_inconsistent;
  court.incident.culprits.clear();
  court.incident.candidates = {Rank{2}, Rank{3}};
  CHECK(court.verdict({court.incident}) == Mistake::wrong_rank);
  court.tied = true;
  CHECK(court.verdict({court.incident}) == Mistake::none);
  court.incident.candidates = {Rank{2}, Rank{4}};
  CHECK(court.verdict({court.incident}) == Mistake::wrong_rank);
}

TEST_CASE("silence is right for a healthy job only") {
  Court court;
  CHECK(court.verdict({}) == Mistake::missed);
  court.planted = {};
  CHECK(court.verdict({}) == Mistake::none);
  CHECK(court.verdict({court.incident}) == Mistake::false_alarm);
}

TEST_CASE("another class, rank or component is wrong, each by its name") {
  Court court;
  court.incident.fault = FaultClass::h3_hardware;
  CHECK(court.verdict({court.incident}) == Mistake::wrong_class);
  court.incident.fault = FaultClass::h1_not_entered;
  court.incident.culprits = {Court::culprit(4, Component::application)};
  CHECK(court.verdict({court.incident}) == Mistake::wrong_rank);
  court.incident.culprits = {Court::culprit(3, Component::gpu)};
  CHECK(court.verdict({court.incident}) == Mistake::wrong_component);
  court.incident.culprits = {Court::culprit(3, Component::application), Court::culprit(4, Component::application)};
  CHECK(court.verdict({court.incident}) == Mistake::wrong_rank);
}

TEST_CASE("a second incident, a word before the fault and a late word are wrong") {
  Court court;
  Incident second = court.incident;
  second.id = 2;
  CHECK(court.verdict({court.incident, second}) == Mistake::several);
  Incident early = court.incident;
  early.suspected_ns = 5 * ns_per_s;
  CHECK(court.verdict({early}) == Mistake::false_alarm);
  Incident late = court.incident;
  late.suspected_ns = 30 * ns_per_s;
  CHECK(court.verdict({late}) == Mistake::late);
}

TEST_CASE("candidates are an answer only where nobody could know") {
  Court court;
  court.incident.culprits.clear();
  court.incident.candidates = {Rank{3}, Rank{4}};
  CHECK(court.verdict({court.incident}) == Mistake::wrong_rank);
  court.planted.kind = FaultKind::other_order;
  court.incident.fault = FaultClass::h2_inconsistent;
  CHECK(court.verdict({court.incident}) == Mistake::none);
  court.incident.candidates = {Rank{1}, Rank{2}};
  CHECK(court.verdict({court.incident}) == Mistake::wrong_rank);
}

TEST_CASE("a link must be named with both ends, in either direction") {
  Court court;
  court.planted.kind = FaultKind::cut_link;
  court.planted.sender = 3;
  court.planted.receiver = 4;
  court.incident.fault = FaultClass::h3_hardware;
  court.incident.culprits = {Court::culprit(3, Component::link)};
  CHECK(court.verdict({court.incident}) == Mistake::wrong_rank);
  court.incident.culprits[0].peer = Rank{4};
  CHECK(court.verdict({court.incident}) == Mistake::none);
  std::swap(court.incident.culprits[0].rank, *court.incident.culprits[0].peer);
  CHECK(court.verdict({court.incident}) == Mistake::none);
}

TEST_CASE("of the links of a pipeline each one that is slow is right, in its direction") {
  Court court;
  court.planted.kind = FaultKind::throttled_link;
  court.planted.processes = {1};
  court.planted.sender = 1, court.planted.receiver = 5;
  court.planted.links = {{0, 4}, {1, 5}};
  court.incident.fault = FaultClass::s2_communication_slow;
  const auto names = [&](int rank, int peer) {
    court.incident.culprits = {Court::culprit(rank, Component::link)};
    court.incident.culprits[0].peer = Rank{peer};
    return court.verdict({court.incident});
  };
  CHECK(names(1, 5) == Mistake::none);
  CHECK(names(0, 4) == Mistake::none);
  CHECK(names(5, 1) == Mistake::wrong_rank);
  CHECK(names(2, 6) == Mistake::wrong_rank);
  court.planted.links.clear();
  CHECK(names(5, 1) == Mistake::none);
}

TEST_CASE("each incident is judged by itself, with what it said of itself") {
  Court court;
  court.planted.kind = FaultKind::slow_clock;
  court.incident.fault = FaultClass::s1_computation_slow;
  court.incident.culprits = {Court::culprit(3, Component::gpu)};
  court.incident.culprits[0].basis = Basis::peers;
  court.incident.confidence = 0.9;
  Incident wrong = court.incident;
  wrong.id = 2;
  wrong.culprits[0].rank = Rank{4};
  Incident early = court.incident;
  early.suspected_ns = 5 * ns_per_s;
  const std::vector<Word> words = court.words({court.incident, wrong, early});
  REQUIRE(words.size() == 3);
  CHECK(words[0].right);
  CHECK(words[0].confidence == 0.9);
  REQUIRE(words[0].rows.size() == 1);
  CHECK(slow_confidences()[words[0].rows[0]].basis == Basis::peers);
  CHECK_FALSE(words[1].right);
  CHECK_FALSE(words[2].right);
}

TEST_CASE("a slow incident without a culprit is right if its class is") {
  Court court;
  court.planted.kind = FaultKind::slow_clock;
  court.incident.culprits.clear();
  court.incident.fault = FaultClass::s1_computation_slow;
  CHECK(court.words({court.incident})[0].right);
  CHECK(court.words({court.incident})[0].rows.empty());
  court.incident.fault = FaultClass::s2_communication_slow;
  CHECK_FALSE(court.words({court.incident})[0].right);
  court.planted = {};
  CHECK_FALSE(court.words({court.incident})[0].right);
}

}  // namespace
}  // namespace ccld::sim
