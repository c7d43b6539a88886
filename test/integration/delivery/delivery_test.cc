// The probe and the service with all that can be between them, over real sockets: what the job's log says, once, what
// `ccld frames` shows, and that what was not delivered is counted. Times are those of the product
// (probe/agent/service_watch.h).
#include <cstdio>
#include <filesystem>
#include <map>

#include "test/integration/admission/keys.h"
#include "test/integration/serve/service.h"
#include "test/support/net/listener.h"

namespace ccld::test {
namespace {

// The longest that something is noticed late (an answer is asked for every 5 s and waited for 10 s), and some for a
// busy machine.
constexpr Milliseconds noticed(90000);

class Probe {
 public:
  explicit Probe(const std::string& endpoint, const std::vector<std::string>& more = {})
      : process_({DELIVERY_PROBE}, environment(endpoint, more)) {}

  std::string says(const std::string& part) { return process_.wait_for_output(part, noticed); }
  // Ends like a process that ends by itself.
  bool ends() {
    process_.signal(SIGTERM);
    return process_.wait() == 0;
  }
  size_t warnings(const std::string& about = "") const {
    size_t count = 0;
    std::istringstream lines(process_.output());
    for (std::string line; std::getline(lines, line);) count += line.rfind("WARN ", 0) == 0 && contains(line, about);
    return count;
  }
  // Nothing while the process has no file, or the command did not end in time.
  Json part(const char* name) const {
    const Finished frames = run({ccld, "frames", "--dir", folder_.path.string(), "--json"});
    if (frames.status != 0) return Json();
    const Json processes = Json::parse(frames.output)["processes"];
    return processes.empty() ? Json() : processes[0][name];
  }
  Json service() const { return part("service"); }
  // Looks until it is so.
  Json service_when(const std::function<bool(const Json&)>& wished) const {
    const auto deadline = Clock::now() + noticed;
    Json service;
    do {
      service = this->service();
      if (!service.is_null() && wished(service)) return service;
      usleep(100'000);
    } while (Clock::now() < deadline);
    FAIL("it did not become as wished: " << service.dump());
    return service;
  }
  Json service_is(const std::string& state) const {
    return service_when([&state](const Json& s) { return s["state"] == state; });
  }

 private:
  std::vector<std::string> environment(const std::string& endpoint, const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"NCCL_PROBE_ENDPOINT=" + endpoint,
                                    "NCCL_PROBE_FRAMES_DIR=" + folder_.path.string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Folder folder_;
  ChildProcess process_;
};

uint64_t count(const Json& service, const char* name) { return service[name].get<uint64_t>(); }

std::string loopback(int port) { return "tcp://127.0.0.1:" + std::to_string(port); }

std::unique_ptr<Service> service_at(int port) {
  return std::make_unique<Service>(std::vector<std::string>{"--listen", loopback(port), "--http", "127.0.0.1:0"},
                                   false);
}

// The number in "... is there; meanwhile N batches were not delivered".
uint64_t undelivered_in(const std::string& line) {
  const std::string before = "meanwhile ";
  const size_t at = line.find(before);
  REQUIRE(at != std::string::npos);
  return std::stoull(line.substr(at + before.size()));
}

}  // namespace

TEST_CASE("Nothing listens, then the service comes: a line each, and what found no room is counted", "[late]") {
  const int port = free_port();
  Probe probe(loopback(port), {"NCCL_PROBE_QUEUE_MAX=2"});
  const std::string line = probe.says("WARN the service at");
  CHECK(contains(line, loopback(port) + " (NCCL_PROBE_ENDPOINT) cannot be reached: nothing listens there"));
  const Json alone = probe.service_when([](const Json& s) { return count(s, "undelivered_batches") >= 2; });
  CHECK(alone["state"] == "refused");
  CHECK(count(alone, "acknowledged_batches") == 0);
  CHECK(count(alone, "waiting_batches") == 2);

  const auto service = service_at(port);
  const uint64_t undelivered = undelivered_in(probe.says("is there"));
  CHECK(undelivered >= count(alone, "undelivered_batches"));
  const Json there = probe.service_when([](const Json& s) { return count(s, "acknowledged_batches") >= 3; });
  CHECK(there["state"] == "reached");
  CHECK(count(there, "undelivered_batches") >= undelivered);
  CHECK(count(there, "waiting_batches") == 0);
  service->status_when([&](const Json& s) { return s["undelivered_batches"] >= undelivered; });
  CHECK(probe.ends());
  CHECK(probe.warnings() == 2);
}

TEST_CASE("A name without an address is told apart from a service that is not there", "[unresolved]") {
  Probe probe("tcp://no-such-host.invalid:5566");
  // Which of the ways not to be there it is may be known later: name servers that do not answer take their time.
  CHECK(contains(probe.says("WARN the service at"), "cannot be reached: "));
  CHECK(count(probe.service_is("unresolved"), "acknowledged_batches") == 0);
  CHECK(probe.ends());
  CHECK(probe.warnings() == 1);
}

TEST_CASE("Who listens and does not speak ZeroMQ is said to be something else", "[mute]") {
  const Listener listener;
  Probe probe(listener.endpoint());
  CHECK(contains(probe.says("WARN the service at"), "does not answer as ZeroMQ does"));
  CHECK(count(probe.service_is("mute"), "acknowledged_batches") == 0);
  CHECK(probe.ends());
  CHECK(probe.warnings() == 1);
}

TEST_CASE("Who speaks ZeroMQ and acknowledges nothing is said to be deaf, and what is sent there is unconfirmed",
          "[deaf]") {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.bind("tcp://127.0.0.1:*");
  Probe probe(router.get(zmq::sockopt::last_endpoint));
  CHECK(contains(probe.says("WARN the service at"), "is connected and has acknowledged no batch for 10 s"));
  const Json deaf = probe.service_is("deaf");
  CHECK(count(deaf, "acknowledged_batches") == 0);
  CHECK(count(deaf, "unconfirmed_batches") >= 2);
  CHECK(probe.ends());
  CHECK(probe.warnings() == 1);
}

TEST_CASE("A stopped service is said once, and again when it goes on; nothing is lost by that", "[stopped]") {
  Service service;
  Probe probe(service.telemetry);
  probe.service_is("reached");
  service.child.signal(SIGSTOP);
  CHECK(contains(probe.says("WARN the service at"),
                 "is connected and has acknowledged no batch for 10 s: it is stopped"));
  const Json stalled = probe.service_is("stalled");
  service.child.signal(SIGCONT);
  CHECK(undelivered_in(probe.says("is there; ")) == 0);
  const Json there = probe.service_when([&stalled](const Json& s) {
    return count(s, "acknowledged_batches") >=
           count(stalled, "acknowledged_batches") + count(stalled, "unconfirmed_batches");
  });
  CHECK(count(there, "undelivered_batches") == 0);
  CHECK(probe.ends());
  CHECK(probe.warnings() == 2);
}

TEST_CASE("A service that is killed and restarted at once is no news, later it is", "[killed]") {
  const int port = free_port();
  auto service = service_at(port);
  Probe probe(loopback(port));
  probe.says("is there");
  service->child.signal(SIGKILL);
  service.reset();
  service = service_at(port);
  const auto any = [](const Json&) { return true; };
  const uint64_t before = count(probe.service_when(any), "acknowledged_batches");
  probe.service_when([before](const Json& s) { return count(s, "acknowledged_batches") > before + 1; });
  CHECK(probe.warnings() == 0);

  service->child.signal(SIGKILL);
  service.reset();
  CHECK(contains(probe.says("WARN the service at"), "cannot be reached"));
  const Json gone = probe.service_is("refused");
  CHECK(count(gone, "waiting_batches") >= 1);
  service = service_at(port);
  CHECK(undelivered_in(probe.says("is there; ")) == 0);  // they waited
  CHECK(count(probe.service_is("reached"), "undelivered_batches") == 0);
  CHECK(probe.ends());
  CHECK(probe.warnings() == 2);
}

// Two nodes of one service, and a process that uses one of them.
struct TwoNodes {
  TwoNodes() : probe(nodes[0].telemetry + "," + nodes[1].telemetry) {
    probe.says("is there");
    // What is shown may be a heartbeat old.
    const auto deadline = Clock::now() + noticed;
    for (Json shown; shown != nodes[0].telemetry && shown != nodes[1].telemetry && Clock::now() < deadline;) {
      const Json part = probe.part("probe");
      if (!part.is_null()) shown = part["endpoint"];
      used = shown == nodes[0].telemetry ? 0 : 1;
    }
    CHECK(idle().get("/v1/status")["process_count"] == 0);
  }
  Service& busy() { return nodes[used]; }
  Service& idle() { return nodes[1 - used]; }
  // How long it takes until the other node knows the process and its communicator.
  double moves_within_s() {
    const auto begin = Clock::now();
    const auto knows = [](const Json& s) { return s["process_count"] == 1 && s["communicators"].size() == 1; };
    while (!knows(idle().get("/v1/status")) && Clock::now() < begin + noticed) usleep(10'000);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::printf("the other node is told after %.1f s\n", seconds);
    CHECK(contains(probe.says("is used instead of"),
                   "INFO the service at " + idle().telemetry + " is used instead of the one at " + busy().telemetry));
    CHECK(probe.part("probe")["endpoint"] == idle().telemetry);
    return seconds;
  }

  Service nodes[2];
  Probe probe;
  size_t used = 0;
};

TEST_CASE("Of two endpoints the one in use is killed: telemetry arrives at the other within 10 s", "[moves]") {
  TwoNodes two;
  two.busy().child.signal(SIGKILL);
  CHECK(two.moves_within_s() < 10);
  CHECK(two.probe.ends());
  CHECK(two.probe.warnings() == 0);
}

TEST_CASE("Of two endpoints the one in use is stopped: telemetry arrives at the other", "[leaves]") {
  TwoNodes two;
  two.busy().child.signal(SIGSTOP);
  CHECK(two.moves_within_s() < 20);  // 10, and what a busy machine takes
  two.busy().child.signal(SIGCONT);
  CHECK(two.probe.ends());
  CHECK(two.probe.warnings() == 0);
}

TEST_CASE("With keys telemetry goes to the right service only; what is wrong with a key is one line that names it",
          "[keys]") {
  KeyedService s;
  const Key own(s.folder, "own.key"), stranger(s.folder, "stranger.key");
  s.add(own);
  s.has_keys(1);
  const std::string& there = s.service->telemetry;
  const auto keys = [](const std::string& server, const std::string& file) {
    return std::vector<std::string>{"NCCL_PROBE_SERVER_KEY=" + server, "NCCL_PROBE_KEY_FILE=" + file};
  };
  // All at once: each warning takes its time.
  Probe right(there, keys(s.key.open, own.file)), rejected(there, keys(s.key.open, stranger.file)), without(there),
      mistaken(there, keys(own.open, own.file)), unreadable(there, keys(s.key.open, s.folder.file("none.key")));
  const Service plain;
  Probe demanding(plain.telemetry, keys(s.key.open, own.file));

  right.says("is there");
  CHECK(count(right.service_is("reached"), "undelivered_batches") == 0);
  // On a busy machine another trouble may be said first, and the reason once it is known.
  std::map<Probe*, std::string> reasons;
  const auto says_why = [&](Probe& probe, const std::string& why) {
    reasons[&probe] = why;
    return contains(probe.says(why), "WARN the service at");
  };
  CHECK(says_why(rejected, "does not accept the key of this process (NCCL_PROBE_KEY_FILE)"));
  rejected.service_is("rejected");
  CHECK(says_why(without,
                 "accepts only processes with a key: NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE are not set"));
  without.service_is("one_sided");
  CHECK(says_why(mistaken, "its key is not that of NCCL_PROBE_SERVER_KEY"));
  mistaken.service_is("other_key");
  // libzmq says why only where this end is the first to see it. Otherwise that is one of the reasons in the line.
  CHECK(says_why(demanding, "uses no keys"));
  demanding.service_when([](const Json& s) { return s["state"] == "one_sided" || s["state"] == "other_key"; });
  CHECK(contains(unreadable.says("WARN nothing is sent to"),
                 "NCCL_PROBE_KEY_FILE=\"" + s.folder.file("none.key") + "\" cannot be used"));
  unreadable.service_is("unusable");
  CHECK(plain.get("/v1/status")["ingest"]["batches"] == 0);
  CHECK(s.service->get("/v1/status")["process_count"] == 1);

  s.add(stranger);
  CHECK(undelivered_in(rejected.says("is there; ")) > 0);
  rejected.service_is("reached");
  CHECK(s.service->get("/v1/status")["process_count"] == 2);
  for (Probe* each : {&rejected, &without, &mistaken, &demanding, &unreadable}) CHECK(each->ends());
  for (const auto& [probe, why] : reasons) {
    CHECK(probe->warnings(why) == 1);
    // The other trouble is that nobody answers; that it is over only the one that gets in says.
    const size_t before = probe->warnings("cannot be reached"), over = probe->warnings("is there; ");
    CHECK(before <= 1);
    CHECK(over == (probe == &rejected ? 1 : 0));
    CHECK(probe->warnings() == 1 + before + over);
  }
  CHECK(unreadable.warnings() == 1);
  CHECK(right.ends());
  CHECK(right.warnings() == 0);
}

TEST_CASE("The service takes a new key while it runs, and processes follow whose files have it", "[new_keys]") {
  KeyedService s;
  const Key own(s.folder, "own.key");
  s.add(own);
  s.has_keys(1);
  const std::string public_file = s.folder.file("service.pub"), secret_file = s.folder.file("probe.key");
  std::ofstream(public_file) << s.key.open << "\n";
  std::filesystem::copy_file(own.file, secret_file);
  const std::vector<std::string> files = {"NCCL_PROBE_SERVER_KEY=" + public_file, "NCCL_PROBE_KEY_FILE=" + secret_file};
  Probe follows(s.service->telemetry, files),
      stays(s.service->telemetry, {"NCCL_PROBE_SERVER_KEY=" + s.key.open, "NCCL_PROBE_KEY_FILE=" + own.file});
  for (Probe* each : {&follows, &stays}) each->says("is there");

  // This one gets a new key of its own, too.
  said({ccld, "keys", "rotate", secret_file, "--list", s.list});
  s.has_keys(2);
  const auto batches = s.service->get("/v1/status")["ingest"]["batches"].get<uint64_t>();
  const std::string now_open = said({ccld, "keys", "rotate", s.key.file, "--public", public_file});
  CHECK(contains(s.service->child.wait_for_error("--telemetry-secret-file: new key"), now_open));
  CHECK(contains(stays.says("WARN the service at"), "its key is not that of NCCL_PROBE_SERVER_KEY"));
  stays.service_is("other_key");
  follows.service_is("reached");
  said({ccld, "keys", "remove", own.open, "--list", s.list});
  s.has_keys(1);
  const Json now = s.service->status_when([&](const Json& j) { return j["ingest"]["batches"] >= batches + 3; });
  CHECK(now["ingest"]["rejected"]["key"] == 0);
  CHECK(follows.ends());
  CHECK(follows.warnings() <= 2);  // one if it was quick
  CHECK(stays.ends());
}

}  // namespace ccld::test
