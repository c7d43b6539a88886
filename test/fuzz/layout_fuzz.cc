// The layout of a job: its file becomes settings, or one line says what is wrong.
#include <cstdint>
#include <string>

#include "decision/model/layout.h"
#include "decision/server/layout_file.h"
#include "decision/settings.h"
#include "test/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::decision;
  const auto lines = server::parse_layout({reinterpret_cast<const char*>(data), size}, "layout.json");
  if (!lines.ok()) return 0;
  Settings settings;
  for (const std::string& line : *lines) (void)parse_setting(settings, line);
  if (!check_settings(settings).ok()) return 0;
  const Layout layout{settings.layout_tp, settings.layout_pp, settings.layout_dp, settings.layout_ep,
                      settings.layout_order};
  FUZZ_REQUIRE(check_order(layout.order).ok());
  for (const std::vector<int>& group : {std::vector<int>{0, 1}, {0, 2, 4, 6}, {3, 1}, {}}) (void)role_of(layout, group);
  return 0;
}
