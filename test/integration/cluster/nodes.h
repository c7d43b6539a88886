// Nodes of a cluster as processes, what they told, and faults for them to find.
#pragma once

#include <map>
#include <set>

#include "test/integration/cluster/nats_servers.h"
#include "test/support/catch/catch.h"

namespace ccld::test {

constexpr std::chrono::seconds failover_max(10);  // of which the lease takes three

// Where a node runs, if not beside the test: the command that runs it there, and its flags to listen.
struct Place {
  std::vector<std::string> within, listen;
};

class Node {
 public:
  Node(std::string name, const NatsServers& nats, std::vector<std::string> more = {}, Place place = {})
      : name_(std::move(name)), nats_(nats), more_(std::move(more)), place_(std::move(place)) {
    start();
  }

  void start() {
    std::vector<std::string> flags = {"--cluster-node", name_, "--state", state(), "--set", "mismatch_settle_s=0"};
    flags.insert(flags.end(), more_.begin(), more_.end());
    const auto unless_given = [&](const char* flag, const std::string& value) {
      if (std::find(more_.begin(), more_.end(), flag) == more_.end()) flags.insert(flags.end(), {flag, value});
    };
    unless_given("--cluster", nats_.urls());
    unless_given("--verdicts", folder_.file("v.jsonl"));
    flags.insert(flags.end(), place_.listen.begin(), place_.listen.end());
    service = std::make_unique<Service>(flags, place_.listen.empty(), place_.within);
  }
  // The last that it has logged, for who looks for a failure.
  std::string log() const {
    service->child.wait_for_error("\x01", Milliseconds(5));
    const std::string& all = service->child.error();
    return name_ + ": " + all.substr(all.size() - std::min<size_t>(all.size(), 1500));
  }
  void kill() {
    service->child.signal(SIGKILL);
    service->child.wait();
  }
  // As an operator ends it.
  void end() {
    service->child.signal(SIGTERM);
    CHECK(service->child.wait(start_max) == 0);
  }
  const std::string& name() const { return name_; }
  std::string state() const { return folder_.file("state"); }
  Json cluster() const { return ask("/v1/cluster"); }
  bool leads() const { return cluster()["leads"]; }
  bool has_all() const {
    const Json c = cluster();
    return c["connected"] == true && c["leader"].is_string() && c["log"]["last"] > 0 &&
           c["log"]["applied"] == c["log"]["last"];
  }
  // As a client asks that follows redirects.
  Json ask(const std::string& path) const {
    httplib::Client client(service->http);
    client.set_follow_location(true);
    client.set_read_timeout(start_max);  // on a machine that has no processor for it
    const auto answer = client.Get(path);
    REQUIRE(answer);
    return Json::parse(answer->body);
  }
  // What it has told. A line that a kill cut off is none.
  const std::vector<Json>& told() const {
    std::ifstream file(folder_.file("v.jsonl"));
    file.seekg(told_bytes_);
    for (std::string line; std::getline(file, line) && !file.eof();) {
      told_bytes_ += static_cast<std::streamoff>(line.size()) + 1;
      if (Json v = Json::parse(line, nullptr, false); v.is_object()) told_.push_back(std::move(v));
    }
    return told_;
  }

 private:
  const std::string name_;
  const NatsServers& nats_;
  const std::vector<std::string> more_;
  const Place place_;
  Folder folder_;
  mutable std::vector<Json> told_;  // as far as the file has been read
  mutable std::streamoff told_bytes_ = 0;

