// One telemetry message as it comes from the socket, from an address of any alignment; what is accepted goes into a
// whole analysis.
#include <cstdint>
#include <cstring>
#include <vector>

#include "decision/server/analysis.h"
#include "test/fuzz/require.h"

namespace ccld::decision {
namespace {

constexpr Nanoseconds now_ns = 1000 * ns_per_s;

void take(absl::Span<const uint8_t> message) {
  server::Analysis analysis(Settings{}, std::nullopt);
  if (const auto batch = analysis.on_message(message, now_ns, now_ns); batch.has_value())
    FUZZ_REQUIRE(fuzz::is_harmless(batch->job) && fuzz::is_harmless(batch->process.host));
  for (const ingest::DistinctError& error : analysis.ingest().errors().all())
    FUZZ_REQUIRE(fuzz::is_harmless(error.text));
  for (int look = 1; look <= 2; ++look) analysis.tick(now_ns + look * 20 * ns_per_s, now_ns);
  analysis.analyzer().status(now_ns + 60 * ns_per_s);
}

}  // namespace
}  // namespace ccld::decision

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The first byte says where the message lies: behind a ZeroMQ header it is at no round address.
  if (size == 0) return 0;
  const size_t shift = data[0] % 8;
  std::vector<uint64_t> memory(size / 8 + 2);
  auto* const begin = reinterpret_cast<uint8_t*>(memory.data()) + shift;
  std::memcpy(begin, data + 1, size - 1);
  ccld::decision::take({begin, size - 1});
  return 0;
}
