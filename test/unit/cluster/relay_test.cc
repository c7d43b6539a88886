// Telemetry and answers between nodes.
#include "decision/cluster/relay.h"

#include <catch2/catch.hpp>

#include "test/unit/cluster/shared_bus.h"

namespace ccld::decision::cluster {

TEST_CASE("What a probe sends to one node all have; an answer to it goes over that node") {
  Shared shared;
  SharedBus bus_a(shared), bus_b(shared), bus_c(shared);
  Relay a(bus_a, "a"), b(bus_b, "b"), c(bus_c, "c");
  for (Relay* r : {&a, &b, &c}) REQUIRE(r->start().ok());
  const std::string connection("\0\1/2\xff", 5);
  a.send(connection, std::vector<uint8_t>{7, 8, 9});
  CHECK(a.take_all().telemetry.empty());
  const auto at_b = b.take_all().telemetry;
  REQUIRE(at_b.size() == 1);
  CHECK(at_b[0].bytes == std::vector<uint8_t>{7, 8, 9});
  CHECK(Relay::is_relayed(at_b[0].connection));
  CHECK_FALSE(Relay::is_relayed(connection));

  CHECK(b.answer(at_b[0].connection, std::vector<uint8_t>{1}));
  CHECK(c.take_all().answers.empty());
  const auto at_a = a.take_all().answers;
  REQUIRE(at_a.size() == 1);
  CHECK(at_a[0].connection == connection);
  CHECK(at_a[0].bytes == std::vector<uint8_t>{1});
  CHECK_FALSE(b.answer("@nobody", {}));

  bus_a.cut = true;
  a.send(connection, std::vector<uint8_t>{1});
  CHECK(a.sent() == 1);
  CHECK(a.not_sent() == 1);
}

TEST_CASE("What nobody takes is bounded and counted, and what is no message of a node is left out") {
  Shared shared;
  SharedBus bus_a(shared), bus_b(shared);
  Relay a(bus_a, "a"), b(bus_b, "b");
  REQUIRE(b.start().ok());
  const std::vector<uint8_t> large(Relay::waiting_bytes_max / 2);
  for (int i = 0; i < 3; ++i) a.send("x", large);
  CHECK(b.received() == 2);
  CHECK(b.dropped() == 1);
  CHECK(b.take_all().telemetry.size() == 2);
  a.send("x", large);
  CHECK(b.received() == 3);
  for (const std::vector<uint8_t>& bytes : {std::vector<uint8_t>{}, std::vector<uint8_t>{200, 1}})
    REQUIRE(bus_a.send("telemetry.a", bytes).ok());
  CHECK(b.received() == 3);
}

}  // namespace ccld::decision::cluster