 public:
  std::unique_ptr<Service> service;  // goes before its folder
};

inline bool wait_until(const std::function<bool()>& wished, std::chrono::seconds timeout = std::chrono::seconds(30)) {
  const auto deadline = Clock::now() + timeout;
  while (!wished()) {
    if (Clock::now() > deadline) return false;
    usleep(20'000);
  }
  return true;
}

struct Nodes {
  std::vector<std::unique_ptr<Node>> all;
  // `place`: of the first one.
  explicit Nodes(const NatsServers& nats, const std::vector<std::string>& more = {}, const Place& place = {}) {
    for (const char* name : {"a", "b", "c"})
      all.push_back(std::make_unique<Node>(name, nats, more, all.empty() ? place : Place()));
  }
  Node& operator[](size_t i) { return *all[i]; }
  // The one that leads, of those that run; waits for it.
  size_t leader(const std::set<size_t>& gone = {}) {
    size_t found = all.size();
    const bool one_leads = wait_until(
        [&] {
          size_t count = 0;
          for (size_t i = 0; i < all.size(); ++i)
            if (!gone.contains(i) && all[i]->leads()) found = i, ++count;
          return count == 1;
        },
        std::chrono::seconds(60));
    if (!one_leads) {
      for (const auto& n : all) UNSCOPED_INFO(n->log());
      FAIL("not one node leads");
    }
    return found;
  }
  // In the history of each, on its disk: what a node answers may be a moment old.
  bool have_all_that_was_told() const {
    const auto told_so_far = told();
    return std::all_of(all.begin(), all.end(), [&](const auto& n) {
      const Finished asked = run({ccld, "incidents", "--json", "--state", n->state()});
      const Json kept = Json::parse(asked.output, nullptr, false);
      if (asked.status != 0 || !kept.is_object()) return false;
      std::map<uint64_t, uint64_t> newest;
      for (const Json& i : kept["incidents"])
        newest[i["incident"].template get<uint64_t>()] = i["revision"].template get<uint64_t>();
      return std::all_of(told_so_far.begin(), told_so_far.end(), [&](const auto& t) {
        const auto found = newest.find(t.first.first);
        return found != newest.end() && found->second >= t.first.second;
      });
    });
  }
  // All of them have applied all of the same log: a node alone may not know yet that there is more.
  bool have_same_log() const {
    const Json log = all[0]->cluster()["log"];
    return log["applied"] == log["last"] &&
           std::all_of(all.begin(), all.end(), [&](const auto& n) { return n->cluster()["log"] == log; });
  }
  // Every revision that anybody was told, and how often.
  std::map<std::pair<uint64_t, uint64_t>, int> told() const {
    std::map<std::pair<uint64_t, uint64_t>, int> count;
    for (const auto& n : all)
      for (const Json& v : n->told()) ++count[{v["incident"].get<uint64_t>(), v["revision"].get<uint64_t>()}];
    return count;
  }
  bool told(uint64_t comm_uid) const {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(comm_uid));
    for (const auto& n : all)
      for (const Json& v : n->told())
        if (v["communicator"] == text) return true;
    return false;
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
class Mismatch {
 public:
  Mismatch(uint64_t comm, std::vector<Sender*> by_rank) : comm_uid(comm), senders(std::move(by_rank)) {}
  const uint64_t comm_uid;
  const std::vector<Sender*> senders;  // by rank
  void send(uint64_t batch_seq) const {
    for (int32_t rank = 0; rank < 2; ++rank) senders[static_cast<size_t>(rank)]->send(batch(rank, batch_seq));
  }
  Bytes batch(int32_t rank, uint64_t batch_seq) const {
    const std::vector<uint64_t> counts = {1024, 2048};
    WireBatch b;
    add_rank(b, comm_uid, rank, 2, counts[static_cast<size_t>(rank)]);
    return finished(b, rank, batch_seq);
  }
  // Its job ends.
  void end(uint64_t batch_seq) const {
    for (int32_t rank = 0; rank < 2; ++rank) {
      WireBatch b;
      b.add(wire::Payload::CommDown, wire::CreateCommDown(b.fbb, comm_uid, rank, 4, 9));
      senders[static_cast<size_t>(rank)]->send(finished(b, rank, batch_seq));
    }
  }

 private:
  Bytes finished(WireBatch& b, int32_t rank, uint64_t batch_seq) const {
    WireProcess p = process_of(rank, batch_seq);
    p.pid += static_cast<uint32_t>(comm_uid * 100);
    return b.finish(p);
  }
};

// Sends it again, as a probe does, until somebody has told of it.
inline bool is_found(const Nodes& nodes, const Mismatch& fault, uint64_t batch_seq = 0) {
  auto next = Clock::now();
  return wait_until([&] {
    if (Clock::now() >= next) fault.send(++batch_seq), next = Clock::now() + Milliseconds(300);
    return nodes.told(fault.comm_uid);
  });
}

inline Json incident(const Json& incidents, uint64_t id) {
  for (const Json& i : incidents["incidents"])
    if (i["incident"] == id) return i;
  return nullptr;
}

}  // namespace ccld::test
