// The query API over real sockets, with a snapshot and a clock that the test gives it.
#include "decision/server/http_api.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <deque>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "test/support/files/folder.h"
#include "test/support/tls/certificate.h"

namespace ccld::decision::server {
namespace {

std::atomic<Nanoseconds> test_now_ns{1000 * ns_per_s};

struct Api {
  explicit Api(HttpOptions options = {}) {
    options.clock_ns = [] { return test_now_ns.load(); };
    store->looked(test_now_ns);
    publish(1);
    auto opened = HttpApi::open({"127.0.0.1", 0}, store, std::make_shared<TuneQueue>(), options);
    REQUIRE(opened.ok());
    http = *std::move(opened);
    auto verdicts = VerdictWriter::open("/dev/null");
    REQUIRE(verdicts.ok());
    http->answer_incidents(std::make_shared<Reporter>(*std::move(verdicts), nullptr, Reporter::Bounds{}));
    http->start();
  }
  void publish(uint64_t ticks, VerdictState state = VerdictState::resolved) {
    auto snapshot = std::make_shared<report::Snapshot>();
    snapshot->ticks = ticks;
    CommStatus comm;
    comm.comm = CommUid(0xabc);
    comm.job = "a/job with blanks";
    snapshot->status.communicators = {comm};
    Incident incident;
    incident.id = incident.revision = 1;
    incident.comm = comm.comm;
    incident.state = state;
    snapshot->incidents = {incident};
    store->publish(snapshot);
  }
  httplib::Client client() const { return httplib::Client("127.0.0.1", http->address().port); }

  int connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(http->address().port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // Also called by threads, in which Catch takes no assertion.
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw std::system_error(errno, std::generic_category(), "connect to the service");
    return fd;
  }
  // Sends until the service takes no more, and gives the answer.
  std::string raw(const std::string& request) const {
    const int fd = connect();
    for (size_t sent = 0; sent < request.size();) {
      const ssize_t n = ::send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
    std::string answer;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, static_cast<size_t>(n));
    close(fd);
    return answer;
  }

