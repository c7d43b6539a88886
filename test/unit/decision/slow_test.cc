#include <catch2/catch.hpp>

#include "decision/analysis/slow_confidence.h"
#include "decision/locate/slow_finding.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::Comm;
using fake::RoundShape;
using fake::Stage;

namespace {

constexpr Nanoseconds usual_gap = 10 * ns_per_ms;

Settings quick() {
  Settings s;
  s.slow_window_s = 5;
  return s;
}

RoundShape late(std::set<int> ranks, Nanoseconds by, RoundShape shape = {}) {
  shape.gap_ns = [=](int r, uint64_t) { return usual_gap + (ranks.contains(r) ? by : 0); };
  return shape;
}

// The wire from rank 3 to rank 4: its steps queue there, and the round takes longer.
RoundShape throttled(RoundShape shape = {}) {
  shape.comm_ns = 60 * ns_per_ms;
  shape.stage_ns[{Edge{3, 4, 0}, Stage::wire}] = 20 * ns_per_ms;
  return shape;
}

Incident only(const Cluster& cluster) {
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  return open[0];
}

}  // namespace

TEST_CASE("What to look at next is what the cause calls for") {
  const auto next = [](FaultClass fault, std::vector<std::pair<Component, Condition>> of) {
    Finding f;
    f.fault = fault;
    for (const auto& [component, condition] : of) {
      f.culprits.emplace_back();
      f.culprits.back().component = component, f.culprits.back().condition = condition;
    }
    return slow_next_step(f);
  };
  const std::pair host{Component::process, Condition::host_late}, gpu{Component::gpu, Condition::gpu_late},
      link{Component::link, Condition::link_slow};
  CHECK(next(FaultClass::s1_computation_slow, {host}).find("clocks") == std::string::npos);
  CHECK(next(FaultClass::s1_computation_slow, {gpu}).find("data loading") == std::string::npos);
  CHECK(next(FaultClass::s3_mixed_slow, {host, link}).find("clocks") == std::string::npos);
  CHECK(next(FaultClass::s3_mixed_slow, {gpu, link}).find("clocks") != std::string::npos);
}

TEST_CASE("A rank that comes late in every round is computation-slow, suspected and then confirmed") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  CHECK(cluster.reported().empty());
  comm.rounds(600, late({6}, 40 * ns_per_ms));
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(i.state == VerdictState::confirmed);
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
  CHECK(i.culprits[0].lost_time_share > 0.9);
  CHECK(i.culprits[0].component == Component::gpu);
  CHECK((i.culprits[0].basis == Basis::peers || i.culprits[0].basis == Basis::past));
  CHECK(i.confidence == confidence_of(i.culprits));
  CHECK(i.suspected_ns < i.confirmed_ns);
  // A round takes 40 ms longer, of 10 ms and its transfer.
  REQUIRE(i.gain.known());
  CHECK(i.gain.share() > 0.5);
  CHECK(i.stage.effect == StageEffect::critical);
  comm.rounds(1500);
  CHECK(cluster.open_incidents().empty());
}

TEST_CASE("A rank that is late in a part of long iterations is found, though only some windows show it") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  const Nanoseconds begin_ns = cluster.now_ns();
  const auto until = [&](Nanoseconds at_ns, const RoundShape& shape) {
    while (cluster.now_ns() < begin_ns + at_ns) comm.rounds(1, shape);
  };
  // One second of five: two half windows.
  for (int i = 0; i < 16; ++i) {
    until((5 * i + 1) * ns_per_s, late({6}, 40 * ns_per_ms));
    until((5 * i + 5) * ns_per_s, {});
  }
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(i.state == VerdictState::confirmed);
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
  CHECK(i.suspected_ns < begin_ns + 40 * ns_per_s);
}

