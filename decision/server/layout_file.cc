#include "decision/server/layout_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "decision/model/layout.h"
#include "decision/report/bounded_json.h"
#include "nlohmann/json.hpp"

namespace ccld::decision::server {

absl::StatusOr<std::vector<std::string>> parse_layout(const std::string& text, const std::string& path) {
  const auto refuse = [&path](const std::string& what) { return absl::InvalidArgumentError(absl::StrCat("layout ", path, ": ", what)); };
  const auto parsed = report::parse_bounded<nlohmann::json>(text);
  if (!parsed.ok()) return refuse(std::string(parsed.status().message()));
  const nlohmann::json& json = *parsed;
  if (!json.is_object()) return refuse("is no JSON object");
  constexpr uint64_t size_max = 10'000'000;
  uint64_t data = 1;
  std::vector<std::string> settings;
  for (const char* name : {"tp", "pp", "dp", "ep"}) {
    const bool optional = std::strcmp(name, "ep") == 0;
    if (!json.contains(name)) {
      if (!optional) settings.push_back(absl::StrCat("layout_", name, "=1"));
      continue;
    }
    const nlohmann::json& value = json[name];
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > size_max)
      return refuse(absl::StrCat("\"", name, "\" is ", value.dump(), ": a whole number from 1 is expected"));
    const uint64_t size = value.get<uint64_t>();
    if (std::strcmp(name, "dp") == 0) data = size;
    if (optional && data % size != 0) return refuse(absl::StrCat("\"ep\" is ", size, ": it must divide \"dp\", which is ", data));
    if (!optional || size > 1) settings.push_back(absl::StrCat("layout_", name, "=", size));
  }
  for (const auto& [name, value] : json.items()) {
    if (name == "tp" || name == "pp" || name == "dp" || name == "ep") continue;
    if (name != "order") return refuse(absl::StrCat("\"", name, "\" is not known; known are tp, pp, dp, ep and order"));
    if (!value.is_string() || !check_order(value.get<std::string>()).ok())
      return refuse(absl::StrCat("\"order\" is ", value.dump(), ": tp, dp and pp once each are expected, e.g. \"tp-dp-pp\""));
    settings.push_back(absl::StrCat("layout_order=", value.get<std::string>()));
  }
  return settings;
}

absl::StatusOr<std::vector<std::string>> read_layout_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return absl::InvalidArgumentError(absl::StrCat("layout ", path, ": cannot be read: ", std::strerror(errno)));
  return parse_layout(text.str(), path);
}

}  // namespace ccld::decision::server
