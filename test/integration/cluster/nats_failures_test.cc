// Three NATS servers, of which some are killed, stopped, and come back.
#include "test/integration/cluster/nodes.h"

namespace ccld::test {
namespace {

constexpr std::chrono::seconds whole_max(60);

bool is_whole(const NatsServers& nats, const std::set<size_t>& gone = {}) {
  for (size_t i = 0; i < nats.count(); ++i)
    if (!gone.contains(i) && !nats.is_whole(i)) return false;
  return true;
}

}  // namespace

TEST_CASE("One of three NATS servers is killed or stopped and comes back: incidents are told, once each") {
  NatsServers nats(3);
  Nodes nodes(nats);
  nodes.leader();
  std::vector<std::unique_ptr<Sender>> senders;
  for (const auto& n : nodes.all) senders.push_back(std::make_unique<Sender>(n->service->telemetry));
  uint64_t comm_uid = 0xa0;
  std::set<uint64_t> acknowledged;
  for (const bool leads : {true, false}) {
    for (const bool stop : {false, true}) {
      INFO((stop ? "stopped" : "killed") << (leads ? ", the one that leads the log" : ""));
      REQUIRE(wait_until([&] { return is_whole(nats); }, whole_max));
      size_t leader = nats.count();
      REQUIRE(wait_until([&] { return (leader = nats.leader_of("ccld-ccld-log", 0)) < nats.count(); }));
      const size_t victim = leads ? leader : (leader + 1) % nats.count();
      if (stop)
        nats.signal(victim, SIGSTOP);
      else
        nats.kill(victim);
      const size_t from = comm_uid % 3;
      REQUIRE(is_found(nodes, Mismatch(++comm_uid, {senders[from].get(), senders[(from + 1) % 3].get()})));
      // Also what an operator says is kept meanwhile.
      const uint64_t newest = *nodes.incidents().rbegin();
      REQUIRE(wait_until([&] {
        return nodes[from].service->ask({"ack", std::to_string(newest), "--note", "on it"}).status == 0;
      }));
      acknowledged.insert(newest);
      if (stop)
        nats.signal(victim, SIGCONT);
      else
        nats.start(victim);
      REQUIRE(is_found(nodes, Mismatch(++comm_uid, {senders[0].get(), senders[2].get()})));
    }
  }
  CHECK(nodes.incidents().size() == 8);
  nodes.check_told_once();
  // Every node knows all of it, also who leads next.
  for (std::set<size_t> gone; gone.size() < 3;) {
    const size_t leads = nodes.leader(gone);
    const Json all = nodes[leads].ask("/v1/incidents");
    INFO(all.dump());
    CHECK(all["incidents"].size() == 8);
    for (uint64_t id : acknowledged) CHECK(incident(all, id)["acknowledged"]["note"] == "on it");
    nodes[leads].kill();
    gone.insert(leads);
  }
}

TEST_CASE("Without the majority of the NATS servers nobody leads; when it is back one does, and nothing is lost") {
  NatsServers nats(3);
  Nodes nodes(nats);
  nodes.leader();
  Sender sender(nodes[0].service->telemetry), other(nodes[1].service->telemetry);
  REQUIRE(is_found(nodes, Mismatch(0xa1, {&sender, &other})));
  REQUIRE(wait_until([&] { return is_whole(nats); }, whole_max));
  nats.kill(0), nats.kill(1);
  REQUIRE(wait_until(
      [&] { return std::none_of(nodes.all.begin(), nodes.all.end(), [](const auto& n) { return n->leads(); }); }));
  const Mismatch meanwhile{0xa2, {&sender, &sender}};
  meanwhile.send(1);
  REQUIRE(wait_until([&] { return nodes[0].ask("/v1/status")["incidents_open"] == 2; }));
  CHECK_FALSE(nodes.told(meanwhile.comm_uid));
  nats.start(0), nats.start(1);
  REQUIRE(is_found(nodes, meanwhile));
  const size_t leads = nodes.leader();
  REQUIRE(wait_until([&] { return nodes[leads].ask("/v1/incidents")["incidents"].size() == 2; }));
  CHECK(nodes.incidents() == std::set<uint64_t>{1, 2});
  nodes.check_told_once();
}

TEST_CASE("A NATS server that comes back without its disk gets the streams anew, and numbers go on") {
  NatsServers nats;
  Nodes nodes(nats);
  nodes.leader();
  Sender sender(nodes[0].service->telemetry);
  REQUIRE(is_found(nodes, Mismatch(0xa1, {&sender, &sender})));
  REQUIRE(is_found(nodes, Mismatch(0xa2, {&sender, &sender})));
  // What only the log and its leader have is lost with the log.
  REQUIRE(wait_until([&] { return nodes.have_all_that_was_told(); }));
  nats.kill(0);
  nats.forget(0);
  nats.start(0);
  REQUIRE(is_found(nodes, Mismatch(0xa3, {&sender, &sender})));
  CHECK(nodes.incidents() == std::set<uint64_t>{1, 2, 3});
  nodes.check_told_once();
}

TEST_CASE("NATS servers that refuse the nodes for a while have them back, also where the client has given up") {
  NatsServers nats;
  Nodes nodes(nats);
  nodes.leader();
  Sender sender(nodes[0].service->telemetry);
  REQUIRE(is_found(nodes, Mismatch(0xa1, {&sender, &sender})));
  nats.kill(0);
  nats.start(0, "authorization { user: somebody, password: else }\n");
  for (const auto& n : nodes.all) CHECK(n->service->child.wait_for_error("is tried again every", start_max) != "");
  nats.kill(0);
  nats.start(0);
  REQUIRE(is_found(nodes, Mismatch(0xa2, {&sender, &sender})));
  CHECK(nodes.incidents() == std::set<uint64_t>{1, 2});
  nodes.check_told_once();
}

TEST_CASE("A revision that is longer than the NATS servers take is left out and said; the node leads on") {
  const NatsServers nats(1, "127.0.0.1", "max_payload: 1500\n");
  const Node node("a", nats);
  REQUIRE(wait_until([&] { return node.leads(); }));
  Sender sender(node.service->telemetry);
  Mismatch(0xa1, {&sender, &sender}).send(1);
  CHECK(node.service->child.wait_for_error("the log takes no entry so long", start_max) != "");
  CHECK(node.leads());
  CHECK(node.told().empty());
}

}  // namespace ccld::test