TEST_CASE("Once the iteration is known windows are as long, so each of them shows what is slow in a part of it") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  const auto iterations = [&](int n, const RoundShape& first) {
    for (int i = 0; i < n; ++i) {
      const Nanoseconds begin_ns = cluster.now_ns();
      while (cluster.now_ns() < begin_ns + ns_per_s) comm.rounds(1, first);
      RoundShape other;
      other.signature.count *= 2;
      while (cluster.now_ns() < begin_ns + 6 * ns_per_s) comm.rounds(1, other);
    }
  };
  iterations(30, {});
  CHECK(cluster.reported().empty());
  const Nanoseconds begin_ns = cluster.now_ns();
  iterations(4, late({6}, 40 * ns_per_ms));
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
  CHECK(i.suspected_ns < begin_ns + 24 * ns_per_s);
}

TEST_CASE("A rank whose host launches late is told from one whose GPU is busy") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all(abi::Algorithm::tree);
  RoundShape shape;
  shape.host_late = {4};
  comm.rounds(200, shape);
  comm.rounds(600, late({4}, 40 * ns_per_ms, shape));
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{4});
  CHECK(i.culprits[0].component == Component::process);
}

TEST_CASE("Queues that differ from round to round do not make a late host a busy GPU") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all(abi::Algorithm::tree);
  RoundShape at_once;
  at_once.host_late = {4};
  RoundShape behind = at_once;
  behind.ahead_ns = 30 * ns_per_ms;
  for (int i = 0; i < 400; ++i) {
    if (i == 100) at_once = late({4}, 20 * ns_per_ms, at_once), behind = late({4}, 20 * ns_per_ms, behind);
    comm.rounds(1, at_once);
    comm.rounds(1, behind);
  }
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(ranks_of(i.culprits) == std::set<int>{4});
  CHECK(i.culprits[0].component == Component::process);
}

TEST_CASE("Two late ranks are both named with their shares") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  shape.gap_ns = [](int r, uint64_t) { return usual_gap + (r == 1 ? 40 : r == 2 ? 36 : 0) * ns_per_ms; };
  comm.rounds(600, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{1, 2});
}

TEST_CASE("A throttled wire is communication-slow and names sender, receiver and network device") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  comm.rounds(600, throttled());
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s2_communication_slow);
  CHECK(i.state == VerdictState::confirmed);
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].rank == Rank{3});
  CHECK(i.culprits[0].peer == Rank{4});
  CHECK(i.culprits[0].component == Component::link);
  CHECK(i.culprits[0].net_name == "net0");
}

TEST_CASE("Ranks that leave a slow operation before the last one are not late in the next, however long their gaps") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(1000);  // long enough to know how the clocks of the two machines drift
  RoundShape shape = throttled();
  shape.early_ns = [&](int r, uint64_t) { return r == 4 ? 0 : shape.comm_ns * 3 / 4; };
  comm.rounds(GENERATE(600, 4000), shape);  // however long it takes
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(cluster.incidents().size() == 1);
  CHECK(i.state == VerdictState::confirmed);
  CHECK(i.fault == FaultClass::s2_communication_slow);
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].rank == Rank{3});
  CHECK(i.culprits[0].peer == Rank{4});
  CHECK(i.culprits[0].lost_time_share > 0.9);
}

TEST_CASE("What a connection costs after the last start counts, even if who waits for it had begun late as well") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  // Rank 4 ends each operation 30 ms after the others, which go on to the next one meanwhile and wait for rank 6 there:
  // all operations but that of rank 6 take equally long.
  RoundShape shape;
  const Nanoseconds behind = 30 * ns_per_ms, late_by = 80 * ns_per_ms;
  shape.comm_ns += behind;
  shape.early_ns = [=](int r, uint64_t) { return r == 4 ? 0 : behind; };
  shape.gap_ns = [=](int r, uint64_t) { return usual_gap + (r == 4 ? behind : 0) + (r == 6 ? late_by : 0); };
  shape.stage_ns[{Edge{3, 4, 0}, Stage::wire}] = 20 * ns_per_ms;
  comm.rounds(600, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s3_mixed_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{3, 6});
}

