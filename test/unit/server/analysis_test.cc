#include "decision/server/analysis.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "decision/ingest/limits.h"
#include "schemas/wire/call_groups.h"
#include "schemas/wire/packed_structs.h"
#include "test/unit/server/wire_batch.h"

namespace ccld::test {
namespace {

// Rounds in which all is as it is expected: they take next to nothing on the wire.
Bytes many_rounds(uint64_t batch_seq) {
  wire::CallGroups g;
  g.kind_words.assign(wire::words_of<wire::OpSignature>, 1);
  g.rows.resize(decision::ingest::rounds_per_message_max - 2);  // with the group and the kind
  for (size_t i = 0; i < g.rows.size(); ++i) g.rows[i].number = i + 1;
  g.groups = {{.comm_uid = 0xabc, .rows = static_cast<uint32_t>(g.rows.size()), .kinds = 1}};
  WireBatch b;
  const auto calls = b.fbb.CreateVector(wire::pack(g, wire::words_of<wire::OpSignature>, wire::Numbering::of_all));
  b.add(wire::Payload::RoundGroups, wire::CreateRoundGroups(b.fbb, calls));
  return b.finish({.batch_seq = batch_seq, .schema_version = 4});
}

// The most memory that this process has had since the last call.
size_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  size_t kib = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:") status >> kib;
  std::ofstream("/proc/self/clear_refs") << 5;
  return kib << 10;
}

}  // namespace

TEST_CASE("Small messages that decode to gigabytes are decoded one after another, and none is left out") {
  std::vector<Bytes> bytes;
  for (uint64_t i = 1; i <= decision::server::together_max; ++i) bytes.push_back(many_rounds(i));
  REQUIRE(bytes[0].size() < 1024);
  std::vector<decision::server::Analysis::Message> messages;
  for (const Bytes& each : bytes) messages.push_back({each});
  for (const size_t threads : {1, 4}) {
    decision::server::Analysis analysis(decision::Settings(), std::nullopt, {}, threads);
    std::vector<size_t> heard;
    peak_bytes();
    const size_t before = peak_bytes();
    analysis.on_messages(messages, 1, 1, [&](size_t i, const decision::Batch* batch) {
      REQUIRE(batch != nullptr);
      heard.push_back(i);
    });
    CHECK(peak_bytes() - before < size_t{512} << 20);  // all at once: 1.6 GB
    REQUIRE(heard.size() == messages.size());
    CHECK(std::is_sorted(heard.begin(), heard.end()));
  }
}

}  // namespace ccld::test
