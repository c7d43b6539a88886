// The webhook of a cluster: its receiver gets every revision, also those of which only a killed node had told.
#include "test/integration/cluster/nodes.h"
#include "test/integration/serve/receiver.h"

namespace ccld::test {
namespace {

using Key = std::pair<uint64_t, uint64_t>;

// The `delivery` of each revision; one that came twice has the same one.
std::map<Key, std::string> deliveries(const std::vector<httplib::Request>& messages) {
  std::map<Key, std::string> all;
  for (const httplib::Request& request : messages) {
    const Json m = Json::parse(request.body);
    if (m["event"] != "incident.revised" && m["event"] != "incident.closed") continue;
    const Json& i = m["incident"];
    const std::string delivery = m["delivery"];
    CHECK(all.try_emplace({i["incident"].get<uint64_t>(), i["revision"].get<uint64_t>()}, delivery).first->second ==
          delivery);
  }
  return all;
}

}  // namespace

TEST_CASE("The receiver gets every revision across failovers, also what a killed node had told and not delivered") {
  const NatsServers nats;
  Receiver receiver;
  Nodes nodes(nats, {"--webhook", receiver.url()});
  std::set<size_t> gone;
  uint64_t comm_uid = 0xa0;
  std::map<Key, std::string> refused;
  for (int failover = 0; failover < 2; ++failover) {
    const size_t leads = nodes.leader(gone);
    const size_t beside = (leads + 1) % 3 == (gone.empty() ? 3 : *gone.begin()) ? (leads + 2) % 3 : (leads + 1) % 3;
    Sender sender(nodes[beside].service->telemetry);
    receiver.answer(200);
    const Mismatch delivered{++comm_uid, {&sender, &sender}};
    delivered.send(1);
    const size_t id = nodes.incidents().size() + 1;
    REQUIRE(wait_until([&] { return deliveries(receiver.all_taken()).contains({id, 1}); }));
    // Told, and refused: then the node is killed.
    receiver.answer(503);
    const Mismatch waits{++comm_uid, {&sender, &sender}};
    waits.send(1);
    REQUIRE(wait_until([&] {
      refused = deliveries(receiver.all_refused());
      return refused.contains({id + 1, 1});
    }));
    REQUIRE(wait_until([&] { return nodes.told(waits.comm_uid); }));
    nodes[leads].kill();
    gone.insert(leads);
    receiver.answer(200);
    REQUIRE(wait_until([&] { return deliveries(receiver.all_taken()).contains({id + 1, 1}); }));
  }
  // The last one goes on as well.
  const size_t last = nodes.leader(gone);
  const auto all_came = [&] {
    const auto taken = deliveries(receiver.all_taken());
    const auto told = nodes.told();
    return std::all_of(told.begin(), told.end(), [&](const auto& t) { return taken.contains(t.first); });
  };
  REQUIRE(wait_until(all_came));
  const auto taken = deliveries(receiver.all_taken());
  for (const auto& [key, delivery] : deliveries(receiver.all_refused())) CHECK(taken.at(key) == delivery);
  CHECK(nodes.incidents().size() == 4);
  for (const Json& i : nodes[last].ask("/v1/incidents")["incidents"])
    CHECK(taken.contains({i["incident"].get<uint64_t>(), i["revision"].get<uint64_t>()}));
  nodes.check_told_once();
}

}  // namespace ccld::test
