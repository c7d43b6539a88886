// From telemetry to a notification: a real service, Prometheus, and Alertmanager, which calls back.
#include <condition_variable>
#include <mutex>

#include "test/integration/serve/service.h"

namespace ccld::test {
namespace {

// Of a busy machine; it takes three seconds.
constexpr std::chrono::seconds timeout(40);

// Where Alertmanager sends its notifications.
class Receiver {
 public:
  Receiver() {
    server_.Post("/", [this](const httplib::Request& request, httplib::Response&) {
      const std::lock_guard lock(mutex_);
      const Json body = Json::parse(request.body);
      for (const Json& alert : body.at("alerts")) alerts_.push_back(alert);
      changed_.notify_all();
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~Receiver() {
    server_.stop();
    thread_.join();
  }
  // The first notification about the alert with this status ("firing", "resolved"); null: none in time.
  Json wait_for(const std::string& name, const std::string& status, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    Json found;
    changed_.wait_for(lock, timeout, [&] {
      for (const Json& alert : alerts_)
        if (alert["status"] == status && alert["labels"]["alertname"] == name) found = alert;
      return !found.is_null();
    });
    return found;
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }

 private:
  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Json> alerts_;
};

// Rank 2 calls operation `op` with another count than the others.
void send_mismatch(Sender& sender, uint64_t op, uint64_t batch_seq) {
  for (int32_t rank = 0; rank < 3; ++rank) {
    WireBatch b;
    WireRounds rounds;
    rounds.rank = rank;
    rounds.op_seq = {op};
    rounds.signatures = {wire_signature(rank == 2 ? 2048 : 1024)};
    rounds.signature_index = {0};
    rounds.enter = {op * 100}, rounds.launch = {op * 100 + 10}, rounds.begin = {op * 2000},
    rounds.end = {op * 2000 + 1000};
    rounds.send = rounds.recv = {8}, rounds.send_changes = rounds.recv_changes = {2}, rounds.samples = {6},
    rounds.flags = {1};
    add_rounds(b, rounds);
    sender.send(b.finish(process_of(rank, batch_seq)));
  }
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  REQUIRE(file.good());
}

}  // namespace

TEST_CASE("An incident becomes an alert that names the rank, reaches Alertmanager, and ends with the incident") {
  const Folder folder;
  Service service({"--set", "mismatch_settle_s=0", "--set", "mismatch_clean_s=2"});
  Receiver receiver;
  const std::string address = "127.0.0.1:" + std::to_string(free_port()),
                    manager_address = "127.0.0.1:" + std::to_string(free_port());
  write(folder.file("alertmanager.yml"),
        "route: {receiver: test, group_wait: 0s, group_interval: 1s}\n"
        "receivers: [{name: test, webhook_configs: [{url: '" +
            receiver.url() + "'}]}]\n");
  write(folder.file("prometheus.yml"),
        "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n"
        "rule_files: ['" +
            std::string(CCLD_RULES) +
            "']\n"
            "alerting: {alertmanagers: [{static_configs: [{targets: ['" +
            manager_address +
            "']}]}]}\n"
            "scrape_configs: [{job_name: ccld, static_configs: [{targets: ['" +
            service.http.substr(std::string("http://").size()) + "']}]}]\n");
  const ChildProcess manager({"/usr/bin/prometheus-alertmanager", "--config.file=" + folder.file("alertmanager.yml"),
                              "--storage.path=" + folder.file("alertmanager"),
                              "--web.listen-address=" + manager_address,
                              "--cluster.listen-address=", "--log.level=warn"});
  const ChildProcess prometheus({"/usr/bin/prometheus", "--config.file=" + folder.file("prometheus.yml"),
                                 "--storage.tsdb.path=" + folder.file("data"), "--web.listen-address=" + address,
                                 "--log.level=warn"});
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 1024, 2048});
  // It goes on until somebody was told.
  Json fired;
  const auto deadline = Clock::now() + timeout;
  for (uint64_t op = 3; fired.is_null() && Clock::now() < deadline; ++op) {
    send_mismatch(sender, op, op - 1);
    fired = receiver.wait_for("CcldTrainingMismatch", "firing", std::chrono::milliseconds(200));
  }
  INFO("status: " << service.get_text("/v1/incidents") << "\nmetrics: " << service.get_text("/metrics"));
  REQUIRE_FALSE(fired.is_null());
  CHECK(fired["labels"]["class"] == "H2");
  CHECK(fired["labels"]["training_job"] == "demo");
  CHECK(fired["labels"]["rank"] == "2");
  CHECK(fired["labels"]["host"] == "node-a");
  CHECK(fired["labels"]["pid"] == "4713");
  CHECK(fired["labels"]["job"] == "ccld");  // Prometheus' own label: nothing of ours collides with it
  CHECK_FALSE(fired["labels"].contains("exported_job"));
  // The words of every other surface.
  const std::string title = service.get("/v1/incidents/1")["title"];
  CHECK(contains(title, "rank 2"));
  CHECK(contains(fired["annotations"]["summary"], title + " (node-a, pid 4713)"));

  const Json ended = receiver.wait_for("CcldTrainingMismatch", "resolved", timeout);
  REQUIRE_FALSE(ended.is_null());
  CHECK(ended["labels"] == fired["labels"]);

  // What Prometheus made of a scrape: all of it was taken.
  const auto answer = httplib::Client("http://" + address).Get("/api/v1/query?query=up%7Bjob%3D%22ccld%22%7D");
  REQUIRE(answer);
  CHECK(Json::parse(answer->body)["data"]["result"][0]["value"][1] == "1");
}

}  // namespace ccld::test
