#include "decision/server/http_api.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <regex>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "decision/report/call_pages.h"
#include "decision/report/find_communicator.h"
#include "decision/report/prometheus.h"
#include "decision/report/status_json.h"
#include "decision/report/status_pages.h"
#include "decision/server/acknowledge.h"
#include "decision/server/answers.h"
#include "decision/server/change_request.h"
#include "decision/server/clock.h"
#include "decision/server/http_server.h"
#include "decision/server/incidents_api.h"
#include "decision/server/page_routes.h"
#include "decision/server/request_checks.h"
#include "decision/server/request_role.h"
#include "decision/server/silences.h"
#include "httplib.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

using report::Json;

constexpr time_t silent_client_timeout_s = 1;
constexpr absl::Duration tune_timeout = absl::Seconds(2);
// A disk that takes longer hangs; the client waits longer.
constexpr absl::Duration disk_timeout = absl::Seconds(5);
constexpr char end_silence_path[] = R"(/v1/silences/([^/]+)/end)";
constexpr char ack_path[] = R"(/v1/incidents/([^/]+)/ack)";

// The library's default, SO_REUSEPORT, would let a second service take half of the first one's requests.
void socket_options(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

bool takes_post(const std::string& path) {
  static const std::regex ack(ack_path), end(end_silence_path);
  return path == "/v1/tune" || path == "/v1/validate" || path == "/v1/silences" || std::regex_match(path, ack) ||
         std::regex_match(path, end);
}

absl::StatusOr<uint64_t> incident_number(const std::string& text) {
  uint64_t id = 0;
  if (absl::SimpleAtoi(text, &id)) return id;
  return absl::InvalidArgumentError(absl::StrCat("incident '", text, "' is not a number"));
}

// A snapshot, and its order for people, which is made when the first question needs it.
class Asked {
 public:
  Asked(std::shared_ptr<const report::Snapshot> snapshot, std::function<const report::StatusIndex&()> index)
      : snapshot_(std::move(snapshot)), index_(std::move(index)) {}
  const report::Snapshot& snapshot() const { return *snapshot_; }
  const report::StatusIndex& index() const { return index_(); }

 private:
  std::shared_ptr<const report::Snapshot> snapshot_;
  std::function<const report::StatusIndex&()> index_;
};

}  // namespace

struct HttpApi::Impl {
  explicit Impl(const HttpOptions& o) : options(o), server(HttpLimits(), o.tls) {}

  HostPort address;
  std::shared_ptr<const SnapshotStore> store;
  std::shared_ptr<TuneQueue> requests;
  std::shared_ptr<Reporter> reporter;
  std::mutex listener_mutex;
  AcknowledgementListener on_acknowledgement = [](const Json&, bool, int64_t) {};
  std::function<std::string()> leader_url = [] { return std::string(); };
  std::function<report::ClusterStatus()> cluster;  // none: this is no cluster
  HttpOptions options;
  std::string run;  // of the service: no two have the same, so no ETag comes twice
  HttpServer server;
  std::thread listener;
  absl::Notification ended;

  // The order of the newest snapshot that was asked about. It does not keep that snapshot alive.
  std::mutex index_mutex;
  std::weak_ptr<const report::Snapshot> indexed;
  std::shared_ptr<const report::StatusIndex> index;

  std::shared_ptr<const report::StatusIndex> index_of(const std::shared_ptr<const report::Snapshot>& snapshot) {
    const std::lock_guard lock(index_mutex);  // held while it is made: others who ask need the same
    if (index == nullptr || indexed.lock() != snapshot) {
      index = std::make_shared<const report::StatusIndex>(*snapshot);
      indexed = snapshot;
    }
    return index;
  }

  // A document made from the newest snapshot; not made again for a client that has it.
  using Make = std::function<absl::StatusOr<Json>(const httplib::Request&, const Asked&)>;
  void get(const std::string& pattern, Make make) {
    server.Get(pattern, [this, make = std::move(make)](const httplib::Request& request, httplib::Response& response) {
      const auto snapshot = store->newest();
      const std::string etag = absl::StrCat("\"", run, "-", snapshot->ticks, "\"");
      response.set_header("Cache-Control", "no-cache");
      if (matches_etag(request.get_header_value("If-None-Match"), etag)) {
        response.set_header("ETag", etag);
        response.status = 304;
        return;
      }
      std::shared_ptr<const report::StatusIndex> kept;
      const auto document = make(request, Asked(snapshot, [&]() -> const report::StatusIndex& {
                                   if (kept == nullptr) kept = index_of(snapshot);
                                   return *kept;
                                 }));
      if (!document.ok()) return refuse(response, http_status(document.status()), std::string(document.status().message()));
      response.set_header("ETag", etag);
      answer(response, *document);
    });
  }

