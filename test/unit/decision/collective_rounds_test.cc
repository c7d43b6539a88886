// The collectives of a communicator as its links see them, of a job that is written down here.
#include "decision/whatif/collective_rounds.h"

#include <catch2/catch.hpp>
#include <vector>

#include "test/unit/decision/whatif_job.h"

namespace ccld::decision::whatif {
namespace {

// Of two ranks, which have said so.
struct TwoRanks {
  TwoRanks() {
    for (int rank : {0, 1}) {
      Batch batch;
      batch.process = {"host", "boot", static_cast<uint32_t>(100 + rank), 0, 1};
      batch.sent_monotonic_ns = ns_per_s;
      CommUp up;
      up.comm = comm.uid();
      up.rank = Rank{rank};
      up.rank_count = 2;
      comm.up(up, *processes.heard(batch, ns_per_s), ns_per_s);
    }
  }
  Settings settings;
  ProcessTable processes{settings};
  Communicator comm{CommUid{1}, settings};
};

}  // namespace

TEST_CASE("Operations of a like size are of one kind: the sizes of some jobs are never the same again") {
  Job job(2);
  const auto reduce = [&](uint64_t count) {
    job.count = count;
    job.collective(1, {0, 1}, 5, [](int) { return 10.0; });
  };
  for (int i = 0; i < 3; ++i) reduce(1'000'000 + 1'000 * static_cast<uint64_t>(i));
  reduce(4'000'000);
  const std::optional<Graph> g = job.graph();
  REQUIRE(g);
  TwoRanks two;
  const std::vector<CollectiveRound> rounds =
      rounds_of(two.comm, groups_by_communicator(*g).at(CommUid{1}), *g, job.timeline,
                kinds_of(*g, job.timeline, job.settings), job.clocks);
  REQUIRE(rounds.size() == 4);
  CHECK(rounds[1].kind == rounds[0].kind);
  CHECK(rounds[2].kind == rounds[0].kind);
  CHECK(rounds[3].kind != rounds[0].kind);
}

TEST_CASE("A rank posts its receives at its launch, but not before its operation before has ended") {
  Job job(2);
  double queued_ms = 0;  // of GPU 1
  job.queues_ms = [&](int gpu) { return gpu == 1 ? queued_ms : 0.0; };
  const auto reduce = [&](double own_ms, double queue_ms) {
    queued_ms = queue_ms;
    job.collective(1, {0, 1}, 5, [&](int) { return own_ms; });
  };
  for (int i = 0; i < 3; ++i) reduce(10, 0);
  reduce(50, 30);  // launched while its GPU computes
  reduce(10, 30);  // launched while the one before runs
  reduce(10, 0);
  const std::optional<Graph> g = job.graph();
  REQUIRE(g);
  TwoRanks two;
  const auto groups = groups_by_communicator(*g);
  const std::vector<CollectiveRound> rounds = rounds_of(two.comm, groups.at(CommUid{1}), *g, job.timeline,
                                                        kinds_of(*g, job.timeline, job.settings), job.clocks);
  REQUIRE(rounds.size() == 6);
  const auto early_ms = [&](size_t op, size_t rank) {
    return (rounds[op].begins_ns[rank] - rounds[op].posted_ns[rank]) / ms;
  };
  CHECK(early_ms(3, 0) == Approx(0).margin(0.01));
  CHECK(early_ms(3, 1) == Approx(30).margin(0.01));
  CHECK(early_ms(4, 1) == Approx(10).margin(0.01));
  CHECK(early_ms(5, 1) == Approx(0).margin(0.01));
}

}  // namespace ccld::decision::whatif