TEST_CASE("Each stage of a link has its own component") {
  struct Case {
    Edge edge;
    Stage stage;
    int rank;
    Component component;
  };
  const Case c = GENERATE(
      Case{{3, 4, 0}, Stage::sender_proxy, 3, Component::proxy}, Case{{3, 4, 0}, Stage::sender_nic, 3, Component::nic},
      Case{{7, 0, 0}, Stage::receiver_proxy, 0, Component::proxy},
      Case{{7, 0, 0}, Stage::receiver_gpu, 0, Component::gpu}, Case{{1, 2, 0}, Stage::gpu_to_gpu, 2, Component::gpu});
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  shape.comm_ns = 60 * ns_per_ms;
  shape.stage_ns[{c.edge, c.stage}] = 10 * ns_per_ms;
  comm.rounds(600, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s2_communication_slow);
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].rank.value == c.rank);
  CHECK(i.culprits[0].component == c.component);
}

TEST_CASE("Steps that queue in front of a slow link lead to the link") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape = throttled();
  // Ranks 2 and 3 cannot pass on what they have, so what is sent to them waits, even longer than on the wire.
  shape.stage_ns[{Edge{2, 3, 0}, Stage::gpu_to_gpu}] = 25 * ns_per_ms;
  shape.stage_ns[{Edge{1, 2, 0}, Stage::gpu_to_gpu}] = 22 * ns_per_ms;
  shape.stage_ns[{Edge{3, 4, 0}, Stage::sender_proxy}] = ns_per_ms;
  comm.rounds(600, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].rank == Rank{3});
  CHECK(i.culprits[0].component == Component::link);
}

TEST_CASE("A late rank and a throttled wire at once are mixed, with both named and their shares") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  comm.rounds(600, late({1}, 50 * ns_per_ms, throttled()));
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s3_mixed_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{1, 3});
  CHECK(i.culprits[0].lost_time_share > 0.25);
  CHECK(i.culprits[1].lost_time_share > 0.25);
}

TEST_CASE("A slow GPU clock that stretches gaps and kernels is one cause") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape = late({6}, 90 * ns_per_ms);
  shape.comm_ns = 30 * ns_per_ms;
  shape.stage_ns[{Edge{5, 6, 0}, Stage::gpu_to_gpu}] = 8 * ns_per_ms;
  comm.rounds(400, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
}

TEST_CASE("Communication that is slow everywhere is an incident of the job, without culprit") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  const auto iterations = [&](int n, Nanoseconds comm_ns) {
    RoundShape shape;
    shape.comm_ns = comm_ns;
    for (int i = 0; i < n; ++i) {
      shape.signature = fake::all_reduce(1 << 10);
      comm.rounds(3, shape);
      shape.signature = fake::all_reduce(1 << 20);
      comm.rounds(1, shape);
    }
  };
  iterations(1500, 4 * ns_per_ms);
  iterations(300, 60 * ns_per_ms);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s2_communication_slow);
  CHECK(i.culprits.empty());
}

TEST_CASE("A busy machine, on which a little more waits on some links, names none of them") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(1000);
  RoundShape shape;
  shape.comm_ns = 8 * ns_per_ms;  // twice as long; instead of 0.1 ms steps wait a little longer: 0.8 and 0.6 of them
  shape.stage_ns[{Edge{3, 4, 0}, Stage::sender_nic}] = 215'000;
  shape.stage_ns[{Edge{7, 0, 0}, Stage::sender_proxy}] = 185'000;
  comm.rounds(2500, shape);
  INFO(text(cluster.incidents()));
  for (const Incident& i : cluster.incidents()) CHECK(i.culprits.empty());  // that iterations take longer is said
}

TEST_CASE("A rank that is late now and then is named for what it costs, and for nothing that has no cause") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  shape.comm_ns = 8 * ns_per_ms;  // twice as long, everywhere
  const auto late_ns = GENERATE(10 * ns_per_ms, 40 * ns_per_ms);
  shape.gap_ns = [=](int r, uint64_t op) { return usual_gap + (r == 2 && op % 5 == 0 ? late_ns : 0); };
  comm.rounds(1200, shape);
  INFO(text(cluster.incidents()));
  std::set<int> named;
  for (const Incident& i : cluster.incidents())
    for (int rank : ranks_of(i.culprits)) named.insert(rank);
  CHECK(named == std::set<int>{2});  // without it iterations take a tenth, or three tenths less
}

