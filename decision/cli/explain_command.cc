#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/cli/service_client.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_text.h"

namespace ccld::decision {
namespace {

using report::Json;

// The newest line of every incident of a verdict file, in order of first appearance.
absl::StatusOr<Json> read_verdicts(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::UnavailableError(absl::StrCat("--file: cannot read '", path, "': ", std::strerror(errno)));
  Json newest = Json::array();
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    Json verdict = Json::parse(line, nullptr, false);
    if (!verdict.is_object() || !report::member(verdict, "incident").is_number_unsigned()) {
      return absl::UnavailableError(absl::StrCat("--file: line ", number, " of '", path, "' is not a verdict"));
    }
    bool known = false;
    for (Json& other : newest) {
      if (other["incident"] != verdict["incident"]) continue;
      other = verdict;
      known = true;
    }
    if (!known) newest.push_back(std::move(verdict));
  }
  return newest;
}

struct Values {
  std::string url = default_service_url;
  std::string file;
  std::optional<uint64_t> id;
  bool json = false;
};

absl::StatusOr<Json> fetch_all(const Values& values) {
  if (!values.file.empty()) return read_verdicts(values.file);
  auto answer = ask_service(values.url, "/v1/incidents");
  if (!answer.ok()) return answer.status();
  if (!report::member(*answer, "incidents").is_array()) return absl::UnavailableError("the service's answer has no incidents");
  return Json(report::member(*answer, "incidents"));
}

absl::StatusOr<Json> fetch_one(const Values& values) {
  if (values.file.empty()) return ask_service(values.url, absl::StrCat("/v1/incidents/", *values.id));
  auto all = read_verdicts(values.file);
  if (!all.ok()) return all.status();
  for (const Json& verdict : *all) {
    if (verdict["incident"] == *values.id) return Json(verdict);
  }
  return absl::NotFoundError(absl::StrCat("there is no incident ", *values.id, " in '", values.file, "'"));
}

void explain(const Values& values) {
  const auto document = values.id.has_value() ? fetch_one(values) : fetch_all(values);
  end_unless_ok(document.status());
  try {
    std::string text;
    if (values.json) text = document->dump(2) + "\n";
    else if (values.id.has_value()) text = report::verdict_text(*document);
    else text = report::incident_list_text(*document);
    std::fputs(text.c_str(), stdout);
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the verdict is not understood: ", e.what()));
  }
}

}  // namespace

void add_explain_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("explain", "Say what an incident is, who causes it, why the service thinks so, what to look at next");
  auto values = std::make_shared<Values>();
  command->add_option("incident", values->id, "number of the incident; without it, incidents are listed")->type_name("INCIDENT");
  command->add_option("--http", values->url, "the service's query API")->type_name("URL")->envname(service_url_variable)->capture_default_str();
  command->add_option("--file", values->file, "read a file of verdicts instead of asking a service")->type_name("FILE");
  command->add_flag("--json", values->json, "the document as it is");
  command->callback([values] { explain(*values); });
}

}  // namespace ccld::decision
