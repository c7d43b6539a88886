#include "nccl/hooks/watched_comms.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace ccld::hooks {
namespace {

bool finds(WatchedComms& comms, uint32_t watch) {
  bool found = false;
  comms.visit(watch, [&found](ccld_comm&) { found = true; });
  return found;
}

TEST_CASE("A communicator is found by its number from add to remove") {
  auto comms = std::make_unique<WatchedComms>();
  ccld_comm comm;
  REQUIRE(comms->add(&comm));
  CHECK(comm.watch != 0);
  CHECK(finds(*comms, comm.watch));
  CHECK_FALSE(finds(*comms, comm.watch + 1));
  comms->remove(&comm);
  CHECK_FALSE(finds(*comms, comm.watch));
}

TEST_CASE("As many communicators as there are places are watched, whatever came before; one more is refused") {
  auto comms = std::make_unique<WatchedComms>();
  std::vector<ccld_comm> all(WatchedComms::capacity);
  for (int round = 0; round < 3; ++round) {
    std::set<uint32_t> numbers;
    for (ccld_comm& comm : all) {
      REQUIRE(comms->add(&comm));
      numbers.insert(comm.watch);
    }
    CHECK(numbers.size() == all.size());
    ccld_comm one_more;
    CHECK_FALSE(comms->add(&one_more));
    CHECK(one_more.watch == 0);
    comms->remove(&one_more);
    for (ccld_comm& comm : all) CHECK(finds(*comms, comm.watch));
    for (ccld_comm& comm : all) comms->remove(&comm);
  }
}

TEST_CASE("A late operation of a communicator that is gone does not find the one that has its place now") {
  auto comms = std::make_unique<WatchedComms>();
  std::vector<ccld_comm> older(WatchedComms::capacity), newer(WatchedComms::capacity);
  for (ccld_comm& comm : older) comms->add(&comm);
  for (ccld_comm& comm : older) comms->remove(&comm);
  for (ccld_comm& comm : newer) comms->add(&comm);
  for (ccld_comm& comm : older) CHECK_FALSE(finds(*comms, comm.watch));
}

TEST_CASE("remove waits for the visit that is going on") {
  auto comms = std::make_unique<WatchedComms>();
  ccld_comm comm;
  comms->add(&comm);
  const uint32_t watch = comm.watch;
  std::atomic<bool> inside{false};
  std::atomic<bool> let_go{false};
  std::atomic<bool> left{false};
  std::thread visitor([&] {
    comms->visit(watch, [&](ccld_comm&) {
      inside = true;
      while (!let_go) std::this_thread::yield();
      left = true;
    });
  });
  while (!inside) std::this_thread::yield();
  bool left_at_return = false;
  std::thread remover([&] {
    comms->remove(&comm);
    left_at_return = left;
  });
  while (finds(*comms, watch)) std::this_thread::yield();  // remove has begun
  let_go = true;
  remover.join();
  visitor.join();
  CHECK(left_at_return);
}

TEST_CASE("Visitors never see a communicator after its removal") {
  auto comms = std::make_unique<WatchedComms>();
  std::atomic<bool> stop{false};
  std::atomic<unsigned> wrong{0};
  std::atomic<uint32_t> newest{0};
  std::thread visitor([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      comms->visit(newest.load(std::memory_order_relaxed), [&](ccld_comm& comm) {
        if (comm.current_op_seq != 1) wrong.fetch_add(1);
      });
    }
  });
  for (int i = 0; i < 20000; ++i) {
    ccld_comm comm;
    comm.current_op_seq = 1;
    comms->add(&comm);
    newest.store(comm.watch, std::memory_order_relaxed);
    comms->remove(&comm);
    comm.current_op_seq = 2;
  }
  stop = true;
  visitor.join();
  CHECK(wrong.load() == 0);
}

TEST_CASE("The name of a communicator holds process and number") {
  CHECK(proxy_owner_name(0xa, 0xb) == 0x0000000a0000000bu);
}

}  // namespace
}  // namespace ccld::hooks
