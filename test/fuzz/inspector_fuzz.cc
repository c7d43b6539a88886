// A log of NCCL Inspector.
#include <cstdint>

#include "absl/strings/str_split.h"
#include "decision/import/inspector.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::decision::dumps;
  InspectorReader reader{Thresholds()};
  uint64_t number = 0;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(reinterpret_cast<const char*>(data), size), '\n')) {
    if (number == 0) (void)is_inspector(line);
    (void)reader.add_line(line, ++number);
  }
  (void)reader.judge();
  return 0;
}
