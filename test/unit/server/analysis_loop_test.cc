#include "decision/server/analysis_loop.h"

#include <catch2/catch.hpp>
#include <memory>
#include <sstream>
#include <string>

#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "test/unit/server/wire_batch.h"

namespace ccld::decision::server {
namespace {

using test::Bytes;

// What is logged while it lives; tests of this program log nothing otherwise.
class Log {
 public:
  Log() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~Log() { spdlog::set_default_logger(before_); }
  size_t count(const std::string& part) const {
    const std::string text = text_.str();
    size_t n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
    return n;
  }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_;
};

struct Loop {
  explicit Loop(const Settings& settings)
      : reporter(std::make_shared<Reporter>(*VerdictWriter::open("/dev/null"), nullptr, Reporter::Bounds{})),
        loop(settings, reporter, store, nullptr, Numbering{}, 0, 0) {}
  ~Loop() { loop.finish(absl::InfiniteDuration()); }
  // A process that is rank `rank` of a communicator with two, and a look.
  void hear(uint64_t comm, int32_t rank) {
    now_ns += ns_per_s;
    test::WireBatch b;
    test::add_comm_up(b, {.comm_uid = comm, .rank = rank, .ring_next = 1 - rank});
    const Bytes bytes = b.finish({.pid = 100 + static_cast<uint32_t>(rank), .batch_seq = ++batches});
    const std::string connection = "c";
    const AnalysisLoop::Message message{bytes, &connection};
    const auto send = [](const std::string&, absl::Span<const uint8_t>) { return false; };  // nobody is there
    loop.on_messages({&message, 1}, now_ns, now_ns, send, [](size_t, const Batch&) {});
    loop.tick(now_ns, now_ns, [this] { return now_ns; });
  }

  Nanoseconds now_ns = 0;
  uint64_t batches = 0;
  std::shared_ptr<SnapshotStore> store = std::make_shared<SnapshotStore>();
  std::shared_ptr<Reporter> reporter;
  AnalysisLoop loop;
};

constexpr char no_rank_room[] = "there is no room for further ranks (memberships_max=1)";
constexpr char no_room[] =
    "there is no room for further communicators, processes or initializations (communicators_max=0, processes_max=";

}  // namespace

TEST_CASE("Where there is room for all nothing is said of room") {
  const Log log;
  Loop loop{Settings()};
  for (const int32_t rank : {0, 1}) loop.hear(1, rank);
  CHECK(loop.store->newest()->status.communicators.size() == 1);
  CHECK(log.count("no room") == 0);
}

TEST_CASE("Ranks for which there is no room are told once, with the setting that makes room") {
  Settings settings;
  settings.memberships_max = 1;
  const Log log;
  Loop loop(settings);
  for (int i = 0; i < 3; ++i) loop.hear(1, 1);
  CHECK(loop.store->newest()->status.ranks_refused > 1);
  CHECK(log.count(no_rank_room) == 1);
}

TEST_CASE("Communicators for which there is no room are told once, with the settings that make room") {
  Settings settings;
  settings.communicators_max = 0;
  const Log log;
  Loop loop(settings);
  for (const uint64_t comm : {1, 2, 3}) loop.hear(comm, 0);
  CHECK(loop.store->newest()->status.let_go.communicators_refused == 3);
  CHECK(log.count(no_room) == 1);
}

}  // namespace ccld::decision::server
