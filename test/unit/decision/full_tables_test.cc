// Every table is bounded, and whoever fills one takes nothing from others: what is real comes in and is judged.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "decision/analysis/incident_book.h"
#include "decision/analyzer.h"
#include "test/unit/decision/messages.h"

namespace ccld::decision {
namespace {

Batch batch_from(const std::string& host, uint32_t pid, Nanoseconds now_ns, std::vector<Payload> payloads) {
  return batch_of(host, pid, now_ns, std::move(payloads), "job of " + host);
}

CommInit initialization(uint64_t hash, int rank, int rank_count, uint32_t age_ms) {
  CommInit m;
  m.comm_hash = hash;
  m.rank = Rank{rank};
  m.rank_count = rank_count;
  m.stage = abi::InitStage::entered;
  m.stage_age_ms = m.enter_age_ms = age_ms;
  m.number = 1;
  return m;
}

bool knows_process(const Analyzer& a, const std::string& host, Nanoseconds now_ns) {
  for (const ProcessStatus& p : a.status(now_ns).processes)
    if (p.process.host == host) return true;
  return false;
}

int ranks_of(const Analyzer& a, uint64_t comm, Nanoseconds now_ns) {
  for (const CommStatus& c : a.status(now_ns).communicators)
    if (c.comm.value == comm) return c.ranks_seen;
  return 0;
}

}  // namespace

TEST_CASE("A full table of processes takes in a new one, and lets go of those of the machine that has most") {
  Settings settings;
  settings.processes_max = 64;
  Analyzer a(settings);
  Nanoseconds now = ns_per_s;
  a.apply(batch_from("quiet", 1, now, {AgentHealth{}}), now);
  for (uint32_t pid = 1; pid <= 200; ++pid) {
    now += ns_per_ms;
    a.apply(batch_from("stranger", pid, now, {AgentHealth{}}), now);
  }
  a.apply(batch_from("new", 1, now, {AgentHealth{}}), now);
  CHECK(knows_process(a, "quiet", now));
  CHECK(knows_process(a, "new", now));
  CHECK(a.status(now).processes.size() <= 64);
  CHECK(a.let_go_so_far().processes > 100);
  CHECK(a.let_go_so_far().processes_refused == 0);
}

TEST_CASE("Processes whose communicators are mere claims make way with these") {
  Settings settings;
  settings.processes_max = 64;
  Analyzer a(settings);
  const Nanoseconds now = ns_per_s;
  for (uint32_t pid = 1; pid <= 64; ++pid)
    a.apply(batch_from(absl::StrCat("invented", pid), pid, now, {up(pid, 0, 1000)}), now);
  a.apply(batch_from("new", 1, now, {AgentHealth{}}), now);
  CHECK(knows_process(a, "new", now));
}

TEST_CASE("A communicator finds room for its ranks where one machine has claimed all") {
  Settings settings;
  settings.memberships_max = 64 * 256;
  Analyzer a(settings);
  const Nanoseconds now = ns_per_s;
  for (uint64_t comm = 1000; comm < 2000; ++comm) a.apply(batch_from("stranger", 1, now, {up(comm, 0, 60)}), now);
  CHECK(a.status(now).ranks_refused > 0);
  for (int rank = 0; rank < 8; ++rank)
    a.apply(batch_from("real", 1 + static_cast<uint32_t>(rank), now, {up(1, rank, 8)}), now);
  CHECK(ranks_of(a, 1, now) == 8);
}

TEST_CASE("Claims that nobody repeats make way for whoever comes") {
  Settings settings;
  settings.memberships_max = 64 * 256;
  Analyzer a(settings);
  Nanoseconds now = ns_per_s;
  for (uint32_t comm = 1000; comm < 2000; ++comm)
    a.apply(batch_from(absl::StrCat("invented", comm), comm, now, {up(comm, 0, 60)}), now);
  now += seconds_to_ns(settings.silent_s);
  for (uint64_t comm = 1; comm <= 4; ++comm)
    for (int rank = 0; rank < 2; ++rank)
      a.apply(batch_from("real", 1 + static_cast<uint32_t>(rank), now, {up(comm, rank, 2)}), now);
  for (uint64_t comm = 1; comm <= 4; ++comm) CHECK(ranks_of(a, comm, now) == 2);
}

TEST_CASE("An initialization that never ends is found where a stranger has announced more than there is room for") {
  Settings settings;
  settings.init_hang_s = 30;
  Analyzer a(settings);
  Nanoseconds now = ns_per_s;
  uint64_t hash = 1000;
  bool found = false;
  for (int second = 1; second <= 40; ++second) {
    now += ns_per_s;
    for (int i = 0; i < 500; ++i) {
      const auto pid = static_cast<uint32_t>(hash);
      a.apply(batch_from("stranger", pid, now, {initialization(++hash, 0, 4, 0)}), now);
    }
    for (int rank = 0; rank < 3; ++rank)
      a.apply(batch_from("real", 1 + static_cast<uint32_t>(rank), now,
                         {initialization(1, rank, 4, static_cast<uint32_t>(1000 * second))}),
              now);
    for (const Incident& i : a.advance(now))
      found |= i.job == "job of real" && i.culprits.size() == 1 && i.culprits[0].rank == Rank{3};
  }
  CHECK(found);
}

TEST_CASE("Ranks of initializations are bounded, and one initialization takes half of the room at most") {
  Settings settings;
  settings.ranks_max = 1024;
  Analyzer a(settings);
  const Nanoseconds now = ns_per_s;
  for (int rank = 0; rank < 1000; ++rank)
    a.apply(batch_from("stranger", 1, now, {initialization(7, rank, 1000, 0)}), now);
  CHECK(a.let_go_so_far().initializations_refused == 1000 - 512);
  for (int rank = 0; rank < 8; ++rank) a.apply(batch_from("real", 1, now, {initialization(8, rank, 8, 0)}), now);
  for (const InitStatus& i : a.status(now).inits)
    if (i.comm_hash == 8) CHECK(i.never_heard_count == 0);
  CHECK(a.let_go_so_far().initializations_refused == 1000 - 512);
}

TEST_CASE("Where all incidents are open, one of the job that has most is forgotten") {
  Settings settings;
  settings.incidents_max = 4;
  IncidentBook book(settings);
  const auto open = [&](const char* job) {
    Incident i;
    i.job = job;
    return book.open(i).id;
  };
  const uint64_t real = open("real");
  for (int i = 0; i < 20; ++i) open("stranger");
  CHECK(book.find(real) != nullptr);
  CHECK(book.open_count() == 4);
}

TEST_CASE("Snapshots from the far future, said in the name of a process, hide no fault of it") {
  Settings settings;
  settings.hang_warmup_suspect_s = 2;
  Analyzer a(settings);
  Nanoseconds now = ns_per_s;
  const auto snapshot = [&](int rank, uint64_t entered, Nanoseconds sampled_ns) {
    InFlight m;
    m.comm = CommUid{1};
    m.rank = Rank{rank};
    m.sample_monotonic_ns = static_cast<uint64_t>(sampled_ns);
    m.entered = m.launched = OpSeq{entered};
    m.completed = OpSeq{4};
    m.movement = entered;
    m.moved_age_ms = static_cast<uint32_t>((now - ns_per_s) / ns_per_ms);
    if (entered == 5) {
      InFlightOp o;
      o.op = OpSeq{5};
      o.signature.function = abi::Function::all_reduce;
      o.signature.count = 1024;
      o.launched = o.begun = true;
      o.signals = signals_default;
      m.operations = {o};
      m.operations_total = 1;
    }
    return m;
  };
  for (int second = 0; second < 90; ++second, now += ns_per_s) {
    for (int rank = 0; rank < 4; ++rank)
      a.apply(batch_from("real", 1 + static_cast<uint32_t>(rank), now,
                         {up(1, rank, 4), snapshot(rank, rank == 2 ? 4 : 5, now)}),
              now);
    for (int rank = 0; second == 1 && rank < 4; ++rank) {
      const Nanoseconds future = int64_t{1} << 61;
      Batch forged = batch_from("real", 1 + static_cast<uint32_t>(rank), now, {snapshot(rank, 4, future)});
      forged.sent_monotonic_ns = static_cast<uint64_t>(future);
      a.apply(forged, now);
    }
    a.advance(now);
  }
  const std::vector<Incident> found = a.incidents();
  REQUIRE(found.size() == 1);
  CHECK(found[0].fault == FaultClass::h1_not_entered);
  REQUIRE(found[0].culprits.size() == 1);
  CHECK(found[0].culprits[0].rank == Rank{2});
}

TEST_CASE("For want of memory what is in flight stays, and goes at last") {
  Analyzer a{Settings{}};
  const Nanoseconds now = ns_per_s;
  for (uint64_t comm = 1; comm <= 8; ++comm) {
    InFlight m;
    m.comm = CommUid{comm};
    m.rank = Rank{0};
    m.entered = m.launched = OpSeq{1};
    InFlightOp o;
    o.op = OpSeq{1};
    o.launched = o.begun = true;
    m.operations = {o};
    a.apply(batch_from("host", 1, now, {up(comm, 0, 1), m}), now);
  }
  a.let_go(1, Worth::at_rest, now);
  CHECK(a.status(now).communicators.size() == 8);
  a.let_go(0.5, Worth::needed, now);
  CHECK(a.status(now).communicators.size() == 4);
}

}  // namespace ccld::decision