  // A document with parameters.
  using MakePage = std::function<absl::StatusOr<Json>(const httplib::Request&, const Asked&, const report::PageQuery&)>;
  void get_page(const std::string& pattern, unsigned parameters, size_t rows_max, MakePage make) {
    get(pattern, [=](const httplib::Request& request, const Asked& asked) -> absl::StatusOr<Json> {
      const auto query = report::parse_page_query(request.params, parameters, rows_max);
      if (!query.ok()) return query.status();
      return make(request, asked, *query);
    });
  }

  // Who has a token with the role may ask from anywhere: the role was looked at before.
  ChangeRules rules(bool remote, const char* doing, const char* flag) const {
    return {remote, doing, flag, options.names, options.tls != nullptr, options.tokens != nullptr};
  }

  void health(httplib::Response& response) {
    const Nanoseconds age_ns = options.clock_ns() - store->looked_ns();
    const bool well = age_ns <= options.look_max_ns;
    response.set_header("Cache-Control", "no-store");
    response.status = well ? 200 : 503;
    Json document = {{"status", well ? "ok" : "stale"}, {"last_look_ms", age_ns / ns_per_ms}};
    if (!well)
      document["error"] = absl::StrCat("the analysis has not looked at its jobs for ", age_ns / ns_per_s, " s");
    answer(response, document);
  }

  using ParseTune = absl::StatusOr<TuneRequest> (*)(const std::string& body);
  void tune(ParseTune parse, const httplib::Request& request, httplib::Response& response,
            const httplib::ContentReader& read) {
    const auto body = take_change(rules(options.allow_remote_tune, "tuning", "--allow-remote-tune"), request, response, read);
    if (!body.has_value()) return;
    auto parsed = parse(*body);
    if (!parsed.ok()) return refuse(response, 400, std::string(parsed.status().message()));
    const std::string job = parsed->job;
    const auto done = requests->ask(*std::move(parsed), tune_timeout);
    if (!done.ok()) return refuse(response, 503, std::string(done.status().message()));
    if (done->matched == 0) return refuse(response, 404, absl::StrCat("no probe of job '", job, "' that fits is known"));
    answer(response, {{"sequence", done->sequence}, {"matched", done->matched}, {"asked", done->asked}});
  }

  void ack(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
    const auto body = take_change(rules(options.allow_remote_ack, "acknowledging", "--allow-remote-ack"), request, response, read);
    if (!body.has_value()) return;
    const auto listener = [this] {
      const std::lock_guard lock(listener_mutex);
      return on_acknowledgement;
    }();
    const auto done = [&]() -> absl::StatusOr<Json> {
      const auto id = incident_number(request.matches[1]);
      if (!id.ok()) return id.status();
      const auto parsed = parse_acknowledge_request(*body);
      if (!parsed.ok()) return parsed.status();
      return acknowledge(*id, *parsed, realtime_now_ns() / ns_per_ms, *store->newest(), *reporter, disk_timeout,
                         listener);
    }();
    if (!done.ok()) return refuse(response, http_status(done.status()), std::string(done.status().message()));
    answer(response, *done);
  }

  // `end`: the silence that the path names, else a new one.
  void silence(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read, bool end) {
    const auto body = take_change(rules(options.allow_remote_ack, "silencing", "--allow-remote-ack"), request, response, read);
    if (!body.has_value()) return;
    const int64_t now_ms = realtime_now_ns() / ns_per_ms;
    const auto done = [&]() -> absl::StatusOr<Json> {
      if (end) {
        uint64_t id = 0;
        if (const std::string text = request.matches[1]; !absl::SimpleAtoi(text, &id))
          return absl::InvalidArgumentError(absl::StrCat("silence '", text, "' is not a number"));
        return end_silence(id, now_ms, *reporter, disk_timeout);
      }
      const auto parsed = parse_silence(*body, now_ms);
      if (!parsed.ok()) return parsed.status();
      return add_silence(*parsed, now_ms, *reporter, disk_timeout);
    }();
    if (!done.ok()) return refuse(response, http_status(done.status()), std::string(done.status().message()));
    answer(response, *done);
  }

