// A node whose way to NATS is cut while probes and operators still reach it. In a network of the test's own: needs
// root.
#include "test/integration/cluster/network.h"
#include "test/integration/cluster/nodes.h"

namespace ccld::test {

TEST_CASE("A node that leads and is cut off from NATS stops telling; another one goes on under the same number",
          "[network]") {
  const OtherHost host;
  const NatsServers nats(1, "10.78.1.1");
  Nodes nodes(nats, {},
              {host.command(), {"--listen", "tcp://10.78.2.2:5566", "--http", "10.78.2.2:8080", "--insecure"}});
  // The node that is cut off has to be the one that leads.
  for (size_t leads; (leads = nodes.leader()) != 0;) {
    nodes[leads].end();
    nodes[leads].start();
  }
  REQUIRE(wait_until([&] { return nodes[1].has_all() && nodes[2].has_all(); }));
  Sender to_cut(nodes[0].service->telemetry), to_second(nodes[1].service->telemetry),
      to_third(nodes[2].service->telemetry);
  const Mismatch fault{0xa1, {&to_cut, &to_second}};
  fault.send(1);
  REQUIRE(wait_until([&] { return nodes[0].told().size() == 1; }));
  const Json told = nodes[0].told().front();

  const auto cut = Clock::now();
  host.cut("bus");
  size_t leads = 0;
  REQUIRE(wait_until([&] {
    leads = nodes[1].leads() ? 1 : nodes[2].leads() ? 2 : 0;
    return leads != 0;
  }));
  // By its own clock it gave up before anybody else could have the lease.
  CHECK_FALSE(nodes[0].leads());
  CHECK(Clock::now() - cut < failover_max);
  REQUIRE(wait_until([&] { return !nodes[leads].told().empty(); }));
  const Json goes_on = nodes[leads].told().front();
  CHECK(goes_on["incident"] == told["incident"]);
  CHECK(goes_on["run"] == told["run"]);
  CHECK(goes_on["revision"] > told["revision"]);

  // It sees what its own probes say, answers who asks it, and tells nobody. What the others see has the next number.
  const Mismatch alone{0xb2, {&to_cut, &to_cut}}, beside{0xc3, {&to_second, &to_third}};
  alone.send(1);
  beside.send(1);
  REQUIRE(wait_until([&] { return nodes.told(beside.comm_uid); }));
  REQUIRE(wait_until([&] { return nodes[0].ask("/v1/status")["incidents_open"] == 2; }));
  CHECK(nodes[0].told().size() == 1);
  CHECK_FALSE(nodes[0].cluster()["connected"].get<bool>());
  CHECK(nodes[0].service->ask({"ack", told["incident"].dump()}).status != 0);

  host.mend("bus");
  REQUIRE(wait_until([&] { return nodes[0].cluster()["leader"] == nodes[leads].name() && nodes[0].has_all(); }));
  CHECK(nodes.leader() == leads);
  alone.send(2);  // as a probe goes on
  REQUIRE(wait_until([&] { return nodes.told(alone.comm_uid); }));
  CHECK(nodes[0].told().size() == 1);
  CHECK(nodes.incidents() == std::set<uint64_t>{1, 2, 3});
  nodes.check_told_once();

  // It has all that was told, and leads under the same numbers when the others are gone.
  REQUIRE(wait_until([&] { return nodes[0].has_all(); }));
  nodes[1].kill(), nodes[2].kill();
  REQUIRE(nodes.leader({1, 2}) == 0);
  const Json all = nodes[0].ask("/v1/incidents")["incidents"];
  INFO(all.dump());
  CHECK(all.size() == 3);
  for (const Json& i : all) CHECK(i["acknowledged"].is_null());
  CHECK(nodes.incidents() == std::set<uint64_t>{1, 2, 3});
  nodes.check_told_once();
}

}  // namespace ccld::test
