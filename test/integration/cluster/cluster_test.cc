// Several services that stand in for each other: whichever node a probe is connected to, one of them tells what is
// found, once, and goes on where another one was killed, stopped or cut off.
#include <map>
#include <set>

#include "test/integration/cluster/nats_servers.h"
#include "test/support/catch/catch.h"

namespace ccld::test {
namespace {

constexpr std::chrono::seconds failover_max(10);  // of which the lease takes three

class Node {
 public:
  Node(std::string name, const NatsServers& nats, std::vector<std::string> more = {})
      : name_(std::move(name)), nats_(nats), more_(std::move(more)) {
    start();
  }

  void start() {
    std::vector<std::string> flags = {"--cluster", nats_.urls(),          "--cluster-node", name_,
                                      "--state",   folder_.file("state"), "--verdicts",     folder_.file("v.jsonl"),
                                      "--set",     "mismatch_settle_s=0"};
    flags.insert(flags.end(), more_.begin(), more_.end());
    service = std::make_unique<Service>(flags);
  }
  void kill() {
    service->child.signal(SIGKILL);
    service->child.wait();
  }
  const std::string& name() const { return name_; }
  Json cluster() const { return service->get("/v1/cluster"); }
  bool leads() const { return cluster()["leads"]; }
  // As a client asks that follows redirects.
  Json ask(const std::string& path) const {
    httplib::Client client(service->http);
    client.set_follow_location(true);
    const auto answer = client.Get(path);
    REQUIRE(answer);
    return Json::parse(answer->body);
  }
  // What it has told.
  std::vector<Json> told() const {
    std::vector<Json> all;
    std::ifstream file(folder_.file("v.jsonl"));
    for (std::string line; std::getline(file, line);)
      if (Json v = Json::parse(line, nullptr, false); v.is_object()) all.push_back(std::move(v));
    return all;
  }

  std::unique_ptr<Service> service;

 private:
  const std::string name_;
  const NatsServers& nats_;
  const std::vector<std::string> more_;
  Folder folder_;
};

bool wait_until(const std::function<bool()>& wished, std::chrono::seconds patience = std::chrono::seconds(60)) {
  const auto deadline = Clock::now() + patience;
  while (!wished()) {
    if (Clock::now() > deadline) return false;
    usleep(20'000);
  }
  return true;
}

struct Nodes {
  std::vector<std::unique_ptr<Node>> all;
  Nodes(const NatsServers& nats, const std::vector<std::string>& more = {}) {
    for (const char* name : {"a", "b", "c"}) all.push_back(std::make_unique<Node>(name, nats, more));
  }
  Node& operator[](size_t i) { return *all[i]; }
  // The one that leads, of those that run; waits for it.
  size_t leader(const std::set<size_t>& gone = {}) {
    size_t found = all.size();
    REQUIRE(wait_until([&] {
      size_t count = 0;
      for (size_t i = 0; i < all.size(); ++i)
        if (!gone.contains(i) && all[i]->leads()) found = i, ++count;
      return count == 1;
    }));
    return found;
  }
  // Every revision that anybody was told, and how often.
  std::map<std::pair<uint64_t, uint64_t>, int> told() const {
    std::map<std::pair<uint64_t, uint64_t>, int> count;
    for (const auto& n : all)
      for (const Json& v : n->told()) ++count[{v["incident"].get<uint64_t>(), v["revision"].get<uint64_t>()}];
    return count;
  }
  std::set<uint64_t> incidents() const {
    std::set<uint64_t> ids;
    for (const auto& [key, times] : told()) ids.insert(key.first);
    return ids;
  }
  void check_told_once() const {
    for (const auto& [key, times] : told()) {
      INFO("incident " << key.first << " revision " << key.second);
      CHECK(times == 1);
    }
  }
};

// A communicator of two ranks which call with other counts. `batch_seq`: of its processes, one more each time.
struct Mismatch {
  uint64_t comm_uid;
  std::vector<Sender*> senders;  // by rank
  void send(uint64_t batch_seq) const {
    const std::vector<uint64_t> counts = {1024, 2048};
    for (int32_t rank = 0; rank < 2; ++rank) {
      WireBatch b;
      add_comm_up(b, {.comm_uid = comm_uid, .rank = rank, .rank_count = 2, .local_rank = rank, .cuda_device = rank});
      WireRounds rounds;
      rounds.comm_uid = comm_uid;
      rounds.rank = rank;
      rounds.signatures = {wire_signature(counts[static_cast<size_t>(rank)])};
      add_rounds(b, rounds);
      add_in_flight(b, {.comm_uid = comm_uid, .rank = rank});
      WireProcess p = process_of(rank, batch_seq);
      p.pid += static_cast<uint32_t>(comm_uid * 100);
      senders[static_cast<size_t>(rank)]->send(b.finish(p));
    }
  }
};

Json incident(const Json& incidents, uint64_t id) {
  for (const Json& i : incidents["incidents"])
    if (i["incident"] == id) return i;
  return nullptr;
}

}  // namespace

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
  fault.send(1);
  REQUIRE(wait_until([&] { return !nodes[first].told().empty(); }));
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
  fault.send(2);  // as a probe goes on
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
  fault.send(2);
  REQUIRE(wait_until([&] { return !nodes.told().empty(); }));
  CHECK(nodes.incidents().size() == 1);
  nodes.check_told_once();
}

TEST_CASE("A node that is told tls:// does not speak in the clear to a server that takes it") {
  const NatsServers nats;
  const Folder folder;
  const std::string url = "tls" + nats.urls().substr(std::string("nats").size());
  const auto said = run({"timeout", "4", ccld, "serve", "--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0",
                         "--state", folder.file("state"), "--cluster", url});
  INFO(said.error);
  CHECK_FALSE(contains(said.error, "leads"));
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

}  // namespace ccld::test

int main(int argc, char** argv) {
  if (ccld::test::NatsServers::program().empty()) {
    std::puts("skipped: nats-server is not installed");
    return 77;
  }
  return ccld::test::run_tests(argc, argv);
}
