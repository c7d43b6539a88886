#include "decision/cli/incident_source.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "decision/cli/service_options.h"
#include "decision/cli/verdict_file.h"
#include "decision/history/reader.h"
#include "decision/history/state_folder.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_text.h"
#include "httplib.h"

namespace ccld::decision {
namespace {

using history::Page;
using report::Json;

absl::StatusOr<history::Filter> filter_of(const FilterTexts& texts) {
  const auto value = [&texts](const std::string& name) {
    const auto at = texts.find(name);
    return at == texts.end() ? std::string() : at->second;
  };
  const auto filter = history::parse_filter(value, absl::ToUnixMillis(absl::Now()));
  if (!filter.ok()) return absl::InvalidArgumentError(absl::StrCat("--", filter.status().message()));
  return filter;
}

class ServiceSource : public IncidentSource {
 public:
  explicit ServiceSource(ServiceAddress service) : service_(std::move(service)) {}

  absl::StatusOr<Page> list(const FilterTexts& texts) override {
    if (const auto filter = filter_of(texts); !filter.ok()) return filter.status();
    const auto answer = ask_service(service_, httplib::append_query_params("/v1/incidents", httplib::Params(texts.begin(), texts.end())));
    if (!answer.ok()) return answer.status();
    if (!report::member(*answer, "incidents").is_array()) return absl::UnavailableError("the service's answer has no incidents");
    Page page;
    for (const Json& verdict : report::member(*answer, "incidents")) page.incidents.push_back(verdict);
    page.matching = report::number_of(*answer, "matching", page.incidents.size());
    if (report::has(*answer, "next")) page.next = report::number_of(*answer, "next");
    return page;
  }

  absl::StatusOr<std::vector<Found>> find(uint64_t id, bool all_revisions) override {
    auto answer = ask_service(service_, absl::StrCat("/v1/incidents/", id, all_revisions ? "?revisions=1" : ""));
    if (!answer.ok()) return answer.status();
    Found found;
    if (all_revisions) {
      for (const Json& verdict : report::member(*answer, "revisions")) found.revisions.push_back(verdict);
      if (found.revisions.empty()) return absl::UnavailableError("the service's answer has no revisions");
    } else {
      found.revisions.push_back(*std::move(answer));
    }
    return std::vector<Found>{std::move(found)};
  }

 private:
  ServiceAddress service_;
};

class DatabaseSource : public IncidentSource {
 public:
  DatabaseSource(history::HistoryReader reader, std::string note) : reader_(std::move(reader)), note_(std::move(note)) {}

  absl::StatusOr<Page> list(const FilterTexts& texts) override {
    const auto filter = filter_of(texts);
    if (!filter.ok()) return filter.status();
    return reader_.list(*filter);
  }
  absl::StatusOr<std::vector<Found>> find(uint64_t id, bool all_revisions) override {
    Found found;
    if (all_revisions) {
      auto revisions = reader_.revisions(id);
      if (!revisions.ok()) return revisions.status();
      found.revisions = *std::move(revisions);
    } else {
      auto newest = reader_.newest(id);
      if (!newest.ok()) return newest.status();
      found.revisions.push_back(*std::move(newest));
    }
    return std::vector<Found>{std::move(found)};
  }
  std::string note() const override { return note_; }

