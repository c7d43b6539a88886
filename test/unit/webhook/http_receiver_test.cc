#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "decision/webhook/receiver.h"
#include "decision/webhook/url.h"
#include "httplib.h"
#include "test/support/net/listener.h"

namespace ccld::decision::webhook {
namespace {

constexpr int64_t timeout_ms = 60'000;

void wait_for_request(const test::Listener& listener) {
  const int client = listener.take();
  char byte;
  REQUIRE(recv(client, &byte, 1, MSG_PEEK) == 1);
  // Stays open until the process ends: closing it would be an answer.
}

std::string refusal(const std::string& url) { return std::string(open_receiver(url, "", 1).status().message()); }

}  // namespace

TEST_CASE("A message is posted whole, with its headers, and what is answered comes back") {
  httplib::Server server;
  httplib::Request got;
  server.Post("/hook", [&](const httplib::Request& request, httplib::Response& response) {
    got = request;
    response.status = 503;
    response.set_header("Retry-After", "7");
  });
  server.Post("/away", [&](const httplib::Request&, httplib::Response& response) { response.set_redirect("/hook"); });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread thread([&] { server.listen_after_bind(); });
  const std::string body(100'000, 'x');
  const Answer answer = (*open_receiver(absl::StrCat("http://127.0.0.1:", port, "/hook"), "", timeout_ms))
                            ->post({"X-Ccld-Event: e"}, body);
  const Answer moved =
      (*open_receiver(absl::StrCat("http://127.0.0.1:", port, "/away"), "", timeout_ms))->post({}, "{}");
  server.stop();
  thread.join();
  CHECK(answer.status == 503);
  CHECK(answer.retry_after_s == 7);
  CHECK(got.body == body);
  CHECK(got.get_header_value("X-Ccld-Event") == "e");
  CHECK(got.get_header_value("Content-Type") == "application/json");
  CHECK(moved.status == 302);  // is not followed
  const Answer gone =
      (*open_receiver(absl::StrCat("http://127.0.0.1:", port, "/hook"), "", timeout_ms))->post({}, "{}");
  CHECK(gone.status == 0);
  CHECK_FALSE(gone.error.empty());
}

TEST_CASE("A receiver that does not answer is left when its time is over, or at once") {
  const test::Listener never, silent;
  CHECK((*open_receiver(absl::StrCat("http://127.0.0.1:", never.port()), "", 10))->post({}, "{}").status == 0);
  const auto receiver = *open_receiver(absl::StrCat("http://127.0.0.1:", silent.port()), "", timeout_ms);
  std::thread other([&] {
    wait_for_request(silent);
    receiver->interrupt();
  });
  CHECK(receiver->post({}, "{}").error == "interrupted");
  other.join();
  CHECK(receiver->post({}, "{}").error == "interrupted");  // for good
}

TEST_CASE("What is no address of a receiver is refused with the reason, and a log does not get its path") {
  for (const char* url : {"nonsense", "http://", "http:///path", "http://host:0/", "http://host:x/", "http://[::1/", "http://host/a b"}) {
    INFO(url);
    CHECK(absl::StrContains(refusal(url), "this is not a URL"));
  }
  CHECK(absl::StrContains(refusal("ftp://example.org/x"), "'ftp' is not http or https"));
  CHECK(absl::StrContains(refusal("https://user:pass@example.org/x"), "--webhook-secret-file"));
  CHECK(receiver_name("https://hooks.example.org/T000/secret") == "https://hooks.example.org:443");
}

TEST_CASE("A URL has an origin and a target") {
  const auto parts = [](const char* url) { return parse_url(url)->origin + " " + parse_url(url)->target; };
  CHECK(parts("http://a.example") == "http://a.example:80 /");
  CHECK(parts("HTTPS://a.example:8443/x/y?z=%20#part") == "https://a.example:8443 /x/y?z=%20");
  CHECK(parts("http://[::1]:9/x") == "http://[::1]:9 /x");
  CHECK(parts("http://[::1]?q") == "http://[::1]:80 /?q");
}

TEST_CASE("A certificate is checked, by those that --webhook-ca-file has") {
  const std::string folder = std::filesystem::temp_directory_path() / absl::StrCat("ccld-webhook-", getpid());
  std::filesystem::create_directories(folder);
  const std::string cert = folder + "/cert.pem", key = folder + "/key.pem";
  const std::string make = absl::StrCat("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout ",
                                        key, " -out ", cert, " 2>/dev/null");
  if (std::system(make.c_str()) != 0) {
    WARN("skipped: no program openssl makes a certificate");
    return;
  }
  httplib::SSLServer server(cert.c_str(), key.c_str());
  server.Post("/hook", [](const httplib::Request&, httplib::Response&) {});
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread thread([&] { server.listen_after_bind(); });
  const std::string url = absl::StrCat("https://127.0.0.1:", port, "/hook");
  const Answer unknown = (*open_receiver(url, "", timeout_ms))->post({}, "{}");
  const Answer known = (*open_receiver(url, cert, timeout_ms))->post({}, "{}");
  server.stop();
  thread.join();
  std::filesystem::remove_all(folder);
  CHECK(unknown.status == 0);
  CHECK(absl::StrContains(unknown.error, "erif"));  // "SSL server verification failed"
  INFO(known.error);
  CHECK(known.status == 200);
}

}  // namespace ccld::decision::webhook
