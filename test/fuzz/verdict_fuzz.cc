// Verdicts that were written earlier, or by another version: as the history reads them, and as the commands show them.
#include <cstdint>
#include <string>

#include "decision/history/revision.h"
#include "decision/report/bounded_json.h"
#include "decision/report/verdict_text.h"
#include "test/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::decision;
  const auto parsed = report::parse_bounded({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) return 0;
  const report::Json& verdict = *parsed;
  // Documents that are none of ours end in an exception of the JSON library: their commands say so in one line.
  try {
    FUZZ_REQUIRE(ccld::fuzz::is_harmless(report::verdict_text(verdict, true)));
    FUZZ_REQUIRE(ccld::fuzz::is_harmless(report::incident_list_text(report::Json::array({verdict}), 80)));
  } catch (const report::Json::exception&) {
  }
  const auto revision = history::revision_of(verdict);
  if (!revision.has_value()) return 0;
  (void)history::left_open_of(verdict, report::WallClock{});
  (void)history::ended_verdict(verdict, 1'700'000'000'000);
  return 0;
}