TEST_CASE("An incident that few windows have shown is not over after two without its cause") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  // A window takes as long as a few of these rounds.
  const auto shape = [](Nanoseconds by) {
    RoundShape s;
    s.gap_ns = [=](int r, uint64_t) { return ns_per_s + (r == 6 ? by : 0); };
    return s;
  };
  comm.rounds(40, shape(0));
  for (int i = 0; i < 40 && (cluster.open_incidents().empty() || only(cluster).state != VerdictState::confirmed); ++i)
    comm.rounds(1, shape(ns_per_s));
  REQUIRE(only(cluster).state == VerdictState::confirmed);
  SECTION("its cause comes back") {
    comm.rounds(14, shape(0));
    comm.rounds(20, shape(ns_per_s));
    CHECK(only(cluster).state == VerdictState::confirmed);
  }
  SECTION("its cause is gone") {
    comm.rounds(30, shape(0));
    CHECK(cluster.open_incidents().empty());
  }
  CHECK(cluster.incidents().size() == 1);
}

TEST_CASE("Data imbalance that moves from rank to rank does not alarm") {
  const int ranks = GENERATE(2, 8);
  fake::ClusterOptions options;
  options.processes = ranks;
  Cluster cluster(quick(), options);
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  shape.gap_ns = [=](int r, uint64_t op) {
    return usual_gap + (op * 2654435761u / 1024 % ranks == static_cast<unsigned>(r) ? 60 : 0) * ns_per_ms;
  };
  comm.rounds(800, shape);
  INFO(text(cluster.reported()));
  CHECK(cluster.reported().empty());
}

TEST_CASE(
    "Where the first rounds were no sample of what follows, ranks that are late in most of the others are named") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(90);  // a few iterations that happen to be even
  // Rank 2 is late in most of the uneven rounds, not in all.
  const int others = GENERATE(0, 3);
  RoundShape shape;
  shape.gap_ns = [=](int r, uint64_t op) {
    const uint64_t n = op * 2654435761u / 1024;
    if (n % 2 == 0) return usual_gap;
    const int who = n / 2 % 10 < static_cast<unsigned>(others) ? 5 : 2;
    return usual_gap + (who == r ? 60 * ns_per_ms : 0);
  };
  comm.rounds(800, shape);
  INFO(text(cluster.reported()));
  std::set<int> named;
  for (const Incident& i : cluster.incidents()) named.merge(ranks_of(i.culprits));
  CHECK(named == (others == 0 ? std::set<int>{2} : std::set<int>{2, 5}));
}

TEST_CASE("Steps that are long for everybody together do not alarm") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  shape.gap_ns = [](int, uint64_t op) {
    return op % 20 == 0 ? 2 * ns_per_s : usual_gap;
  };  // evaluation, checkpoint of all ranks
  comm.rounds(400, shape);
  CHECK(cluster.reported().empty());
}

TEST_CASE("A checkpoint of one rank now and then does not alarm") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  shape.gap_ns = [](int r, uint64_t op) { return usual_gap + (r == 0 && op % 200 == 0 ? 800 * ns_per_ms : 0); };
  comm.rounds(2000, shape);
  CHECK(cluster.reported().empty());
}

TEST_CASE("Rounds of the warm-up neither alarm nor count") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  RoundShape first;
  first.comm_ns = 3 * ns_per_s;
  comm.rounds(4, first);
  comm.rounds(300);
  comm.rounds(600, late({6}, 40 * ns_per_ms));  // would vanish in a base that the first rounds had spoilt
  CHECK(ranks_of(only(cluster).culprits) == std::set<int>{6});
}

TEST_CASE("A barrier that waits long is not slow") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  RoundShape shape;
  shape.signature = fake::all_reduce(1);
  comm.rounds(200, shape);
  comm.rounds(600, late({6}, 40 * ns_per_ms, shape));
  CHECK(cluster.reported().empty());
}

TEST_CASE("A job that is slow from its start is found if the administrator says what to expect") {
  Settings settings = quick();
  settings.baseline_init_ms = 5;
  settings.baseline_rounds_max = 1000;
  Cluster cluster(settings);
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(600, late({6}, 40 * ns_per_ms));
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
}

