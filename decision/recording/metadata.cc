#include "decision/recording/metadata.h"

#include <unistd.h>

#include <climits>

#include "absl/strings/str_cat.h"
#include "decision/recording/format.h"
#include "decision/report/bounded_json.h"
#include "decision/report/text_format.h"
#include "decision/report/wall_clock.h"

namespace ccld::decision::recording {
namespace {

using report::Json;

absl::Status refuse(absl::string_view what) { return absl::DataLossError(absl::StrCat("the metadata is not valid: ", what)); }

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

absl::StatusOr<Json> parse_object(absl::string_view text) {
  if (text.size() > metadata_bytes_max) return refuse(absl::StrCat("it has ", text.size(), " bytes"));
  auto document = report::parse_bounded(text);
  if (!document.ok()) return refuse(document.status().message());
  if (!document->is_object()) return refuse("no JSON object");
  return document;
}

absl::Status take(const Json& object, const char* key, std::string& value) {
  const Json& found = report::member(object, key);
  if (!found.is_string()) return refuse(absl::StrCat("\"", key, "\" is not a text"));
  value = found.get<std::string>();
  return absl::OkStatus();
}

absl::Status take(const Json& object, const char* key, int64_t& value) {
  const Json& found = report::member(object, key);
  if (!found.is_number_integer()) return refuse(absl::StrCat("\"", key, "\" is not an integer"));
  value = found.get<int64_t>();
  if (value < 0 || static_cast<uint64_t>(value) > ingest::time_ns_max) return refuse(absl::StrCat("\"", key, "\" is out of range"));
  return absl::OkStatus();
}

absl::Status take(const Json& object, const char* key, uint64_t& value) {
  int64_t number = 0;
  const absl::Status status = take(object, key, number);
  value = static_cast<uint64_t>(number);
  return status;
}

}  // namespace

Metadata metadata_of(const Settings& settings, std::string source, Nanoseconds now_ns, int64_t realtime_ns) {
  Metadata m;
  m.source = std::move(source);
  m.version = CCLD_VERSION;
  m.host = host_name();
  m.started_ns = now_ns;
  m.started_realtime_ns = realtime_ns;
  for (const SettingRow& row : describe_settings()) {
    const auto text = setting_text(settings, row.name);
    if (text.ok() && *text != row.default_text) m.settings.emplace_back(row.name, *text);
  }
  return m;
}

Settings settings_of(const Metadata& m, std::vector<std::string>& warnings) {
  Settings settings;
  for (const auto& [name, value] : m.settings) {
    const absl::Status s = set_setting(settings, name, value);
    if (!s.ok()) warnings.push_back(absl::StrCat("the recording's ", s.message(), "; the default is used"));
  }
  return settings;
}

Json fitting(Json verdict) {
  constexpr size_t verdict_bytes_max = metadata_bytes_max / 2;
  for (const char* list : {"evidence", "victims", "candidates", "culprits", "ranks"}) {
    if (report::to_line(verdict).size() <= verdict_bytes_max) break;
    verdict.erase(list);
  }
  return verdict;
}

Json to_json(const Metadata& m) {
  Json settings = Json::object();
  for (const auto& [name, value] : m.settings) settings[name] = value;
  const report::WallClock calendar{m.started_realtime_ns - m.started_ns};
  return {{"source", m.source},
          {"ccld", m.version},
          {"host", m.host},
          {"started", calendar.text(m.started_ns)},
          {"started_clock_ns", m.started_ns},
          {"started_realtime_ns", m.started_realtime_ns},
          {"settings", std::move(settings)},
          {"run", m.numbering.run},
          {"last_incident", m.numbering.last_id},
          {"incident", m.incident}};
}

absl::StatusOr<Metadata> parse_metadata(absl::string_view json) {
  const auto document = parse_object(json);
  if (!document.ok()) return document.status();
  Metadata m;
  absl::Status s = take(*document, "source", m.source);
  s.Update(take(*document, "ccld", m.version));
  s.Update(take(*document, "host", m.host));
  s.Update(take(*document, "started_clock_ns", m.started_ns));
  s.Update(take(*document, "started_realtime_ns", m.started_realtime_ns));
  if (!s.ok()) return s;
  const Json& settings = report::member(*document, "settings");
  if (!settings.is_object()) return refuse("\"settings\" is not an object");
  for (const auto& [name, value] : settings.items()) {
    if (!value.is_string()) return refuse(absl::StrCat("setting \"", name, "\" is not a text"));
    m.settings.emplace_back(name, value.get<std::string>());
  }
  // Older recordings have no numbering: theirs begins at 1.
  if (document->contains("run")) {
    s.Update(take(*document, "run", m.numbering.run));
    s.Update(take(*document, "last_incident", m.numbering.last_id));
    if (!s.ok()) return s;
  }
  m.incident = report::member(*document, "incident");
  return m;
}

Json to_json(const Ending& e) {
  return {{"messages", e.messages}, {"ticks", e.ticks}, {"missing", e.missing}, {"reason", e.reason}};
}

absl::StatusOr<Ending> parse_ending(absl::string_view json) {
  const auto document = parse_object(json);
  if (!document.ok()) return document.status();
  Ending e;
  absl::Status s = take(*document, "messages", e.messages);
  s.Update(take(*document, "ticks", e.ticks));
  s.Update(take(*document, "missing", e.missing));
  s.Update(take(*document, "reason", e.reason));
  if (!s.ok()) return s;
  return e;
}

}  // namespace ccld::decision::recording
