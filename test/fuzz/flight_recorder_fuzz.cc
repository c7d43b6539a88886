// Dumps of PyTorch's Flight Recorder, as pickle or as JSON: one for each rank, up to a line "----".
#include <cstdint>
#include <string>
#include <string_view>

#include "decision/import/flight_recorder.h"
#include "decision/import/judge.h"
#include "decision/import/parse_json.h"
#include "decision/import/unpickle.h"
#include "test/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::decision::dumps;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view divider = "\n----\n";
  FlightRecorderReader reader;
  for (int rank = 0; rank < 8; ++rank) {
    const size_t end = rest.find(divider);
    const std::string_view dump = rest.substr(0, end);
    const absl::string_view text(dump.data(), dump.size());
    const auto document = !text.empty() && text[0] == '\x80' ? unpickle(text) : parse_json(text);
    if (document.ok() && is_flight_recorder(**document)) (void)reader.add(rank, **document);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + divider.size());
  }
  (void)judge(reader.take());
  return 0;
}