TEST_CASE("Lost and repeated telemetry does not hide a slow rank and does not invent one") {
  fake::ClusterOptions options;
  options.loss = 0.02;
  options.duplicates = 0.1;
  options.delay_max_ns = 300 * ns_per_ms;
  Cluster cluster(quick(), options);
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(1000);
  CHECK(cluster.reported().empty());
  comm.rounds(1500, late({6}, 40 * ns_per_ms));
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
}

TEST_CASE("A round that is slow because another communicator made a rank late is a victim") {
  Cluster cluster(quick());
  Comm& tensor = cluster.add_comm_of_all();
  Comm& pair = cluster.add_comm({3, 7});
  RoundShape usual_pair;
  const auto steps = [&](int count, const RoundShape& shape, Nanoseconds waits) {
    RoundShape second = usual_pair;
    // Process 7 of the pair does not wait for the tensor communicator's round and is in its kernel `waits` before
    // process 3.
    second.gap_ns = [=](int r, uint64_t) { return r == 0 ? ns_per_ms : ns_per_ms - waits; };
    for (int i = 0; i < count; ++i) {
      tensor.rounds(1, shape);
      pair.rounds(1, second);
    }
  };
  steps(200, {}, 0);
  steps(400, throttled(), 50 * ns_per_ms);
  const Incident i = only(cluster);
  INFO(text(cluster.incidents()));
  CHECK(i.comm == tensor.uid());
  CHECK(i.fault == FaultClass::s2_communication_slow);
  CHECK(cluster.incidents().size() == 1);
}

TEST_CASE("With default settings a slow rank is suspected within two and a half windows and confirmed within three") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(GENERATE(1000, 1100, 1200, 1300));  // the fault begins somewhere in a window
  const Nanoseconds planted_ns = cluster.now_ns();
  comm.rounds(1000, late({6}, 40 * ns_per_ms));
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
  const Nanoseconds reported_ns = ns_per_s;  // after it happened
  CHECK(i.suspected_ns - planted_ns <= 25 * ns_per_s + reported_ns);
  CHECK(i.confirmed_ns - planted_ns <= 30 * ns_per_s + reported_ns);
  CHECK(i.onset_ns >= planted_ns - 5 * ns_per_s);
}

TEST_CASE("A rank that makes its communicator a third slower is found, in spite of jitter") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  RoundShape shape;
  shape.jitter_ns = 800'000;  // of gaps of 10 ms and 4 ms of communication
  comm.rounds(2000, shape);
  CHECK(cluster.reported().empty());
  comm.rounds(2000, late({6}, 4 * ns_per_ms, shape));
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
  CHECK(i.state == VerdictState::confirmed);
}

TEST_CASE("A link that makes its communicator a third slower is found") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(1000);
  RoundShape shape;
  shape.comm_ns = 9 * ns_per_ms;
  shape.stage_ns[{Edge{3, 4, 0}, Stage::wire}] = 3 * ns_per_ms;
  comm.rounds(2500, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s2_communication_slow);
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].rank == Rank{3});
  CHECK(i.culprits[0].peer == Rank{4});
}

TEST_CASE("Several slow links are all named, with shares that add up") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape = throttled();
  shape.stage_ns[{Edge{7, 0, 0}, Stage::wire}] = 18 * ns_per_ms;
  comm.rounds(600, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  REQUIRE(i.culprits.size() == 2);
  CHECK(ranks_of(i.culprits) == std::set<int>{3, 7});
  CHECK(i.culprits[0].lost_time_share + i.culprits[1].lost_time_share == Approx(1).margin(0.05));
}

TEST_CASE("A GPU with far fewer steps to take than wait on the wire to it is not the slow one") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape = throttled();
  shape.stage_ns[{Edge{3, 4, 0}, Stage::receiver_gpu}] = 8 * ns_per_ms;
  comm.rounds(600, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].component == Component::link);
}