  void add_pages() {
    using namespace report;
    get_page("/v1/status", with_page | with_job | with_state | with_ranks, page_rows_max,
             [this](const httplib::Request&, const Asked& asked, const PageQuery& query) -> absl::StatusOr<Json> {
               auto document = status_json(asked.snapshot(), asked.index(), query);
               if (document.ok())
                 (*document)["service"]["last_look_ms"] = (options.clock_ns() - store->looked_ns()) / ns_per_ms;
               return document;
             });
    get_page("/v1/jobs", with_page | with_state, page_rows_max,
             [](const httplib::Request&, const Asked& asked, const PageQuery& query) {
               return jobs_json(asked.snapshot(), asked.index(), query);
             });
    get_page(R"(/v1/jobs/(.+))", with_page | with_state | with_ranks, page_rows_max,
             [](const httplib::Request& request, const Asked& asked, const PageQuery& query) {
               return job_json(asked.snapshot(), asked.index(), request.matches[1], query);
             });
    get_page("/v1/communicators", with_page | with_job | with_state | with_ranks, page_rows_max,
             [](const httplib::Request&, const Asked& asked, const PageQuery& query) {
               return communicators_json(asked.snapshot(), asked.index(), query);
             });
    get_page(R"(/v1/communicators/([^/]+))", 0, page_rows_max,
             [](const httplib::Request& request, const Asked& asked, const PageQuery&) {
               return communicator_json(asked.snapshot(), asked.index(), request.matches[1]);
             });
    get_page(R"(/v1/communicators/([^/]+)/ranks)", with_page, page_rows_max,
             [](const httplib::Request& request, const Asked& asked, const PageQuery& query) {
               return ranks_json(asked.snapshot(), asked.index(), request.matches[1], query);
             });
    get_page(R"(/v1/communicators/([^/]+)/calls)", 0, page_rows_max,
             [](const httplib::Request& request, const Asked& asked, const PageQuery&) {
               return calls_json(asked.snapshot(), request.matches[1]);
             });
    get_page(R"(/v1/communicators/([^/]+)/calls/ranks)", with_page, page_rows_max,
             [](const httplib::Request& request, const Asked& asked, const PageQuery& query) {
               return call_ranks_json(asked.snapshot(), request.matches[1], query);
             });
    get_page(R"(/v1/communicators/([^/]+)/history)", 0, page_rows_max,
             [](const httplib::Request& request, const Asked& asked, const PageQuery&) {
               return call_history_json(asked.snapshot(), request.matches[1]);
             });
    get_page("/v1/processes", with_page | with_job | with_process_state, process_rows_max,
             [](const httplib::Request&, const Asked& asked, const PageQuery& query) {
               return processes_json(asked.snapshot(), asked.index(), query);
             });
  }

  void add_routes() {
    server.Get("/healthz", [this](const httplib::Request&, httplib::Response& response) { health(response); });
    add_page_routes(
        server, [this](uint64_t id) { return incident_answer(id, *store->newest(), *reporter); },
        [this](const std::string& id) { return report::find_communicator(*store->newest(), id).has_value(); });
    add_pages();
    get("/v1/incidents", [this](const httplib::Request& request, const Asked& asked) {
      return incidents_answer([&request](const std::string& name) { return request.get_param_value(name); }, asked.snapshot(), *reporter);
    });
    get(R"(/v1/incidents/([^/]+))", [this](const httplib::Request& request, const Asked& asked) -> absl::StatusOr<Json> {
      const auto id = incident_number(request.matches[1]);
      if (!id.ok()) return id.status();
      const std::string revisions = request.get_param_value("revisions");
      const bool all = !revisions.empty() && revisions != "0";
      return all ? revisions_answer(*id, asked.snapshot(), *reporter) : incident_answer(*id, asked.snapshot(), *reporter);
    });
    get(R"(/v1/tune/([^/]+))", [](const httplib::Request& request, const Asked& asked) -> absl::StatusOr<Json> {
      const std::string text = request.matches[1];
      uint64_t sequence = 0;
      if (!absl::SimpleAtoi(text, &sequence)) return absl::InvalidArgumentError(absl::StrCat("tune request '", text, "' is not a number"));
      return report::tune_json(asked.snapshot(), sequence);
    });
    for (const auto& [path, parse] :
         {std::pair<const char*, ParseTune>{"/v1/tune", parse_tune_request}, {"/v1/validate", parse_validate_request}})
      server.Post(path,
                  [this, parse = parse](const httplib::Request& request, httplib::Response& response,
                                        const httplib::ContentReader& read) { tune(parse, request, response, read); });
    server.Get("/v1/silences", [this](const httplib::Request&, httplib::Response& response) {
      answer(response, silences_answer(realtime_now_ns() / ns_per_ms, *reporter));
    });
    for (const bool end : {false, true}) {
      server.Post(end ? end_silence_path : "/v1/silences",
                  [this, end](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
                    silence(request, response, read, end);
                  });
    }
    server.Post(ack_path, [this](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
      ack(request, response, read);
    });
    // A node leads from when the newest snapshot has the cluster's numbers, and no longer than it has the lease.
    server.Get("/v1/cluster", [this](const httplib::Request&, httplib::Response& response) {
      if (!cluster) return refuse(response, 404, "this service is no node of a cluster (ccld serve --cluster)");
      const auto snapshot = store->newest();
      const report::ClusterStatus now = cluster();
      answer(response, report::cluster_json(now.leads && snapshot->cluster.has_value() ? *snapshot->cluster : now));
    });
    server.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(report::prometheus_text(*store->newest()), "text/plain; version=0.0.4");
    });
    // What has no answer, or is not for who asks, is refused before its body is read.
    server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      using httplib::Server;
      const bool gets = request.method == "GET" || request.method == "HEAD";
      if (!gets && (request.method != "POST" || !takes_post(request.path))) {
        refuse(response, request.method == "POST" ? 404 : 405, absl::StrCat("no answer for ", request.method, " ", request.path));
        return Server::HandlerResponse::Handled;
      }
      // Without tokens a web page whose name its owner lets resolve to us could read all; with them it has none.
      if (const std::string host = request.get_header_value("Host");
          options.tokens == nullptr && request.path != "/healthz" && !is_no_strangers_name(host, options.names)) {
        refuse(response, 403, not_our_name(host));
        return Server::HandlerResponse::Handled;
      }
      if (options.tokens != nullptr && !admit(*options.tokens->newest(), request, response)) return Server::HandlerResponse::Handled;
      if (request.path != "/healthz" && request.path != "/metrics" && request.path != "/v1/cluster") {
        if (const std::string url = leader_url(); !url.empty()) {
          response.set_redirect(url + request.target, 307);
          return Server::HandlerResponse::Handled;
        }
      }
      return Server::HandlerResponse::Unhandled;
    });
    server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (response.body.empty()) refuse(response, response.status, absl::StrCat("no answer for ", request.method, " ", request.path));
    });
    server.set_exception_handler([](const httplib::Request& request, httplib::Response& response, std::exception_ptr error) {
      std::string what = "unknown error";
      try {
        std::rethrow_exception(std::move(error));
      } catch (const std::exception& e) {
        what = e.what();
      } catch (...) {
      }
      spdlog::error("query {} failed: {}", request.path, what);
      refuse(response, 500, what);
    });
  }
};