  std::shared_ptr<SnapshotStore> store = std::make_shared<SnapshotStore>();
  std::unique_ptr<HttpApi> http;
};

std::shared_ptr<const Tls> self_signed(const test::Folder& folder, const std::string& name) {
  test::write_certificate(folder.file(name + ".pem"), folder.file(name + ".key"), name);
  auto tls = Tls::load(folder.file(name + ".pem"), folder.file(name + ".key"));
  REQUIRE(tls.ok());
  return *tls;
}

const std::string post_tune = "POST /v1/tune HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";

}  // namespace

TEST_CASE("Health is the age of the newest look, and 503 when it is too old") {
  Api api({.look_max_ns = 30 * ns_per_s});
  auto client = api.client();
  test_now_ns += 2 * ns_per_s;
  auto well = client.Get("/healthz");
  REQUIRE(well);
  CHECK(well->status == 200);
  CHECK(report::Json::parse(well->body)["last_look_ms"] == 2000);
  test_now_ns += 29 * ns_per_s;
  auto stale = client.Get("/healthz");
  REQUIRE(stale);
  CHECK(stale->status == 503);
  CHECK(report::Json::parse(stale->body)["error"] == "the analysis has not looked at its jobs for 31 s");
}

TEST_CASE("A document is not sent again to who has it, until there is a newer snapshot") {
  Api api;
  auto client = api.client();
  for (const char* path : {"/v1/status", "/v1/jobs", "/v1/jobs/a%2Fjob%20with%20blanks", "/v1/communicators", "/v1/communicators/0000000000000abc",
                           "/v1/communicators/0000000000000abc/ranks", "/v1/communicators/0000000000000abc/calls",
                           "/v1/communicators/0000000000000abc/calls/ranks", "/v1/communicators/0000000000000abc/history", "/v1/processes", "/v1/incidents", "/v1/tune/1"}) {
    INFO(path);
    const auto first = client.Get(path);
    REQUIRE(first);
    REQUIRE(first->status == 200);
    const std::string etag = first->get_header_value("ETag");
    REQUIRE_FALSE(etag.empty());
    const auto same = client.Get(path, httplib::Headers{{"If-None-Match", etag}});
    REQUIRE(same);
    CHECK(same->status == 304);
    CHECK(same->body.empty());
    CHECK(same->get_header_value("ETag") == etag);
    api.publish(api.store->newest()->ticks + 1);
    const auto newer = client.Get(path, httplib::Headers{{"If-None-Match", etag}});
    REQUIRE(newer);
    CHECK(newer->status == 200);
    CHECK(newer->get_header_value("ETag") != etag);
  }
}

TEST_CASE("The page's document of an incident is sent again when it says something else") {
  Api api;
  auto client = api.client();
  const char* const path = "/page/incident/1";
  const auto first = client.Get(path);
  REQUIRE(first);
  REQUIRE(first->status == 200);
  CHECK(report::Json::parse(first->body)["communicator_known"] == true);
  const httplib::Headers known{{"If-None-Match", first->get_header_value("ETag")}};
  api.publish(2);
  const auto same = client.Get(path, known);
  REQUIRE(same);
  CHECK(same->status == 304);
  CHECK(same->body.empty());
  api.publish(3, VerdictState::ended);
  const auto other = client.Get(path, known);
  REQUIRE(other);
  CHECK(other->status == 200);
  CHECK(report::Json::parse(other->body)["verdict"]["state"] == "ended");
}

TEST_CASE("What is wrong with a question is one line, and has no ETag") {
  Api api;
  auto client = api.client();
  const auto refused = [&](const char* path, int status, const std::string& error) {
    const auto answer = client.Get(path);
    REQUIRE(answer);
    CHECK(answer->status == status);
    CHECK(report::Json::parse(answer->body)["error"] == error);
    CHECK_FALSE(answer->has_header("ETag"));
  };
  refused("/v1/status?limit=0", 400, "limit must be a whole number from 1 to 1000");
  refused("/v1/processes?limit=51", 400, "limit must be a whole number from 1 to 50");
  refused("/v1/communicators?colour=1", 400, "parameter 'colour' is not known here");
  refused("/v1/communicators/xyz", 404, "there is no communicator 'xyz'");
  refused("/v1/communicators/xyz/calls", 404, "there is no communicator 'xyz'");
  refused("/v1/communicators/0000000000000abc/calls/ranks?after=7", 400, "after must be what `next` of a page said");
  refused("/v1/communicators/0000000000000abc/history?limit=3", 400, "parameter 'limit' is not known here");
  refused("/v1/jobs/none", 404, "there is no job 'none'");
  refused("/v1/nothing", 404, "no answer for GET /v1/nothing");
}

TEST_CASE("A part of a document that is made for each answer is not sent") {
  Api api;
  auto client = api.client();
  const auto answer = client.Get("/v1/status", httplib::Headers{{"Range", "bytes=0-9"}});
  REQUIRE(answer);
  CHECK(answer->status == 200);
  CHECK(answer->body.size() > 10);
}

TEST_CASE("Bodies are bounded, whatever a client says of their length") {
  Api api;
  std::string chunks;
  for (int i = 0; i < 100; ++i) chunks += "400\r\n" + std::string(0x400, 'x') + "\r\n";
  CHECK(absl::StrContains(api.raw(post_tune + "Transfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n"), " 413 "));
  CHECK(absl::StrContains(api.raw(post_tune + "Content-Length: 100000000\r\n\r\n" + std::string(100'000, 'x')), " 413 "));
  // Without a length the body ends with the connection: it is cut at the limit, or when the time is over.
  CHECK_FALSE(absl::StrContains(api.raw(post_tune + "\r\n" + std::string(1'000'000, 'x')), " 200 "));
  // A body that nobody asked for is not read.
  CHECK(absl::StrContains(api.raw("POST /v1/other HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks), " 404 "));
  CHECK(absl::StrContains(api.raw("PUT /v1/tune HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x')), " 405 "));
  CHECK(api.client().Get("/healthz"));
}

TEST_CASE("Headers are bounded in length and number") {
  Api api;
  CHECK(absl::StrContains(api.raw("GET /healthz HTTP/1.1\r\nX: " + std::string(1'000'000, 'x') + "\r\n\r\n"), "HTTP/1.1 4"));
  std::string many = "GET /healthz HTTP/1.1\r\n";
  for (int i = 0; i < 100'000; ++i) many += "A: b\r\n";
  CHECK(absl::StrContains(api.raw(many + "\r\n"), "HTTP/1.1 4"));
  CHECK(api.client().Get("/healthz"));
}

TEST_CASE("A request to change something comes under our name and from no other page") {
  Api api({.names = {"ccld.example"}});
  const std::string body = R"({"job": "demo", "sample_us": 500})";
  const auto status = [&](httplib::Headers headers) {
    const auto validate =
        api.client().Post("/v1/validate", headers,
                          R"({"job": "demo", "communicator": "00000000000000ff", "meet": "a:1"})", "application/json");
    const auto answer = api.client().Post("/v1/tune", headers, body, "application/json");
    REQUIRE(answer);
    REQUIRE(validate);
    CHECK(validate->status == answer->status);
    return answer->status;
  };
  CHECK(status({{"Host", "evil.example"}}) == 403);
  CHECK(status({{"Host", "somebody"}}) == 403);  // nobody's outside, but not ours either
  CHECK(status({{"Origin", "http://evil.example"}}) == 403);
  CHECK(status({{"Origin", "null"}}) == 403);
  // The next ones pass; nobody takes requests here.
  CHECK(status({{"Host", "ccld.example:5580"}}) == 503);
  CHECK(status({{"Host", "localhost:5580"}, {"Origin", "http://localhost:5580"}}) == 503);
}

TEST_CASE("A web page whose name its owner lets resolve to us reads nothing but our health") {
  Api api({.names = {"ccld.example"}});
  auto client = api.client();
  const auto status = [&client](const char* path, const char* host) {
    const auto answer = client.Get(path, httplib::Headers{{"Host", host}});
    REQUIRE(answer);
    if (answer->status == 403)
      CHECK(absl::StrContains(report::Json::parse(answer->body)["error"].get<std::string>(), "--http-name"));
    return answer->status;
  };
  for (const char* path : {"/", "/page/app.js", "/v1/status", "/v1/incidents", "/v1/incidents/1", "/v1/silences",
                           "/page/incident/1", "/metrics"}) {
    INFO(path);
    CHECK(status(path, "evil.example:5580") == 403);
    CHECK(client.Head(path, httplib::Headers{{"Host", "evil.example"}})->status == 403);
    for (const char* host : {"10.0.0.5:5580", "localhost", "ccld.example:5580", "node7:5580", "node7.local"})
      CHECK(status(path, host) == 200);
  }
  CHECK(status("/v1/nothing", "evil.example") == 403);
  CHECK(status("/healthz", "evil.example") == 200);
  CHECK(absl::StrContains(api.raw("GET /v1/status HTTP/1.0\r\n\r\n"), " 200 "));  // no browser leaves it out
}

TEST_CASE("No answer lets a page of somebody else read it") {
  Api api;
  for (const char* method : {"GET", "HEAD", "POST", "OPTIONS", "PUT"}) {
    for (const char* path : {"/", "/healthz", "/v1/status", "/v1/tune", "/metrics", "/v1/nothing"}) {
      INFO(method << " " << path);
      const std::string answer =
          api.raw(absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n",
                               "Access-Control-Request-Method: GET\r\nContent-Length: 0\r\n\r\n"));
      CHECK(absl::StartsWith(answer, "HTTP/1.1 "));
      CHECK_FALSE(absl::StrContains(absl::AsciiStrToLower(answer), "access-control-"));
    }
  }
}

TEST_CASE("Slow clients do not keep others out") {
  Api api;
  std::vector<int> slow;
  for (int i = 0; i < 64; ++i) {
    slow.push_back(api.connect());
    if (i % 2 == 0) REQUIRE(::send(slow.back(), "GET /v1/st", 10, MSG_NOSIGNAL) == 10);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = api.client().Get("/healthz");
  REQUIRE(answer);
  CHECK(answer->status == 200);
  // 64 of them a second each would be longer by far.
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
  for (const int fd : slow) close(fd);
}

namespace {

// Connects again and again from 127.0.0.1, and says something, but never a whole request. It holds so many connections
// as a process may have by default.
class Flood {
 public:
  Flood(const Api& api, int per_second, std::string text)
      : thread_([this, &api, per_second, text = std::move(text)] {
          constexpr size_t held_max = 900;
          std::deque<int> held;
          while (!over_) {
            // After a pause it does not catch up: a burst would be another attack.
            std::this_thread::sleep_for(std::chrono::microseconds(1'000'000 / per_second));
            held.push_back(api.connect());
            (void)::send(held.back(), text.data(), text.size(), MSG_NOSIGNAL);
            if (held.size() > held_max) close(held.front()), held.pop_front();
            ++made_;
          }
          for (const int fd : held) close(fd);
        }) {}
  ~Flood() {
    over_ = true;
    thread_.join();
  }
  int made() const { return made_; }

 private:
  std::atomic<bool> over_ = false;
  std::atomic<int> made_ = 0;
  std::thread thread_;
};

}  // namespace

TEST_CASE("One address that floods the service with connections keeps out neither others nor its own requests") {
  const test::Folder folder;
  const bool tls = GENERATE(false, true);
  INFO("tls " << tls);
  Api api(tls ? HttpOptions{.tls = std::make_shared<TlsBook>(self_signed(folder, "one"))} : HttpOptions{});
  const Flood flood(api, 400, tls ? std::string("\x16\x03\x01\x01", 4) : "GET /x");
  // When the first were turned away the service is as full as it will be.
  while (api.http->counters()[report::HttpRefusal::pushed_out] < 100) std::this_thread::yield();
  std::vector<std::chrono::steady_clock::duration> took;
  for (int i = 0; i < 16; ++i) {
    for (const char* from : {"127.0.0.2", "127.0.0.1"}) {
      INFO("healthz " << i << " from " << from << ", after " << flood.made() << " connections");
      httplib::Client client(absl::StrCat(tls ? "https" : "http", "://127.0.0.1:", api.http->address().port));
      client.set_interface(from);
      client.enable_server_certificate_verification(false);
      const auto begin = std::chrono::steady_clock::now();
      const auto answer = client.Get("/healthz");
      REQUIRE(answer);
      CHECK(answer->status == 200);
      took.push_back(std::chrono::steady_clock::now() - begin);
    }
  }
  std::sort(took.begin(), took.end());
  CHECK(took[took.size() / 2] < std::chrono::seconds(1));
  CHECK(api.http->counters()[report::HttpRefusal::no_room] == 0);
}

TEST_CASE("An address whose requests hold all threads that it may have keeps no other out") {
  Api api;
  std::vector<int> slow;
  const auto refused = [&api] {
    const report::HttpCounters c = api.http->counters();
    return c[report::HttpRefusal::no_room] + c[report::HttpRefusal::pushed_out];
  };
  const std::string begun = post_tune + "Content-Length: 100\r\n\r\n{";
  while (refused() == 0) {
    slow.push_back(api.connect());
    (void)::send(slow.back(), begun.data(), begun.size(), MSG_NOSIGNAL);
  }
  auto client = api.client();
  client.set_interface("127.0.0.2");
  for (int i = 0; i < 16; ++i) {
    const auto answer = client.Get("/healthz");
    REQUIRE(answer);
    CHECK(answer->status == 200);
  }
  for (const int fd : slow) close(fd);
}

TEST_CASE("What is refused is counted by reason") {
  Api api;
  std::string long_request = "GET /healthz HTTP/1.1\r\n";
  for (int i = 0; i < 20; ++i) long_request += "X: " + std::string(1000, 'x') + "\r\n";
  CHECK(absl::StartsWith(api.raw(long_request + "\r\n"), "HTTP/1.1 4"));
  CHECK(api.raw("GET /heal") == "");
  CHECK(api.raw("") == "");  // says nothing, so it is refused nothing
  CHECK(api.http->counters()[report::HttpRefusal::too_long] == 1);
  CHECK(api.http->counters()[report::HttpRefusal::slow] == 1);
  CHECK(api.http->counters().refused_total() == 2);
}

TEST_CASE("With tokens every question needs one with the right role, and a change too, from this host as from others") {
  const auto book = [](const std::string& text) {
    return std::make_shared<const admission::TokenList>(*admission::TokenList::parse(text, "tokens"));
  };
  const auto line = [](const char* token, const char* roles) { return absl::StrCat(admission::hex_of(admission::hash_of(token)), " roles=", roles, "\n"); };
  const auto tokens = std::make_shared<admission::TokenBook>(book(absl::StrCat(line("r", "read"), line("a", "acknowledge"), line("t", "read,tune"))));
  Api api({.tokens = tokens});
  auto client = api.client();
  const auto status_of = [&client](const char* method, const char* path, const char* authorization) {
    httplib::Headers headers;
    if (*authorization != '\0') headers.emplace("Authorization", authorization);
    const bool get = std::string(method) == "GET";
    const auto answer = get ? client.Get(path, headers) : client.Post(path, headers, "{}", "application/json");
    REQUIRE(answer);
    if (answer->status == 401) CHECK(absl::StartsWith(answer->get_header_value("WWW-Authenticate"), "Bearer"));
    if (answer->status == 401 || answer->status == 403) CHECK(report::Json::parse(answer->body)["error"].is_string());
    return answer->status;
  };
  for (const char* path : {"/healthz", "/", "/page/app.js"}) CHECK(status_of("GET", path, "") == 200);
  for (const char* path : {"/v1/status", "/metrics", "/v1/silences", "/v1/nothing"}) {
    INFO(path);
    CHECK(status_of("GET", path, "") == 401);
    CHECK(status_of("GET", path, "Bearer x") == 401);
    CHECK(status_of("GET", path, "Basic r") == 401);
    CHECK(status_of("GET", path, "Bearer a") == 403);
  }
  CHECK(status_of("GET", "/v1/status", "Bearer r") == 200);
  CHECK(status_of("GET", "/v1/nothing", "Bearer r") == 404);
  CHECK(status_of("POST", "/v1/tune", "") == 401);
  CHECK(status_of("POST", "/v1/tune", "Bearer r") == 403);
  CHECK(status_of("POST", "/v1/tune", "Bearer t") == 400);  // let in; the request is none
  CHECK(status_of("POST", "/v1/incidents/1/ack", "Bearer t") == 403);
  CHECK(status_of("POST", "/v1/incidents/1/ack", "Bearer a") == 400);
  CHECK(status_of("POST", "/v1/silences", "Bearer r") == 403);
  CHECK(status_of("POST", "/v1/silences", "Bearer a") == 400);
  // Under whatever name: who has a token is no page of a stranger. Another page is one.
  const auto under = [&client](const httplib::Headers& headers) { return client.Post("/v1/tune", headers, "{}", "application/json")->status; };
  CHECK(under({{"Authorization", "Bearer t"}, {"Host", "ccld.example"}}) == 400);
  CHECK(under({{"Authorization", "Bearer t"}, {"Host", "ccld.example"}, {"Origin", "http://evil.example"}}) == 403);
  // Removed, and another one added: at once.
  tokens->replace(book(line("new", "read")));
  CHECK(status_of("GET", "/v1/status", "Bearer r") == 401);
  CHECK(status_of("GET", "/v1/status", "Bearer new") == 200);
}

TEST_CASE("With a certificate the query API speaks https, to clients that trust it, and takes another one without a restart") {
  const test::Folder folder;
  const auto book = std::make_shared<TlsBook>(self_signed(folder, "one"));
  Api api({.tls = book});
  CHECK(api.http->url() == absl::StrCat("https://127.0.0.1:", api.http->address().port));
  const auto client_that_trusts = [&](const std::string& name) {
    auto client = std::make_unique<httplib::SSLClient>("127.0.0.1", api.http->address().port);
    client->set_ca_cert_path(folder.file(name + ".pem").c_str());
    client->enable_server_certificate_verification(true);
    return client;
  };
  const auto answer = client_that_trusts("one")->Get("/v1/status");
  REQUIRE(answer);
  CHECK(answer->status == 200);
  CHECK(report::Json::parse(answer->body)["version"].is_string());
  CHECK(client_that_trusts("one")->Post("/v1/tune", "{}", "application/json")->status == 400);
  book->replace(self_signed(folder, "two"));
  CHECK_FALSE(client_that_trusts("one")->Get("/healthz"));
  CHECK(client_that_trusts("two")->Get("/healthz"));
}

TEST_CASE("A page that we serve by https may change something, one that comes by http may not") {
  const test::Folder folder;
  Api api({.tls = std::make_shared<TlsBook>(self_signed(folder, "one"))});
  httplib::SSLClient client("127.0.0.1", api.http->address().port);
  client.enable_server_certificate_verification(false);
  const std::string host = absl::StrCat("127.0.0.1:", api.http->address().port);
  CHECK(client.Post("/v1/tune", {{"Origin", "https://" + host}}, "{}", "application/json")->status == 400);
  CHECK(client.Post("/v1/tune", {{"Origin", "http://" + host}}, "{}", "application/json")->status == 403);
}

TEST_CASE("Whoever speaks plain HTTP to a port of https, or nothing at all, is cut off") {
  const test::Folder folder;
  Api api({.tls = std::make_shared<TlsBook>(self_signed(folder, "one"))});
  CHECK_FALSE(absl::StrContains(api.raw("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), "200"));
  const auto before = std::chrono::steady_clock::now();
  CHECK(api.raw("") == "");
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(5));
}

TEST_CASE("A request by https is bounded as one by http is") {
  const test::Folder folder;
  Api api({.tls = std::make_shared<TlsBook>(self_signed(folder, "one"))});
  httplib::SSLClient client("127.0.0.1", api.http->address().port);
  client.enable_server_certificate_verification(false);
  const auto answer = client.Get("/healthz", {{"X-Long", std::string(7000, 'x')}, {"X-Longer", std::string(7000, 'x')}, {"X-Longest", std::string(7000, 'x')}});
  REQUIRE(answer);
  CHECK(answer->status / 100 == 4);
}

TEST_CASE("A certificate that cannot be used is refused with its file") {
  const test::Folder folder;
  self_signed(folder, "one");
  self_signed(folder, "two");
  const auto refused = [&](const char* certificate, const char* key) {
    const auto tls = Tls::load(folder.file(certificate), folder.file(key));
    REQUIRE_FALSE(tls.ok());
    return std::string(tls.status().message());
  };
  CHECK(absl::StrContains(refused("none.pem", "one.key"), "none.pem"));
  CHECK(absl::StrContains(refused("one.pem", "none.key"), "none.key"));
  CHECK(absl::StrContains(refused("one.key", "one.key"), "one.key"));
  CHECK(absl::StrContains(refused("one.pem", "two.key"), "two.key"));
}

}  // namespace ccld::decision::server