TEST_CASE("What waits in front of a rank that cannot pass on is not the doing of who sends to it") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  shape.comm_ns = 60 * ns_per_ms;
  shape.stage_ns[{Edge{3, 4, 0}, Stage::sender_proxy}] = 20 * ns_per_ms;
  shape.stage_ns[{Edge{7, 0, 0}, Stage::sender_proxy}] = 10 * ns_per_ms;
  comm.rounds(600, shape);
  CHECK(ranks_of(only(cluster).culprits) == std::set<int>{3, 7});  // far apart: two causes
  Cluster other(quick());
  Comm& ring = other.add_comm({0, 4, 1, 5, 2, 6, 3, 7});  // neighbours on different nodes
  ring.rounds(200);
  shape.stage_ns.erase({Edge{7, 0, 0}, Stage::sender_proxy});
  shape.stage_ns[{Edge{2, 3, 0}, Stage::sender_proxy}] = 10 * ns_per_ms;
  ring.rounds(600, shape);
  const Incident i = only(other);
  INFO(text({i}));
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].rank == Rank{3});
  CHECK(i.culprits[0].component == Component::proxy);
}

TEST_CASE("A proxy stays one cause, whether one of its connections shows it or several do") {
  const auto blame = [](int rank, Component component, std::optional<Rank> peer = {}) {
    Culprit c;
    c.rank = Rank{rank};
    c.component = component;
    c.peer = peer;
    return std::vector<Culprit>{c};
  };
  const auto all = blame(4, Component::proxy), one = blame(4, Component::proxy, Rank{0});
  CHECK(same_cause(all, one));
  CHECK(same_cause(one, all));
  CHECK(same_cause(all, blame(4, Component::link, Rank{5})));
  CHECK(same_cause(blame(0, Component::nic, Rank{4}), all));
  CHECK_FALSE(same_cause(all, blame(5, Component::proxy)));
  CHECK_FALSE(same_cause(all, blame(0, Component::link, Rank{5})));
  CHECK_FALSE(same_cause(all, blame(5, Component::gpu)));
  CHECK_FALSE(same_cause(blame(4, Component::link, Rank{0}), blame(4, Component::link, Rank{5})));
}

TEST_CASE("A proxy that hands on late is blamed for what it says late too") {
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  shape.comm_ns = 60 * ns_per_ms;
  shape.stage_ns[{Edge{3, 4, 0}, Stage::sender_proxy}] = 20 * ns_per_ms;
  shape.stage_ns[{Edge{3, 4, 0}, Stage::sender_nic}] = 4 * ns_per_ms;
  comm.rounds(600, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].component == Component::proxy);
  CHECK(i.culprits[0].rank == Rank{3});
}

TEST_CASE("A proxy that does not poll its connections is the cause, whatever seems to wait") {
  const auto send = abi::Direction::send, recv = abi::Direction::recv;
  const Edge edge{3, 4, 0};
  Cluster cluster(quick());
  Comm& comm = cluster.add_comm_of_all();
  RoundShape shape;
  // On this machine it happens now and then.
  shape.away_ns[{edge, send}] = shape.away_ns[{edge, recv}] = 400'000;
  comm.rounds(200, shape);
  shape.comm_ns = 60 * ns_per_ms;
  const auto culprit = [&] {
    comm.rounds(600, shape);
    const Incident i = only(cluster);
    INFO(text({i}));
    REQUIRE(i.culprits.size() == 1);
    return i.culprits[0];
  };
  SECTION("of the sender") {
    shape.stage_ns[{edge, Stage::sender_nic}] = 20 * ns_per_ms;
    shape.away_ns[{edge, send}] = 45 * ns_per_ms;
    const Culprit c = culprit();
    CHECK(c.rank == Rank{3});
    CHECK(c.component == Component::proxy);
  }
  SECTION("of the receiver") {
    shape.stage_ns[{edge, Stage::wire}] = 20 * ns_per_ms;
    shape.away_ns[{edge, recv}] = 45 * ns_per_ms;
    const Culprit c = culprit();
    CHECK(c.rank == Rank{4});
    CHECK(c.component == Component::proxy);
  }
  SECTION("not where it is away for as large a part of the time as usual") {
    shape.stage_ns[{edge, Stage::wire}] = 20 * ns_per_ms;
    shape.away_ns[{edge, send}] = shape.away_ns[{edge, recv}] = 6 * ns_per_ms;
    const Culprit c = culprit();
    CHECK(c.rank == Rank{3});
    CHECK(c.component == Component::link);
  }
}