HttpApi::HttpApi(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<HttpApi>> HttpApi::open(const HostPort& address, std::shared_ptr<const SnapshotStore> store,
                                                       std::shared_ptr<TuneQueue> requests, const HttpOptions& options) {
  auto impl = std::make_shared<Impl>(options);
  impl->address = address;
  impl->store = std::move(store);
  impl->requests = std::move(requests);
  impl->options.names.push_back(address.host);
  impl->run = absl::StrCat(absl::Hex(absl::ToUnixMicros(absl::Now())));
  httplib::Server& server = impl->server;
  server.set_socket_options(socket_options);
  server.set_keep_alive_max_count(1);  // a kept connection would hold one of few threads, and the end of the service
  server.set_keep_alive_timeout(silent_client_timeout_s);
  server.set_payload_max_length(change_bytes_max);
  impl->add_routes();
  errno = 0;
  const bool bound = address.port == 0 ? (impl->address.port = server.bind_to_any_port(address.host)) > 0
                                       : server.bind_to_port(address.host, address.port);
  if (!bound) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on '", address.text(), "': ", errno != 0 ? std::strerror(errno) : "no such address"));
  }
  impl->server.widen_backlog();
  return std::unique_ptr<HttpApi>(new HttpApi(std::move(impl)));
}

const HostPort& HttpApi::address() const { return impl_->address; }

std::string HttpApi::url() const { return absl::StrCat(impl_->options.tls != nullptr ? "https://" : "http://", impl_->address.text()); }

report::HttpCounters HttpApi::counters() const { return impl_->server.counters(); }

void HttpApi::answer_incidents(std::shared_ptr<Reporter> reporter) { impl_->reporter = std::move(reporter); }

void HttpApi::tell_acknowledgements(AcknowledgementListener listener) {
  const std::lock_guard lock(impl_->listener_mutex);
  impl_->on_acknowledgement = std::move(listener);
}

void HttpApi::send_to(std::function<std::string()> leader_url) { impl_->leader_url = std::move(leader_url); }
void HttpApi::answer_cluster(std::function<report::ClusterStatus()> cluster) { impl_->cluster = std::move(cluster); }

void HttpApi::start() {
  impl_->listener = std::thread([impl = impl_] {
    impl->server.listen_after_bind();
    impl->ended.Notify();
  });
}

bool HttpApi::stop(absl::Duration timeout) {
  if (!impl_->listener.joinable()) return true;
  const absl::Time deadline = absl::Now() + timeout;
  // stop() does nothing before the listening thread has come to its loop: ask again.
  do {
    impl_->server.stop();
  } while (!impl_->ended.WaitForNotificationWithTimeout(absl::Milliseconds(10)) && absl::Now() < deadline);
  if (!impl_->ended.HasBeenNotified()) {
    impl_->listener.detach();
    return false;
  }
  impl_->listener.join();
  return true;
}

HttpApi::~HttpApi() { stop(absl::Seconds(1)); }

}  // namespace ccld::decision::server
