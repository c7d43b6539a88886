#include "decision/server/analysis_loop.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "test/unit/server/log_text.h"
#include "test/unit/server/wire_batch.h"

namespace ccld::decision::server {
namespace {

using test::Bytes;
using test::LogText;

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
  const LogText log;
  Loop loop{Settings()};
  for (const int32_t rank : {0, 1}) loop.hear(1, rank);
  CHECK(loop.store->newest()->status.communicators.size() == 1);
  CHECK(log.count("no room") == 0);
}

TEST_CASE("Ranks for which there is no room are told once, with the setting that makes room") {
  Settings settings;
  settings.memberships_max = 1;
  const LogText log;
  Loop loop(settings);
  for (int i = 0; i < 3; ++i) loop.hear(1, 1);
  CHECK(loop.store->newest()->status.ranks_refused > 1);
  CHECK(log.count(no_rank_room) == 1);
}

TEST_CASE("Communicators for which there is no room are told once, with the settings that make room") {
  Settings settings;
  settings.communicators_max = 0;
  const LogText log;
  Loop loop(settings);
  for (const uint64_t comm : {1, 2, 3}) loop.hear(comm, 0);
  CHECK(loop.store->newest()->status.let_go.communicators_refused == 3);
  CHECK(log.count(no_room) == 1);
}

}  // namespace ccld::decision::server
