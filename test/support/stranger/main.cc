// ccld-stranger: speaks ZeroMQ to a telemetry port and sends what no probe sends, at a steady rate, until it is killed.
//
//   garbage  messages of random bytes, some of several parts
//   claims   well-formed telemetry of a job that does not exist: ever new communicators of up to 65,536 ranks, with
//            operations that contradict each other
//
// Equal seeds send equal messages. It speaks for the job "stranger" only. Exit status: 2 wrong usage.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>

#include "test/unit/server/wire_batch.h"
#include "zmq.hpp"

namespace ccld::test {
namespace {

using Clock = std::chrono::steady_clock;

class Stranger {
 public:
  explicit Stranger(uint32_t seed) : random_(seed) {}

  Bytes garbage() {
    constexpr uint32_t bytes_max = 8192;
    Bytes bytes(1 + below(bytes_max));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    return bytes;
  }

  Bytes claim() {
    WireProcess process;
    process.job = "stranger";
    process.host = "elsewhere-" + std::to_string(below(16));
    process.pid = 1 + below(1000);
    process.batch_seq = ++batches_;
    const uint64_t comm = uint64_t{below(4)} == 0 ? 1 + below(8) : (uint64_t{random_()} << 32) | random_();
    const int32_t rank_count = 2 << below(16);
    const auto rank = static_cast<int32_t>(below(static_cast<uint32_t>(rank_count)));
    WireBatch batch;
    add_comm_up(batch, {.comm_uid = comm, .rank = rank, .rank_count = rank_count, .host = process.host});
    WireRounds rounds;
    rounds.comm_uid = comm;
    rounds.rank = rank;
    rounds.signatures = {wire_signature(uint64_t{1} << below(20))};
    add_rounds(batch, rounds);
    WireInFlight snapshot;
    snapshot.comm_uid = comm;
    snapshot.rank = rank;
    snapshot.moved_age_ms = below(60'000);
    add_in_flight(batch, snapshot);
    return batch.finish(process);
  }

  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_()) % n; }

  std::mt19937 random_;
  uint64_t batches_ = 0;
};

void send_forever(const std::string& endpoint, bool claims, uint32_t seed, unsigned per_second) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect(endpoint);
  Stranger stranger(seed);
  const auto pause = std::chrono::nanoseconds(1'000'000'000 / per_second);
  for (auto next = Clock::now();; next += pause) {
    std::this_thread::sleep_until(next);  // the rate; what a full queue does not take is left out
    const Bytes bytes = claims ? stranger.claim() : stranger.garbage();
    const bool more = !claims && stranger.one_in(8);
    const auto flags = zmq::send_flags::dontwait | (more ? zmq::send_flags::sndmore : zmq::send_flags::none);
    if (socket.send(zmq::buffer(bytes), flags) && more)
      (void)socket.send(zmq::buffer(bytes), zmq::send_flags::dontwait);
  }
}

}  // namespace
}  // namespace ccld::test

int main(int argc, char** argv) {
  std::string endpoint, what;
  uint32_t seed = 1;
  unsigned per_second = 1000;
  CLI::App app{"Sends to a telemetry port what no probe sends, until it is killed."};
  app.add_option("endpoint", endpoint, "tcp://address:port")->required();
  app.add_option("what", what, "garbage: random bytes; claims: telemetry of a job that does not exist")
      ->required()
      ->check(CLI::IsMember({"garbage", "claims"}));
  app.add_option("--seed", seed)->capture_default_str();
  app.add_option("--per-second", per_second, "messages")->capture_default_str()->check(CLI::Range(1u, 1'000'000u));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    fprintf(stderr, "ccld-stranger: %s\n", error.what());
    return 2;
  }
  try {
    ccld::test::send_forever(endpoint, what == "claims", seed, per_second);
  } catch (const zmq::error_t& error) {
    fprintf(stderr, "ccld-stranger: %s: %s\n", endpoint.c_str(), error.what());
    return 2;
  }
}
