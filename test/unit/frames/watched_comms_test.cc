#include "nccl/hooks/watched_comms.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

namespace ccld::hooks {
namespace {

ccld_comm comm_of_number(uint32_t number) {
  ccld_comm comm;
  comm.number = number;
  return comm;
}

bool finds(WatchedComms& comms, uint32_t number) {
  bool found = false;
  comms.visit(number, [&found](ccld_comm&) { found = true; });
  return found;
}

TEST_CASE("A communicator is found by its number from add to remove") {
  auto comms = std::make_unique<WatchedComms>();
  ccld_comm comm = comm_of_number(7);
  CHECK_FALSE(finds(*comms, 7));
  CHECK(comms->add(&comm));
  CHECK(finds(*comms, 7));
  CHECK_FALSE(finds(*comms, 8));
  comms->remove(&comm);
  CHECK_FALSE(finds(*comms, 7));
}

TEST_CASE("A communicator whose place is taken is refused and never mistaken for the other") {
  auto comms = std::make_unique<WatchedComms>();
  ccld_comm older = comm_of_number(1);
  ccld_comm newer = comm_of_number(1 + WatchedComms::capacity);
  CHECK(comms->add(&older));
  CHECK_FALSE(comms->add(&newer));
  CHECK_FALSE(finds(*comms, newer.number));
  comms->remove(&newer);
  CHECK(finds(*comms, older.number));
}

TEST_CASE("remove waits for the visit that is going on") {
  auto comms = std::make_unique<WatchedComms>();
  ccld_comm comm = comm_of_number(3);
  comms->add(&comm);
  std::atomic<bool> inside{false};
  std::atomic<bool> let_go{false};
  std::atomic<bool> left{false};
  std::thread visitor([&] {
    comms->visit(3, [&](ccld_comm&) {
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
  while (finds(*comms, 3)) std::this_thread::yield();  // remove has begun
  let_go = true;
  remover.join();
  visitor.join();
  CHECK(left_at_return);
}

TEST_CASE("Visitors never see a communicator after its removal") {
  auto comms = std::make_unique<WatchedComms>();
  std::atomic<bool> stop{false};
  std::atomic<unsigned> wrong{0};
  std::thread visitor([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      comms->visit(5, [&](ccld_comm& comm) {
        if (comm.current_op_seq != 1) wrong.fetch_add(1);
      });
    }
  });
  for (int i = 0; i < 20000; ++i) {
    ccld_comm comm = comm_of_number(5);
    comm.current_op_seq = 1;
    comms->add(&comm);
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
