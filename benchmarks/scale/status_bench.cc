#include "benchmarks/scale/status_bench.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "decision/report/status_json.h"
#include "decision/server/clock.h"
#include "decision/server/http_api.h"
#include "decision/server/snapshot_store.h"
#include "httplib.h"

namespace ccld::bench {
namespace {

using decision::report::Json;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); }

[[noreturn]] void give_up(const std::string& why) {
  fprintf(stderr, "ccld-bench-scale: %s\n", why.c_str());
  exit(2);
}

// "VmHWM:   123 kB" of the process, in bytes.
int64_t memory_of(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, key.size(), key) == 0) return std::atoll(line.c_str() + key.size()) * 1024;
  return 0;
}
int64_t resident() { return memory_of("RssAnon:"); }
// Of files too, which do not change here.
int64_t peak() { return memory_of("VmHWM:"); }
bool forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  return static_cast<bool>(file.flush());
}

class Client {
 public:
  explicit Client(int port) : client_("127.0.0.1", port) { client_.set_read_timeout(60); }
  Json get(const std::string& path) {
    const auto begin = Clock::now();
    const auto answer = client_.Get(path);
    ms = ms_since(begin);
    if (!answer || answer->status != 200) give_up(absl::StrCat(path, " was not answered"));
    bytes = answer->body.size();
    return Json::parse(answer->body);
  }
  double ms = 0;
  size_t bytes = 0;

 private:
  httplib::Client client_;
};

}  // namespace

nlohmann::json measure_status(const decision::Analyzer& analyzer, int64_t now_ns) {
  nlohmann::json row;
  const int64_t before = resident();
  auto begin = Clock::now();
  auto snapshot = std::make_shared<decision::report::Snapshot>();
  snapshot->now_ns = now_ns;
  snapshot->silent_ns = 5 * decision::ns_per_s;
  snapshot->status = analyzer.status(now_ns);
  snapshot->incidents = analyzer.incidents();
  snapshot->ticks = 1;
  row["snapshot_ms"] = ms_since(begin);
  row["snapshot_bytes"] = resident() - before;
  const auto store = std::make_shared<decision::server::SnapshotStore>();
  store->publish(std::move(snapshot));

  decision::server::HttpOptions options;
  options.clock_ns = decision::server::monotonic_now_ns;
  auto http = decision::server::HttpApi::open({"127.0.0.1", 0}, store, std::make_shared<decision::server::TuneQueue>(), options);
  if (!http.ok()) give_up(std::string(http.status().message()));
  (*http)->start();
  Client client((*http)->address().port);

  const bool can_forget = forget_peak();
  const int64_t held = peak();
  const Json first = client.get("/v1/status");
  row["first_answer_ms"] = client.ms;
  row["first_answer_bytes"] = client.bytes;
  client.get("/v1/status");
  row["next_answer_ms"] = client.ms;
  client.get("/v1/status?ranks=1");
  row["ranks_answer_ms"] = client.ms;
  row["ranks_answer_bytes"] = client.bytes;

  size_t pages = 0, rows = 0, bytes_max = 0;
  double ms_max = 0;
  const auto read_all = [&](const std::string& path, const char* list, size_t limit) {
    std::string after;
    do {
      const Json page = client.get(absl::StrCat(path, "?limit=", limit, after.empty() ? "" : "&after=", after));
      ++pages;
      rows += page.at(list).size();
      bytes_max = std::max(bytes_max, client.bytes);
      ms_max = std::max(ms_max, client.ms);
      after = page.at("next").is_null() ? "" : page.at("next").get<std::string>();
    } while (!after.empty());
  };
  const auto& comms = first.at("communicators");
  const auto largest = std::max_element(comms.begin(), comms.end(), [](const Json& a, const Json& b) {
    return a.at("rank_count").get<int>() < b.at("rank_count").get<int>();
  });
  read_all("/v1/communicators", "communicators", 1000);
  if (largest != comms.end())
    read_all(absl::StrCat("/v1/communicators/", largest->at("communicator").get<std::string>(), "/ranks"), "ranks", 1000);
  read_all("/v1/processes", "processes", 50);
  row["pages"] = pages;
  row["rows"] = rows;
  row["page_ms_max"] = ms_max;
  row["page_bytes_max"] = bytes_max;
  row["memory_ratio"] = can_forget && held > 0 ? static_cast<double>(peak()) / static_cast<double>(held) : 0.0;
  return row;
}

}  // namespace ccld::bench
