// Other users of the NATS servers than nodes: what they hear, and what their messages do.
#include "test/integration/cluster/nats_client.h"
#include "test/integration/cluster/nats_identities.h"
#include "test/integration/cluster/nodes.h"

namespace ccld::test {
namespace {

constexpr uint64_t invented = 0xf0;

struct Cluster {
  Cluster(const NatsServers& nats, const std::string& credentials) : nodes(nats, flags(credentials)) {}
  std::vector<std::string> flags(const std::string& credentials) const {
    std::ofstream(folder.file("credentials")) << credentials;
    return {"--cluster-credentials-file", folder.file("credentials")};
  }
  Folder folder;
  Nodes nodes;
};

// Telemetry of a fault that is none, as of a node that is none.
void invent(NatsClient& client, uint64_t batch_seq) {
  const Mismatch fault{invented, {}};
  for (int32_t rank = 0; rank < 2; ++rank) {
    const Bytes batch = fault.batch(rank, batch_seq);
    client.say("ccld.ccld.telemetry.forged", "\x01x" + std::string(batch.begin(), batch.end()));
  }
}

// That another node is there, and leads.
void pretend(NatsClient& client) {
  client.say("ccld.ccld.nodes", R"({"node": "forged", "leads": true, "http": "http://127.0.0.1:1"})");
}

bool is_believed(Node& node) { return contains(node.cluster()["nodes"].dump(), "forged"); }

// Also by the name of the servers' JetStream domain. Who may not ask gets no answer.
bool deletes_a_stream(NatsClient& client, int64_t wait_ms) {
  bool deleted = false;
  for (const char* api : {"$JS.API", "$JS.hub.API"})
    for (const char* stream : {"ccld-ccld-lease", "ccld-ccld-log"})
      deleted |= contains(client.ask(std::string(api) + ".STREAM.DELETE." + stream, "", wait_ms).value_or(""),
                          "\"success\":true");
  return deleted;
}

// `outsider` can do nothing to the nodes and hears what it says itself, `echoed` of it, while `insider` shows what
// their account's users could do.
void check_protected(Nodes& nodes, NatsClient& outsider, const std::map<std::string, int>& echoed,
                     NatsClient& insider) {
  const size_t leader = nodes.leader();
  Sender sender(nodes[0].service->telemetry), other(nodes[1].service->telemetry);
  outsider.listen(">");
  insider.listen(">");

  pretend(outsider);
  invent(outsider, 1);
  for (const char* stream : {"lease", "log"}) outsider.say("ccld.ccld." + std::string(stream), "{}");
  outsider.say("hello", "");
  REQUIRE(is_found(nodes, Mismatch(0xa1, {&sender, &other})));
  CHECK(Json(outsider.heard()) == Json(echoed));
  const auto all = insider.heard();
  CHECK(all.contains("ccld.ccld.telemetry.a"));
  CHECK(all.contains("ccld.ccld.log"));

  CHECK_FALSE(deletes_a_stream(outsider, 500));
  REQUIRE(is_found(nodes, Mismatch(0xa2, {&sender, &other})));
  CHECK(nodes.incidents() == std::set<uint64_t>{1, 2});
  CHECK_FALSE(nodes.told(invented));
  nodes.check_told_once();
  CHECK(nodes[leader].leads());
  for (const auto& n : nodes.all) {
    CHECK_FALSE(is_believed(*n));
    CHECK_FALSE(contains(n->service->child.error(), "does not lead any more"));
  }
  CHECK(wait_until([&] { return nodes.have_all_that_was_told() && nodes.have_same_log(); }));

  uint64_t beat = 0;
  CHECK(wait_until([&] {
    pretend(insider);
    invent(insider, ++beat);
    return is_believed(nodes[leader]) && nodes.told(invented);
  }));
  CHECK(deletes_a_stream(insider, 30'000));
}

}  // namespace

TEST_CASE("Users of another account hear nothing of the nodes and change nothing", "[accounts]") {
  const NatsOperator ours;
  const NatsAccount of_nodes, of_others;
  const NatsServers nats(1, "127.0.0.1", ours.config({&of_nodes, &of_others}));
  Cluster cluster(nats, of_nodes.user());
  NatsClient outsider(nats.urls(), of_others.user()), insider(nats.urls(), of_nodes.user());
  const std::map<std::string, int> itself = {{"ccld.ccld.nodes", 1},
                                             {"ccld.ccld.telemetry.forged", 2},
                                             {"ccld.ccld.lease", 1},
                                             {"ccld.ccld.log", 1},
                                             {"hello", 1}};
  check_protected(cluster.nodes, outsider, itself, insider);
}

TEST_CASE("In an account of all, users who are denied the nodes' subjects and JetStream hear and change nothing",
          "[accounts]") {
  const NatsOperator ours;
  const NatsAccount shared;
  const NatsServers nats(1, "127.0.0.1", ours.config({&shared}));
  // As SECURITY.md says.
  Cluster cluster(nats, shared.user({.publish = {"ccld.ccld.>", "$JS.API.>"}, .subscribe = {"ccld.ccld.>"}}));
  const std::vector<std::string> denied = {"ccld.ccld.>", "$JS.>"};
  NatsClient outsider(nats.urls(), shared.user({.publish_denied = denied, .subscribe_denied = denied})),
      insider(nats.urls(), shared.user());
  check_protected(cluster.nodes, outsider, {{"hello", 1}}, insider);
}

TEST_CASE("A node whose user lacks a right says which one, once, and leads once it has it", "[accounts]") {
  const NatsOperator ours;
  const NatsAccount shared;
  NatsServers nats(1, "127.0.0.1", ours.config({&shared}));
  const Folder folder;
  const auto become = [&](const NatsRights& rights) {
    std::ofstream(folder.file("credentials")) << shared.user(rights);
  };
  become({.publish = {"ccld.ccld.>"}, .subscribe = {"ccld.ccld.>"}});
  const Node node("node", nats, {"--cluster-credentials-file", folder.file("credentials")});
  const std::string lacks =
      "this node's user lacks a right: Permissions Violation for Publish to \"$JS.API.STREAM.INFO.ccld-ccld-lease\"";
  CHECK(node.service->child.wait_for_error(lacks, start_max) != "");
  // It asks again and again.
  CHECK(wait_until([&] { return nats.messages_from_clients(0) > 5; }));
  CHECK_FALSE(node.leads());
  (void)node.log();
  const std::string& all = node.service->child.error();
  CHECK(all.find(lacks) == all.rfind(lacks));
  become({.publish = {"ccld.ccld.>", "$JS.API.>"}, .subscribe = {"ccld.ccld.>"}});
  nats.kill(0);
  nats.start(0, ours.config({&shared}));
  CHECK(wait_until([&] { return node.leads(); }));
}

TEST_CASE("Servers that refuse entries of the log: the nodes say why, try in turn, and tell once it takes them",
          "[accounts]") {
  const NatsOperator ours;
  const NatsAccount account;
  const NatsServers nats(1, "127.0.0.1", ours.config({&account}));
  Cluster cluster(nats, account.user());
  Nodes& nodes = cluster.nodes;
  const size_t first = nodes.leader();
  NatsClient client(nats.urls(), account.user());
  const auto info = Json::parse(client.ask("$JS.API.STREAM.INFO.ccld-ccld-log").value_or(""));
  const auto configure = [&](Json config) {
    const auto answer = client.ask("$JS.API.STREAM.UPDATE.ccld-ccld-log", config.dump()).value_or("");
    INFO(answer);
    REQUIRE_FALSE(contains(answer, "\"error\""));
  };
  Json full = info["config"];
  full["discard"] = "new";  // what is there stays, and there is no room: as on a full disk
  full["max_msgs"] = info["state"]["messages"];
  configure(full);
  Sender sender(nodes[first].service->telemetry);
  const Mismatch fault{0xa1, {&sender, &sender}};
  fault.send(1);
  CHECK(nodes[first].service->child.wait_for_error("refuse an entry of the log", start_max) != "");
  CHECK(wait_until([&] { return contains(nodes[first].cluster()["log"]["error"].dump(), "maximum messages"); }));
  CHECK(contains(nodes[first].service->ask({"cluster"}).output, "NATS refuses entries of the log"));
  const size_t second = (first + 1) % 3;
  CHECK(nodes[first].service->child.wait_for_error("does not lead any more: the servers refuse", start_max) != "");
  REQUIRE(wait_until([&] { return nodes[second].cluster()["log"]["error"].is_string(); }));
  CHECK(nodes.told().empty());
  configure(info["config"]);
  nodes.leader();
  REQUIRE(is_found(nodes, fault, 1));
  CHECK(wait_until([&] {
    return std::all_of(nodes.all.begin(), nodes.all.end(),
                       [](const auto& n) { return n->cluster()["log"]["error"].is_null(); });
  }));
  nodes.check_told_once();
}

}  // namespace ccld::test
