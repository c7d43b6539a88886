#include "probe/net/queue_table.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

namespace ccld::probe {
namespace {

TEST_CASE("A queue is found from add to remove, also among as many as there are records") {
  constexpr unsigned queues = 256;
  auto table = std::make_unique<QueueTable<int>>();
  std::vector<int> values(queues);
  const auto identity_of = [](unsigned i) { return 0x7f1234567890u ^ uint64_t { 100 + i } << 40; };
  for (unsigned i = 0; i < queues; ++i) {
    CHECK(table->find(identity_of(i)) == nullptr);
    REQUIRE(table->add(identity_of(i), &values[i]));
  }
  for (unsigned i = 0; i < queues; ++i) CHECK(table->find(identity_of(i)) == &values[i]);
  for (unsigned i = 0; i < queues; i += 2) CHECK(table->remove(identity_of(i)) == &values[i]);
  for (unsigned i = 0; i < queues; ++i) CHECK(table->find(identity_of(i)) == (i % 2 == 0 ? nullptr : &values[i]));
  CHECK(table->remove(identity_of(0)) == nullptr);
}

TEST_CASE("Places are used again, however often queues come and go") {
  auto table = std::make_unique<QueueTable<int>>();
  int value = 0;
  for (uint64_t i = 1; i < 20000; ++i) {
    REQUIRE(table->add(i << 33, &value));
    REQUIRE(table->remove(i << 33) == &value);
  }
}

}  // namespace
}  // namespace ccld::probe
