// Several services that stand in for each other: whichever node a probe is connected to, one of them tells what is
// found, once, and goes on where another one was killed, stopped or cut off.
#include "test/integration/cluster/nodes.h"
#include "test/support/files/pipe.h"

namespace ccld::test {

TEST_CASE("Probes of one communicator at two nodes: one incident, which all nodes know, and which outlives its node") {
  const NatsServers nats;
  Nodes nodes(nats);
  const size_t first = nodes.leader();
  const size_t second = (first + 1) % 3, third = (first + 2) % 3;
  REQUIRE(wait_until([&] {
    return nodes[second].cluster()["leader"] == nodes[first].name() &&
           nodes[third].cluster()["leader"] == nodes[first].name();
  }));
  Sender to_second(nodes[second].service->telemetry), to_third(nodes[third].service->telemetry);
  const Mismatch fault{0xa1, {&to_second, &to_third}};
  REQUIRE(is_found(nodes, fault));
  REQUIRE(nodes[first].told().size() == 1);
  CHECK(nodes[second].told().empty());
  CHECK(nodes[third].told().empty());
  const Json told = nodes[first].told().front();
  CHECK(told["class"] == "H2");

  // A command that asks another node is answered by the one that leads, and what it says is kept by all.
  const auto ack = nodes[second].service->ask({"ack", std::to_string(told["incident"].get<int>()), "--note", "on it"});
  INFO(ack.error);
  REQUIRE(ack.status == 0);
  CHECK(nodes[third].ask("/v1/incidents")["incidents"].size() == 1);

  const auto killed = Clock::now();
  nodes[first].kill();
  const size_t next = nodes.leader({first});
  fault.send(100);  // as a probe goes on
  REQUIRE(wait_until([&] { return !nodes[next].told().empty(); }));
  CHECK(Clock::now() - killed < failover_max);
  const Json goes_on = nodes[next].told().front();
  CHECK(goes_on["incident"] == told["incident"]);
  CHECK(goes_on["run"] == told["run"]);
  CHECK(goes_on["revision"] > told["revision"]);
  CHECK(goes_on["onset_time"] == told["onset_time"]);
  const Json kept = incident(nodes[next].ask("/v1/incidents"), told["incident"]);
  CHECK(kept["acknowledged"]["note"] == "on it");

  // A new fault has the next number.
  const Mismatch other{0xb2, {&to_second, &to_third}};
  other.send(1);
  REQUIRE(wait_until([&] { return nodes.incidents().size() == 2; }));
  CHECK(*nodes.incidents().rbegin() == told["incident"].get<uint64_t>() + 1);

  // The killed node comes back, has what was told meanwhile, and leads when the others are gone.
  nodes[first].start();
  REQUIRE(wait_until([&] {
    const Json c = nodes[first].cluster();
    return c["leader"] == nodes[next].name() && c["log"]["applied"] == c["log"]["last"] && c["log"]["last"] > 3;
  }));
  for (size_t i : {second, third}) nodes[i].kill();
  REQUIRE(nodes.leader({second, third}) == first);
  const Json all = nodes[first].ask("/v1/incidents");
  CHECK(all["incidents"].size() == 2);
  CHECK(incident(all, told["incident"])["acknowledged"]["note"] == "on it");
  nodes.check_told_once();
}

TEST_CASE("A node that is stopped while it leads is followed by another one, and tells nothing when it goes on") {
  const NatsServers nats;
  Nodes nodes(nats);
  const size_t first = nodes.leader();
  const size_t second = (first + 1) % 3;
  REQUIRE(wait_until([&] { return nodes[second].cluster()["leader"] == nodes[first].name(); }));
  nodes[first].service->child.signal(SIGSTOP);
  Sender sender(nodes[second].service->telemetry);
  const Mismatch fault{0xa1, {&sender, &sender}};
  fault.send(1);
  size_t next = 3;
  REQUIRE(wait_until(
      [&] {
        for (size_t i = 0; i < 3; ++i)
          if (i != first && !nodes[i].told().empty()) next = i;
        return next < 3;
      },
      failover_max));
  nodes[first].service->child.signal(SIGCONT);
  fault.send(2);
  REQUIRE(wait_until([&] { return nodes[first].cluster()["leader"] == nodes[next].name() && !nodes[first].leads(); }));
  CHECK(nodes[next].leads());
  CHECK(nodes[first].told().empty());
  const Json shown = nodes[first].ask("/v1/incidents")["incidents"];
  REQUIRE(shown.size() == 1);
  nodes.check_told_once();
}

TEST_CASE("Without NATS nobody leads, every node says so and answers for itself; when it is back one leads") {
  NatsServers nats;
  Nodes nodes(nats);
  const size_t first = nodes.leader();
  nats.kill(0);
  REQUIRE(wait_until([&] { return !nodes[first].leads(); }));
  CHECK_FALSE(nodes[first].cluster()["connected"].get<bool>());
  CHECK(contains(nodes[first].service->ask({"cluster"}).output, "reaches no NATS server"));
  Sender sender(nodes[first].service->telemetry);
  const Mismatch fault{0xa1, {&sender, &sender}};
  fault.send(1);
  REQUIRE(wait_until([&] { return nodes[first].service->get("/v1/status")["incidents_open"] == 1; }));
  CHECK(nodes.told().empty());
  nats.start(0);
  nodes.leader();
  REQUIRE(is_found(nodes, fault, 1));
  CHECK(nodes.incidents().size() == 1);
  nodes.check_told_once();
}

TEST_CASE("Wrong options of a cluster end the service before it listens, with one line that names the option") {
  const Folder folder;
  const auto refused = [&](std::vector<std::string> more, const std::string& part) {
    std::vector<std::string> command = {ccld,     "serve",       "--listen", "tcp://127.0.0.1:0",
                                        "--http", "127.0.0.1:0", "--state",  folder.file("state")};
    command.insert(command.end(), more.begin(), more.end());
    require_refused(command, 2, part);
  };
  refused({"--cluster", "10.0.0.1:4222"}, "--cluster: '10.0.0.1:4222' is not nats://HOST:PORT");
  refused({"--cluster", "nats://127.0.0.1:1", "--cluster-node", "a.b"}, "--cluster-node: 'a.b'");
  refused({"--cluster", "nats://127.0.0.1:1", "--cluster-replicas", "9"}, "--cluster-replicas: '9'");
  refused({"--cluster", "nats://127.0.0.1:1", "--cluster-key-file", "x"},
          "--cluster-certificate-file and --cluster-key-file");
  refused({"--cluster", "nats://127.0.0.1:1", "--no-history"}, "--cluster: a node keeps the history of all");
}

TEST_CASE("A node whose verdicts nobody reads lets another one lead, and follows once they are read") {
  const NatsServers nats;
  Pipe verdicts;
  const Node first("first", nats, {"--verdicts", verdicts.path()});
  REQUIRE(wait_until([&] { return first.leads(); }));
  Node second("second", nats);
  REQUIRE(wait_until([&] { return second.has_all(); }));
  verdicts.fill();
  Sender sender(second.service->telemetry);
  const Mismatch fault{0xa1, {&sender, &sender}};
  uint64_t beat = 0;
  REQUIRE(wait_until([&] {
    fault.send(++beat);
    return second.leads();
  }));
  CHECK_FALSE(first.leads());
  // The first one had it in the log before it waited for its reader.
  fault.end(++beat);
  REQUIRE(wait_until([&] { return !second.told().empty(); }));
  CHECK(second.told().front()["incident"] == 1);
  CHECK(second.told().front()["revision"] > 1);
  verdicts.drain();
  REQUIRE(wait_until([&] { return first.has_all() && first.cluster()["log"] == second.cluster()["log"]; }));
  second.end();
  CHECK(wait_until([&] { return first.leads(); }));
}

TEST_CASE("A service that has run alone joins a cluster: no incident is taken for another one, and numbers go on") {
  const NatsServers nats;
  Node old("old", nats);
  old.end();
  std::filesystem::remove_all(old.state());
  {
    Service alone({"--state", old.state(), "--set", "mismatch_settle_s=0"});
    Sender sender(alone.telemetry);
    for (uint64_t comm_uid : {0xb1, 0xb2}) Mismatch(comm_uid, {&sender, &sender}).send(1);
    REQUIRE(wait_until([&] { return alone.get("/v1/incidents")["incidents"].size() == 2; }));
    alone.child.signal(SIGTERM);
    CHECK(alone.child.wait(start_max) == 0);
  }
  Node fresh("fresh", nats);
  REQUIRE(wait_until([&] { return fresh.leads(); }));
  Sender sender(fresh.service->telemetry);
  const Mismatch first{0xa1, {&sender, &sender}}, second{0xa2, {&sender, &sender}};
  first.send(1);
  REQUIRE(wait_until([&] { return fresh.told().size() == 1; }));
  CHECK(fresh.told().front()["incident"] == 1);

  old.start();
  CHECK(old.service->child.wait_for_error("1 incidents of this node's own history had numbers of the cluster's",
                                          start_max) != "");
  CHECK(fresh.service->child.wait_for_error("another node has incidents of higher numbers", start_max) != "");
  REQUIRE(wait_until([&] { return fresh.leads(); }));
  second.send(1);
  REQUIRE(wait_until([&] {
    for (const Json& v : fresh.told())
      if (v["communicator"] == "00000000000000a2") return v["incident"] == 3;
    return false;
  }));
  Json all;
  REQUIRE(wait_until([&] {
    all = Json::parse(run({ccld, "incidents", "--json", "--state", old.state()}).output, nullptr, false);
    return all.is_object() && all["incidents"].size() == 3;
  }));
  CHECK(incident(all, 1)["run"] == fresh.told().front()["run"]);
  CHECK(incident(all, 2)["run"] != fresh.told().front()["run"]);
}

}  // namespace ccld::test
