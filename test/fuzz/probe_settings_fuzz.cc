// The environment of a training process: every variable of the probe from the input, each up to a zero.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "probe/settings.h"
#include "test/fuzz/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld;
  fuzz::ByteReader bytes(data, size);
  std::map<std::string, std::string> values;
  std::vector<std::string> warnings;
  const probe::Settings settings = probe::parse_settings(
      [&](const char* name) -> const char* {
        const auto [value, is_new] = values.try_emplace(name);
        if (is_new) value->second = std::string(bytes.text_to_zero());
        return value->second.c_str();
      },
      &warnings);
  if (settings.sample_us < 100 || settings.sample_us > 1'000'000) std::abort();
  if (settings.queue_max < 1 || settings.linger_ms > 200) std::abort();
  if (settings.job.size() > 63) std::abort();
  return 0;
}