TEST_CASE("Of the proxies of two ranks the one that does not poll its connections is named") {
  Cluster cluster(quick(), fake::ClusterOptions{2, 1});
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  shape.comm_ns = 60 * ns_per_ms;
  shape.stage_ns[{Edge{0, 1, 0}, Stage::wire}] = 20 * ns_per_ms;
  SECTION("alone on its machine") { shape.away_ns[{Edge{0, 1, 0}, abi::Direction::recv}] = 45 * ns_per_ms; }
  SECTION("on a busy machine, where none polls all the time") {
    shape.away_ns[{Edge{0, 1, 0}, abi::Direction::send}] = 30 * ns_per_ms;
    shape.away_ns[{Edge{0, 1, 0}, abi::Direction::recv}] = 48 * ns_per_ms;
  }
  comm.rounds(600, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].rank == Rank{1});
  CHECK(i.culprits[0].component == Component::proxy);
}

TEST_CASE("Pauses of one rank now and then, as a collector of garbage makes, are found") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  const auto pauses = [](int r, uint64_t op) { return usual_gap + (r == 5 && op % 20 == 0 ? 300 * ns_per_ms : 0); };
  SECTION("new") { comm.rounds(2000); }
  SECTION("from the start") {}
  RoundShape shape;
  shape.gap_ns = pauses;
  comm.rounds(1500, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(ranks_of(i.culprits) == std::set<int>{5});
}

TEST_CASE("One early outlier does not spoil what is usual") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(12);
  RoundShape outlier;
  outlier.comm_ns = 5 * ns_per_s;
  comm.rounds(1, outlier);
  comm.rounds(800);
  comm.rounds(2000, late({6}, 5 * ns_per_ms));
  CHECK(ranks_of(only(cluster).culprits) == std::set<int>{6});
}

TEST_CASE("What is usual is learnt from more than the first moments, however often operations come") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  RoundShape one, other;
  other.comm_ns = 3 * one.comm_ns;
  for (int i = 0; i < 50; ++i) {
    comm.rounds(60, one);  // nearly a second
    comm.rounds(40, other);
  }
  INFO(text(cluster.incidents()));
  CHECK(cluster.reported().empty());
}

TEST_CASE("What is usual follows a workload that has changed") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(1000);
  // From now on rounds are longer and data is uneven: no cause in particular.
  RoundShape uneven;
  uneven.comm_ns = 6 * ns_per_ms;
  uneven.gap_ns = [](int r, uint64_t op) {
    return usual_gap + (op * 2654435761u / 1024 % 8 == static_cast<unsigned>(r) ? 20 : 0) * ns_per_ms;
  };
  comm.rounds(20000, uneven);
  for (const Incident& i : cluster.reported()) {
    INFO(text({i}));
    CHECK(i.culprits.empty());
    CHECK(i.title.find("iteration time rose") == 0);
  }
  CHECK(cluster.open_incidents().empty());
  RoundShape slow = uneven;
  slow.gap_ns = [&](int r, uint64_t op) { return uneven.gap_ns(r, op) + (r == 2 ? 40 * ns_per_ms : 0); };
  comm.rounds(1000, slow);
  CHECK(ranks_of(only(cluster).culprits) == std::set<int>{2});
}

TEST_CASE("Job-wide evaluation phases, checkpoints, barriers and jitter with default settings stay silent") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  RoundShape shape;
  shape.jitter_ns = 5 * ns_per_ms;
  RoundShape evaluation = shape;
  evaluation.signature = fake::all_reduce(1 << 10);
  evaluation.gap_ns = [](int, uint64_t) { return 60 * ns_per_ms; };
  RoundShape barrier = shape;
  barrier.signature = fake::all_reduce(1);
  barrier.gap_ns = [](int r, uint64_t) { return r == 0 ? 3 * ns_per_s : usual_gap; };
  for (int epoch = 0; epoch < 8; ++epoch) {
    comm.rounds(1000, shape);
    comm.rounds(100, evaluation);
    comm.rounds(1, barrier);
  }
  INFO(text(cluster.reported()));
  CHECK(cluster.reported().empty());
}

}  // namespace ccld::decision
