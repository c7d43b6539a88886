// What NATS brings a node of a cluster. The first byte says which: telemetry of another node's probe, an answer to a
// probe of this one, what a node says of itself, entries of the log, one a line. A node takes what it understands, says
// it on as it says everything, and the others that read the same log come to the same history.
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_split.h"
#include "decision/cluster/member.h"
#include "decision/cluster/relay.h"
#include "decision/history/replica.h"
#include "decision/history/schema.h"
#include "decision/report/bounded_json.h"
#include "decision/webhook/delivery.h"
#include "spdlog/spdlog.h"
#include "test/fuzz/bytes.h"
#include "test/fuzz/require.h"
#include "test/unit/cluster/shared_bus.h"

namespace ccld::decision::cluster {
namespace {

using report::Json;

constexpr int64_t now_ms = 1'700'000'000'000;
// Of the log, in one input: each is applied twice.
constexpr size_t entries_max = 32;

absl::Span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct Node {
  Shared shared;
  SharedBus other_bus{shared}, bus{shared};
  Relay relay{bus, "node"};
  std::unique_ptr<history::Database> db;

  Node() {
    spdlog::set_level(spdlog::level::off);
    FUZZ_REQUIRE(relay.start().ok());
    auto opened = history::Database::open(":memory:", history::Database::Mode::create);
    FUZZ_REQUIRE(opened.ok());
    db = *std::move(opened);
    FUZZ_REQUIRE(history::prepare_schema(*db).ok());
    FUZZ_REQUIRE(db->run("PRAGMA foreign_keys=ON").ok());
  }

  void relay_telemetry(std::string_view bytes) {
    FUZZ_REQUIRE(other_bus.send("telemetry.other", bytes_of(bytes)).ok());
    const Relay::Waiting waiting = relay.take_all();
    FUZZ_REQUIRE(waiting.answers.empty() && waiting.telemetry.size() <= 1);
    for (const Relayed& r : waiting.telemetry) {
      FUZZ_REQUIRE(Relay::is_relayed(r.connection));
      FUZZ_REQUIRE(r.connection.compare(0, 7, "@other/") == 0);
      FUZZ_REQUIRE(r.bytes.size() < bytes.size());
    }
  }

  void relay_answer(std::string_view bytes) {
    FUZZ_REQUIRE(other_bus.send("answers.node", bytes_of(bytes)).ok());
    const Relay::Waiting waiting = relay.take_all();
    FUZZ_REQUIRE(waiting.telemetry.empty() && waiting.answers.size() <= 1);
  }

  void hear_node(std::string_view bytes) {
    Member member(
        bus,
        {.node = "node",
         .run = "run",
         .about = Json::object(),
         .lease = {},
         .clock_ns = [] { return Nanoseconds{ns_per_s}; }},
        {.position = [] { return history::LogPosition(); },
         .apply = [](std::vector<Json>, history::LogPosition, history::LogPosition) { return absl::OkStatus(); },
         .standing = [] { return history::Standing(); },
         .wrote = [](const Json&, history::LogPosition) {},
         .last_id = [] { return uint64_t{0}; },
         .held_up_ns = [] { return Nanoseconds{0}; }});
    const size_t own = shared.listeners.size();
    FUZZ_REQUIRE(member.listen().ok());
    FUZZ_REQUIRE(other_bus.send("nodes", bytes_of(bytes)).ok());
    for (const Member::Node& n : member.view().nodes)
      for (const char* key : {"http", "telemetry", "version"}) (void)report::raw_text_of(n.about, key);
    shared.listeners.resize(own);
  }

  history::Standing standing() {
    auto s = history::standing_of(*db, now_ms);
    FUZZ_REQUIRE(s.ok());
    return *std::move(s);
  }

  void apply(const std::vector<Json>& entries) {
    for (const Json& entry : entries) {
      const absl::Status s = history::apply_entry(*db, entry);
      FUZZ_REQUIRE(s.ok() || absl::IsInvalidArgument(s));  // else the log could not be followed any more
    }
  }

  void read_log(std::string_view text) {
    std::vector<Json> entries;
    for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
      if (entries.size() == entries_max) break;
      auto entry = report::parse_bounded(line);
      entries.push_back(entry.ok() ? *std::move(entry) : Json(Json::value_t::discarded));
    }
    FUZZ_REQUIRE(db->run("BEGIN").ok());
    const auto undo = absl::MakeCleanup([this] { FUZZ_REQUIRE(db->run("ROLLBACK").ok()); });
    apply(entries);
    const history::Standing once = standing();
    // Who leads takes incidents up, ends them, and tells the receiver.
    for (const Json& verdict : once.open) {
      (void)history::left_open_of(verdict, report::WallClock{});
      (void)history::ended_verdict(verdict, now_ms);
      FUZZ_REQUIRE(!webhook::revision_delivery(verdict, "run").body.empty());
    }
    // A log that is read again changes nothing.
    apply(entries);
    const history::Standing twice = standing();
    FUZZ_REQUIRE(once.last_id == twice.last_id);
    FUZZ_REQUIRE(once.open == twice.open);
  }
};

}  // namespace
}  // namespace ccld::decision::cluster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& node = *new ccld::decision::cluster::Node;
  ccld::fuzz::ByteReader bytes(data, size);
  switch (bytes.byte() % 4) {
    case 0: node.relay_telemetry(bytes.rest()); break;
    case 1: node.relay_answer(bytes.rest()); break;
    case 2: node.hear_node(bytes.rest()); break;
    default: node.read_log(bytes.rest()); break;
  }
  return 0;
}
