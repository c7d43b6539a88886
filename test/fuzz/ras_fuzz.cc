// Output of `ncclras`: one document for each moment, up to a line "----".
#include <cstdint>
#include <string_view>
#include <vector>

#include "decision/import/parse_json.h"
#include "decision/import/ras.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::decision::dumps;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view divider = "\n----\n";
  std::vector<RasMoment> moments;
  while (moments.size() < 4) {
    const size_t end = rest.find(divider);
    const std::string_view text = rest.substr(0, end);
    const auto document = parse_json({text.data(), text.size()});
    RasMoment moment;
    if (document.ok() && is_ras(**document) && read_ras(**document, moment).ok()) moments.push_back(std::move(moment));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + divider.size());
  }
  if (!moments.empty()) (void)judge_ras(std::move(moments));
  return 0;
}
