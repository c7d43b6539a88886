#include "decision/server/http_api.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "decision/report/prometheus.h"
#include "decision/report/status_json.h"
#include "httplib.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

using report::Json;

constexpr size_t threads = 4;
constexpr size_t request_bytes_max = 4096;               // there are only GETs
constexpr auto client_timeout = std::chrono::milliseconds(400);  // a client stuck within its request holds a thread no longer
constexpr time_t silent_client_timeout_s = 1;                    // nor one that asks nothing
constexpr char json_type[] = "application/json";

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

}  // namespace

struct HttpApi::Impl {
  HostPort address;
  std::shared_ptr<const SnapshotStore> store;
  httplib::Server server;
  std::thread listener;
  absl::Notification ended;

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

absl::StatusOr<std::unique_ptr<HttpApi>> HttpApi::open(const HostPort& address, std::shared_ptr<const SnapshotStore> store) {
  auto impl = std::make_shared<Impl>();
  impl->address = address;
  impl->store = std::move(store);
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
