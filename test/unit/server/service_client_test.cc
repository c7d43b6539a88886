// What a command makes of the answers of whoever listens where it expects a service.
#include "decision/cli/service_client.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "test/support/json/hostile.h"

namespace ccld::decision {
namespace {

// Answers with a text, whatever is asked.
class Stranger {
 public:
  Stranger(int status, std::string body) {
    const auto answer = [status, body = std::move(body), this](const httplib::Request& request,
                                                               httplib::Response& response) {
      heard = request.method + " " + request.body + " " + request.get_header_value("Content-Type");
      response.status = status;
      response.set_content(body, "application/json");
    };
    server_.Get("/v1/.*", answer);
    server_.Post("/v1/.*", answer);
    server_.Get("/moved", [](const httplib::Request&, httplib::Response& r) {
      r.set_redirect("/v1/status", 307);
      r.set_content(std::string(1000, 'x'), "text/plain");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Stranger() {
    server_.stop();
    thread_.join();
  }
  ServiceAddress address() const { return absl::StrCat("http://127.0.0.1:", port_); }
  absl::StatusOr<report::Json> ask(const std::string& path = "/v1/status") const {
    return ask_service(address(), path);
  }
  std::string error() const { return std::string(ask().status().message()); }

  std::string heard;

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

TEST_CASE("A service's answer comes back, its own words for what it refuses, and what it answers after a redirect") {
  Stranger well(200, R"({"ok": true})");
  CHECK((*well.ask())["ok"] == true);
  CHECK(well.heard == "GET  ");
  CHECK((*well.ask("/moved"))["ok"] == true);
  CHECK((*tell_service(well.address(), "/v1/tune", {{"job", "a"}}))["ok"] == true);
  CHECK(well.heard == R"(POST {"job":"a"} application/json)");
  const Stranger refuses(404, R"({"error": "there is no incident 7"})");
  CHECK(absl::IsNotFound(refuses.ask().status()));
  CHECK(refuses.error() == "there is no incident 7");
}

TEST_CASE("An answer that is nested deep is an error, as one that is no JSON") {
  for (const int status : {200, 404, 503}) {
    const Stranger deep(status, absl::StrCat(R"({"error":)", test::nested(200'000), "}"));
    CHECK(absl::IsUnavailable(deep.ask().status()));
    CHECK(absl::StrContains(deep.error(), absl::StrCat("did not answer as a ccld service does (HTTP status ", status,
                                                       ", nested more than 64 deep")));
  }
  CHECK(absl::StrContains(Stranger(200, "<html>").error(), "(HTTP status 200, not JSON)"));
}

TEST_CASE("An answer that does not end is given up") {
  const Stranger talks(200, std::string((size_t{64} << 20) + 1, ' '));
  CHECK(absl::IsUnavailable(talks.ask().status()));
  CHECK(absl::StrContains(talks.error(), "/v1/status answers with more than 64 MiB"));
}

}  // namespace ccld::decision
