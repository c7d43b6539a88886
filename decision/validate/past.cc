#include "decision/validate/past.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "decision/report/bounded_json.h"

namespace ccld::decision::validate {
namespace {

using Json = nlohmann::ordered_json;

constexpr char schema[] = "ccld-validate-past/1";
constexpr std::streamoff file_bytes_max = 64 << 20;  // a row takes 200 bytes: a third of a million of them

Json optional_text(const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); }

std::string text(const Json& row, const char* key) {
  const Json& value = row.at(key);
  return value.is_null() ? "" : value.get<std::string>();
}

double milliseconds(const Json& row, const char* key) {
  const double value = row.at(key).get<double>();
  if (!std::isfinite(value) || value <= 0) throw std::invalid_argument(absl::StrCat(key, " must be more than 0"));
  return value;
}

void read_row(const Json& row, Past& out) {
  PastKey key;
  const std::string check = row.at("check").get<std::string>();
  if (!parse_check(check, key.check)) throw std::invalid_argument(absl::StrCat("there is no check '", check, "'"));
  key.host = text(row, "host");
  key.bus_id = text(row, "bus_id");
  key.peer_host = text(row, "peer_host");
  key.peer_bus_id = text(row, "peer_bus_id");
  key.kind = text(row, "kind");
  key.bytes = row.at("bytes").get<double>();
  out[key] = {milliseconds(row, "low_ms"), milliseconds(row, "middle_ms"), milliseconds(row, "high_ms")};
}

}  // namespace

PastKey past_key(Check check, const Member& m, const Member* peer, const std::string& kind, double bytes) {
  return {check, m.host, m.bus_id, peer != nullptr ? peer->host : "", peer != nullptr ? peer->bus_id : "", kind, bytes};
}

absl::StatusOr<Past> read_past(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read '", path, "': ", std::strerror(errno)));
  if (file.tellg() > file_bytes_max)
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is longer than 64 MiB"));
  file.seekg(0);
  try {
    std::stringstream text;
    text << file.rdbuf();
    const auto parsed = report::parse_bounded(text.str());
    if (!parsed.ok())
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' is no past of ccld-validate: ", parsed.status().message()));
    const Json& document = *parsed;
    if (document.at("schema") != schema)
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' is no past of ccld-validate: schema ", schema, " is expected"));
    Past out;
    for (const Json& row : document.at("rows")) read_row(row, out);
    return out;
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is no past of ccld-validate: ", e.what()));
  }
}

absl::Status write_past(const std::string& path, const Past& past) {
  Json rows = Json::array();
  for (const auto& [key, ms] : past)
    rows.push_back({{"check", name(key.check)},
                    {"host", key.host},
                    {"bus_id", key.bus_id},
                    {"peer_host", optional_text(key.peer_host)},
                    {"peer_bus_id", optional_text(key.peer_bus_id)},
                    {"kind", optional_text(key.kind)},
                    {"bytes", key.bytes},
                    {"low_ms", ms.low},
                    {"middle_ms", ms.middle},
                    {"high_ms", ms.high}});
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  file << Json{{"schema", schema}, {"rows", std::move(rows)}}.dump(1, ' ', false, Json::error_handler_t::replace)
       << "\n";
  file.close();
  if (!file || std::rename(part.c_str(), path.c_str()) != 0)
    return absl::UnavailableError(absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace ccld::decision::validate
