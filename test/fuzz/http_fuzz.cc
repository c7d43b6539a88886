// A connection to the query API, over a real socket: the request's bytes, then the end. There is an answer or none, but
// the next client is served.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "decision/server/http_api.h"
#include "spdlog/spdlog.h"
#include "test/fuzz/require.h"

namespace ccld::decision::server {
namespace {

struct Api {
  Api() {
    spdlog::set_level(spdlog::level::off);
    auto snapshot = std::make_shared<report::Snapshot>();
    CommStatus comm;
    comm.comm = CommUid(0xabc);
    comm.job = "job";
    snapshot->status.communicators = {comm};
    Incident incident;
    incident.id = incident.revision = 1;
    incident.comm = comm.comm;
    snapshot->incidents = {incident};
    store->publish(snapshot);
    HttpOptions options;
    options.clock_ns = [] { return Nanoseconds{0}; };
    // Without an analysis nobody takes a request to tune, and one would wait.
    auto opened = HttpApi::open({"127.0.0.1", 0}, store, tune, options);
    FUZZ_REQUIRE(opened.ok());
    http = *std::move(opened);
    auto verdicts = VerdictWriter::open("/dev/null");
    FUZZ_REQUIRE(verdicts.ok());
    http->answer_incidents(std::make_shared<Reporter>(*std::move(verdicts), nullptr, Reporter::Bounds{}));
    http->start();
    tuner = std::thread([this] {
      for (;;) {
        tune->serve([](const TuneRequest&) { return TuneAnswer{1, 1, 1}; });
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    tuner.detach();
  }
  std::string answer(const uint8_t* data, size_t size) const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    // A closed connection keeps its port for a minute, and an address has 28,000 of them: each thousand comes from
    // another one.
    static uint32_t connections = 0;
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (connections++ / 1000 % 1000 << 8));
    FUZZ_REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(http->address().port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FUZZ_REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    for (size_t sent = 0; sent < size;) {
      const ssize_t n = send(fd, data + sent, size - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
    shutdown(fd, SHUT_WR);
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) text.append(buffer, static_cast<size_t>(n));
    close(fd);
    return text;
  }

  std::shared_ptr<SnapshotStore> store = std::make_shared<SnapshotStore>();
  std::shared_ptr<TuneQueue> tune = std::make_shared<TuneQueue>();
  std::unique_ptr<HttpApi> http;
  std::thread tuner;
};

}  // namespace
}  // namespace ccld::decision::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& api = *new ccld::decision::server::Api;
  const std::string answer = api.answer(data, size);
  if (!answer.empty()) FUZZ_REQUIRE(answer.compare(0, 7, "HTTP/1.") == 0);
  static unsigned executions = 0;
  if (++executions % 256 == 0) {
    const std::string health = "GET /healthz HTTP/1.1\r\n\r\n";
    FUZZ_REQUIRE(api.answer(reinterpret_cast<const uint8_t*>(health.data()), health.size()).find(" 200 ") !=
                 std::string::npos);
  }
  return 0;
}
