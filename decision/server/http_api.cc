#include "decision/server/http_api.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "decision/report/prometheus.h"
#include "decision/report/status_json.h"
#include "httplib.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

using report::Json;

constexpr size_t threads = 4;
constexpr size_t request_bytes_max = 4096;               // the largest is a request to tune probes
constexpr auto client_timeout = std::chrono::milliseconds(400);  // a client stuck within its request holds a thread no longer
constexpr time_t silent_client_timeout_s = 1;                    // nor one that asks nothing
constexpr char json_type[] = "application/json";
constexpr absl::Duration tune_patience = absl::Seconds(2);

void answer(httplib::Response& response, const Json& json) { response.set_content(report::to_line(json) + "\n", json_type); }

void refuse(httplib::Response& response, int status, const std::string& error) {
  response.status = status;
  answer(response, {{"error", error}});
}

// The library's default, SO_REUSEPORT, would let a second service take half of the first one's requests.
void socket_options(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

// Of the address a request came from, as the system writes it.
bool is_this_host(absl::string_view address) {
  absl::ConsumePrefix(&address, "::ffff:");
  return address == "::1" || absl::StartsWith(address, "127.");
}

}  // namespace

struct HttpApi::Impl {
  HostPort address;
  std::shared_ptr<const SnapshotStore> store;
  std::shared_ptr<TuneQueue> requests;
  bool allow_remote_tune = false;
  httplib::Server server;
  std::thread listener;
  absl::Notification ended;

  void tune(const httplib::Request& request, httplib::Response& response) {
    if (!allow_remote_tune && !is_this_host(request.remote_addr)) {
      return refuse(response, 403, absl::StrCat("tuning from ", request.remote_addr, " is not allowed: `ccld serve --allow-remote-tune` allows it"));
    }
    if (!absl::StartsWith(request.get_header_value("Content-Type"), json_type)) {
      return refuse(response, 415, absl::StrCat("the request is not ", json_type));
    }
    auto parsed = parse_tune_request(request.body);
    if (!parsed.ok()) return refuse(response, 400, std::string(parsed.status().message()));
    const std::string job = parsed->job;
    const auto done = requests->ask(*std::move(parsed), tune_patience);
    if (!done.ok()) return refuse(response, 503, std::string(done.status().message()));
    if (done->matched == 0) return refuse(response, 404, absl::StrCat("no probe of job '", job, "' that fits is known"));
    answer(response, {{"sequence", done->sequence}, {"matched", done->matched}, {"asked", done->asked}});
  }

  void add_routes() {
    server.Get("/healthz", [](const httplib::Request&, httplib::Response& response) { response.set_content("ok\n", "text/plain"); });
    server.Get("/v1/status", [this](const httplib::Request& request, httplib::Response& response) {
      const std::string ranks = request.get_param_value("ranks");
      answer(response, report::status_json(*store->newest(), !ranks.empty() && ranks != "0"));
    });
    server.Get("/v1/incidents",
               [this](const httplib::Request&, httplib::Response& response) { answer(response, report::incidents_json(*store->newest())); });
    server.Get(R"(/v1/incidents/([^/]+))", [this](const httplib::Request& request, httplib::Response& response) {
      const std::string text = request.matches[1];
      uint64_t id = 0;
      if (!absl::SimpleAtoi(text, &id)) return refuse(response, 400, absl::StrCat("incident '", text, "' is not a number"));
      const auto verdict = report::incident_json(*store->newest(), id);
      if (!verdict.has_value()) return refuse(response, 404, absl::StrCat("there is no incident ", id));
      answer(response, *verdict);
    });
    server.Get(R"(/v1/tune/([^/]+))", [this](const httplib::Request& request, httplib::Response& response) {
      const std::string text = request.matches[1];
      uint64_t sequence = 0;
      if (!absl::SimpleAtoi(text, &sequence)) return refuse(response, 400, absl::StrCat("tune request '", text, "' is not a number"));
      answer(response, report::tune_json(*store->newest(), sequence));
    });
    server.Post("/v1/tune", [this](const httplib::Request& request, httplib::Response& response) { tune(request, response); });
    server.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(report::prometheus_text(*store->newest()), "text/plain; version=0.0.4");
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
                                                       std::shared_ptr<TuneQueue> requests, bool allow_remote_tune) {
  auto impl = std::make_shared<Impl>();
  impl->address = address;
  impl->store = std::move(store);
  impl->requests = std::move(requests);
  impl->allow_remote_tune = allow_remote_tune;
  httplib::Server& server = impl->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(threads); };
  server.set_socket_options(socket_options);
  server.set_keep_alive_max_count(1);  // a kept connection would hold one of few threads, and the end of the service
  server.set_keep_alive_timeout(silent_client_timeout_s);
  server.set_read_timeout(client_timeout);
  server.set_write_timeout(client_timeout);
  server.set_payload_max_length(request_bytes_max);
  impl->add_routes();
  errno = 0;
  const bool bound = address.port == 0 ? (impl->address.port = server.bind_to_any_port(address.host)) > 0
                                       : server.bind_to_port(address.host, address.port);
  if (!bound) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on '", address.text(), "': ", errno != 0 ? std::strerror(errno) : "no such address"));
  }
  return std::unique_ptr<HttpApi>(new HttpApi(std::move(impl)));
}

const HostPort& HttpApi::address() const { return impl_->address; }

void HttpApi::start() {
  impl_->listener = std::thread([impl = impl_] {
    impl->server.listen_after_bind();
    impl->ended.Notify();
  });
}

bool HttpApi::stop(absl::Duration patience) {
  if (!impl_->listener.joinable()) return true;
  const absl::Time deadline = absl::Now() + patience;
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
