// The configuration file of the service, and every setting in it.
#include <cstdint>
#include <string>
#include <string_view>

#include "decision/server/config_file.h"
#include "decision/server/host_port.h"
#include "decision/settings.h"
#include "decision/webhook/url.h"
#include "test/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::decision;
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)server::parse_host_port(text);
  (void)webhook::parse_url(text);
  const auto file = server::parse_config(text, "ccld.toml", {"listen", "http", "rules", "set", "log-level", "webhook"});
  if (!file.ok()) return 0;
  Settings settings;
  for (const std::string& line : file->settings) {
    if (!parse_setting(settings, line).ok()) continue;
    // What was taken can be told again, and taken again.
    const std::string name = line.substr(0, line.find('='));
    const size_t first = name.find_first_not_of(" \t"), last = name.find_last_not_of(" \t");
    if (first == std::string::npos) continue;
    const std::string bare = name.substr(first, last - first + 1);
    const auto value = setting_text(settings, bare);
    FUZZ_REQUIRE(value.ok());
    FUZZ_REQUIRE(set_setting(settings, bare, *value).ok());
  }
  (void)check_settings(settings);
  return 0;
}
