#include "decision/trace/directory.h"

#include "test/unit/trace/jobs.h"

namespace ccld::test {

TEST_CASE("Ranks of the communicator that has all GPUs number them") {
  const Settings settings{};
  Directory d(settings);
  // Ranks are told in no order, and a smaller communicator comes first.
  for (const int32_t rank : {3, 0, 2, 1}) {
    Batch b = batch_of(rank);
    if (rank > 1) b.payloads.push_back(up_of(CommUid{7}, 3 - rank, 2, rank));
    b.payloads.push_back(up_of(world, rank, 4, rank));
    d.see(b);
  }
  d.number();
  CHECK(d.numbered_by_communicator());
  REQUIRE(d.gpus().size() == 4);
  for (int32_t rank = 0; rank < 4; ++rank) {
    CHECK(d.numbered(rank) == rank);
    CHECK(d.gpu(world, Rank{rank}) == rank);
    CHECK(d.gpus()[static_cast<size_t>(rank)].pid == 100u + static_cast<uint32_t>(rank));
  }
  CHECK(d.gpu(CommUid{7}, Rank{0}) == 3);
  CHECK(d.numbered(4) == nobody);
  CHECK(d.gpu(CommUid{8}, Rank{0}) == nobody);
}

TEST_CASE("Without such a communicator GPUs are counted by host and device") {
  const Settings settings{};
  Directory d(settings);
  for (const int32_t rank : {5, 4, 1, 0}) {
    Batch b = batch_of(rank);
    b.payloads.push_back(up_of(CommUid{rank < 4 ? 1u : 2u}, rank % 4, 2, rank % 4));
    d.see(b);
  }
  d.number();
  CHECK_FALSE(d.numbered_by_communicator());
  REQUIRE(d.gpus().size() == 4);
  CHECK(d.gpus()[0].host == "node0");
  CHECK(d.gpus()[3].host == "node1");
  CHECK(d.gpu(CommUid{2}, Rank{1}) == 3);
}

TEST_CASE("What is told twice counts once, and what is beyond the bound is counted") {
  Settings settings;
  settings.memberships_max = 2;
  Directory d(settings);
  for (const int32_t rank : {0, 0, 1, 2}) {
    Batch b = batch_of(rank);
    b.payloads.push_back(up_of(world, rank, 3, rank));
    d.see(b);
  }
  d.number();
  CHECK(d.gpus().size() == 2);
  CHECK(d.left_out() == 1);
}

}  // namespace ccld::test