 private:
  history::HistoryReader reader_;
  std::string note_;
};

class LinesSource : public IncidentSource {
 public:
  LinesSource(VerdictFile file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  // Numbers may repeat, and lines need no revision. The newest are those at the end; pages behind a number go by number.
  absl::StatusOr<Page> list(const FilterTexts& texts) override {
    const auto filter = filter_of(texts);
    if (!filter.ok()) return filter.status();
    Page page;
    for (const VerdictFile::Incident& incident : file_.incidents) {
      Json verdict = incident.newest();
      if (!report::has(verdict, "run")) verdict["run"] = incident.run;
      if (!report::has(verdict, "revision")) verdict["revision"] = incident.lines.size();
      if (!history::matches(*filter, verdict)) continue;
      ++page.matching;
      if (!filter->after.has_value() || report::number_of(verdict, "incident") > *filter->after) page.incidents.push_back(std::move(verdict));
    }
    if (filter->after.has_value()) cut_after_limit(page, filter->limit);
    else if (page.incidents.size() > filter->limit)
      page.incidents.erase(page.incidents.begin(), page.incidents.end() - static_cast<std::ptrdiff_t>(filter->limit));
    return page;
  }

  absl::StatusOr<std::vector<Found>> find(uint64_t id, bool all_revisions) override {
    std::vector<Found> found;
    for (const VerdictFile::Incident* incident : file_.find(id)) {
      found.push_back({incident->run, all_revisions ? incident->lines : std::vector<Json>{incident->newest()}});
    }
    if (found.empty()) return absl::NotFoundError(absl::StrCat("there is no incident ", id, " in '", path_, "'"));
    return found;
  }

  std::string note() const override {
    if (file_.runs.size() < 2) return "";
    return absl::StrCat("'", path_, "' holds ", file_.runs.size(), " runs of the service");
  }

 private:
  static uint64_t number(const Json& verdict) { return report::number_of(verdict, "incident"); }

  // The next page begins behind a number, so all incidents of one number are on one page, which they may make longer.
  static void cut_after_limit(Page& page, size_t limit) {
    std::vector<Json>& all = page.incidents;
    std::stable_sort(all.begin(), all.end(), [](const Json& a, const Json& b) { return number(a) < number(b); });
    if (all.size() <= limit) return;
    const auto first_of = [&](uint64_t id) { return std::find_if(all.begin(), all.end(), [id](const Json& v) { return number(v) == id; }); };
    auto end = first_of(number(all[limit]));
    if (end == all.begin()) end = std::find_if(all.begin(), all.end(), [&](const Json& v) { return number(v) != number(all[0]); });
    if (end == all.end()) return;
    all.erase(end, all.end());
    page.next = number(all.back());
  }

  VerdictFile file_;
  std::string path_;
};

bool is_database(const std::string& path) {
  constexpr absl::string_view magic("SQLite format 3\0", 16);
  char begin[magic.size()] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof(begin));
  return absl::string_view(begin, sizeof(begin)) == magic;
}

absl::StatusOr<std::unique_ptr<IncidentSource>> open_database(const char* flag, const std::string& path, std::string note) {
  auto reader = history::HistoryReader::open(path);
  if (!reader.ok()) return absl::Status(reader.status().code(), absl::StrCat(flag, ": ", reader.status().message()));
  return std::make_unique<DatabaseSource>(*std::move(reader), std::move(note));
}

absl::StatusOr<std::unique_ptr<IncidentSource>> open_state(const std::string& folder) {
  return open_database("--state", history::database_path(folder),
                       history::holder_of(folder).has_value() ? "" : "no service runs on this history: what is open in it may have ended");
}

}  // namespace

CLI::Option* add_source_flags(CLI::App& command, SourceFlags& flags) {
  command.add_option("--file", flags.file, "read a file of verdicts, or a database of a history, instead of asking a service")->type_name("FILE");
  command.add_option("--state", flags.state, "read the history in this folder of a service instead of asking it")->type_name("FOLDER");
  return add_service_options(command, flags.service);
}

absl::StatusOr<std::unique_ptr<IncidentSource>> open_source(const SourceFlags& flags) {
  if (!flags.file.empty() && !flags.state.empty()) return absl::InvalidArgumentError("--file and --state exclude each other");
  if (!flags.state.empty()) return open_state(flags.state);
  if (!flags.file.empty()) {
    if (is_database(flags.file)) return open_database("--file", flags.file, "");
    auto lines = read_verdict_file(flags.file);
    if (!lines.ok()) return lines.status();
    return std::make_unique<LinesSource>(*std::move(lines), flags.file);
  }
  if (!flags.url_given) {
    const std::string folder = history::default_state_folder();
    std::error_code error;
    if (!folder.empty() && std::filesystem::exists(history::database_path(folder), error) &&
        ask_service(flags.service, "/v1/incidents?limit=1").status().code() == absl::StatusCode::kUnavailable) {
      auto source = open_database("--state", history::database_path(folder),
                                  absl::StrCat("no service answers at ", flags.service.url, "; this is the history in '", folder, "'"));
      if (source.ok()) return source;
    }
  }
  return std::make_unique<ServiceSource>(flags.service);
}

std::string list_text(const Page& page, size_t columns) {
  std::vector<std::pair<std::string, Json>> runs;  // in order of first appearance
  bool repeats = false;
  std::map<uint64_t, std::string> run_of;
  for (const Json& verdict : page.incidents) {
    const std::string run = report::text_of(verdict, "run");
    repeats |= !run_of.try_emplace(report::number_of(verdict, "incident"), run).second;
    auto of_run = std::find_if(runs.begin(), runs.end(), [&run](const auto& known) { return known.first == run; });
    if (of_run == runs.end()) of_run = runs.insert(runs.end(), {run, Json::array()});
    of_run->second.push_back(verdict);
  }
  if (!repeats) return report::incident_list_text(Json(page.incidents), columns);
  // The same number means different incidents: only with its run it is one.
  std::string out;
  for (const auto& [run, incidents] : runs) {
    absl::StrAppend(&out, out.empty() ? "" : "\n", "Run ", run, "\n", report::incident_list_text(incidents, columns));
  }
  return out;
}

}  // namespace ccld::decision
