#include "decision/model/control_wishes.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schemas/abi/names.h"
#include "schemas/abi/process.h"
#include "schemas/endpoints/endpoint_list.h"

namespace ccld::decision {
namespace {

constexpr uint32_t sample_us_min = 100, sample_us_max = 1'000'000, budget_ppm_max = 1'000'000;
constexpr size_t endpoint_bytes_max = sizeof(abi::ControlLine::endpoint) - 1;

struct Field {
  const char* name;
  uint32_t bit;
  const char* range;
};
constexpr Field fields[] = {
    {"running", abi::control_running, "0 or 1"},
    {"sample_us", abi::control_sample_us, "100 .. 1000000"},
    {"log", abi::control_log, "warnings, info or trace"},
    {"endpoint", abi::control_endpoint,
     "tcp://address:port, ipc://path, several with commas between them, or nothing, at most 95 bytes"},
    {"budget_ppm", abi::control_budget_ppm, "0 .. 1000000"},
};

bool parse(absl::string_view text, uint32_t low, uint32_t high, uint32_t& out) {
  uint32_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < low || value > high) return false;
  out = value;
  return true;
}

bool parse_log(absl::string_view text, uint32_t& out) {
  for (const abi::LogVerbosity v : {abi::LogVerbosity::warnings, abi::LogVerbosity::info, abi::LogVerbosity::trace}) {
    if (text != abi::name_of(v) && text != absl::StrCat(static_cast<uint32_t>(v))) continue;
    out = static_cast<uint32_t>(v);
    return true;
  }
  return false;
}

bool is_endpoint(absl::string_view text) {
  if (text.empty()) return true;
  for (const char c : text)
    if (!absl::ascii_isprint(c)) return false;
  return text.size() <= endpoint_bytes_max && !endpoints_in({text.data(), text.size()}).empty() &&
         (absl::StartsWith(text, "tcp://") || absl::StartsWith(text, "ipc://"));
}

}  // namespace

absl::Status set_wish(ControlWishes& w, absl::string_view name, absl::string_view value) {
  const Field* field = nullptr;
  for (const Field& f : fields)
    if (name == f.name) field = &f;
  if (field == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is not known: running, sample_us, log, budget_ppm or endpoint is expected"));
  if ((w.fields & field->bit) != 0) return absl::InvalidArgumentError(absl::StrCat(name, " is given twice"));
  bool ok = false;
  switch (field->bit) {
    case abi::control_running: {
      uint32_t running = 0;
      ok = parse(value, 0, 1, running);
      if (ok) w.running = running != 0;
      break;
    }
    case abi::control_sample_us: ok = parse(value, sample_us_min, sample_us_max, w.sample_us); break;
    case abi::control_log: ok = parse_log(value, w.log); break;
    case abi::control_budget_ppm: ok = parse(value, 0, budget_ppm_max, w.budget_ppm); break;
    case abi::control_endpoint:
      ok = is_endpoint(value);
      if (ok) w.endpoint = std::string(value);
      break;
    default: break;
  }
  if (!ok) return absl::InvalidArgumentError(absl::StrCat(name, "=", value, " is not valid: expected ", field->range));
  w.fields |= field->bit;
  return absl::OkStatus();
}

absl::Status set_wish(ControlWishes& w, absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos)
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not valid: expected name=value"));
  return set_wish(w, text.substr(0, equals), text.substr(equals + 1));
}

std::vector<std::string> control_field_names(uint32_t bits) {
  std::vector<std::string> names;
  for (const Field& f : fields) {
    if ((bits & f.bit) != 0) names.emplace_back(f.name);
    bits &= ~f.bit;
  }
  for (uint32_t bit = 1; bits != 0; bit <<= 1) {
    if ((bits & bit) != 0) names.push_back(absl::StrCat("field ", bit));
    bits &= ~bit;
  }
  return names;
}

}  // namespace ccld::decision
