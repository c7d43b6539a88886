#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/cli/command.h"
#include "decision/cli/incident_source.h"
#include "decision/cli/terminal.h"
#include "decision/report/mitigation.h"
#include "decision/report/revisions_text.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_text.h"

namespace ccld::decision {
namespace {

using report::Json;

struct ExplainValues {
  SourceFlags source;
  std::string run;
  std::optional<uint64_t> id;
  bool json = false, evidence = false, revisions = false;
};

// Of several runs that gave the number, the one asked for, or the newest, and then a line that says so.
Found choose(std::vector<Found> found, const ExplainValues& values) {
  if (!values.run.empty()) {
    for (Found& one : found) {
      if (one.run == values.run || report::text_of(one.revisions.back(), "run") == values.run) return std::move(one);
    }
    fail(exit_failed, absl::StrCat("there is no incident ", *values.id, " of run '", values.run, "'"));
  }
  if (found.size() > 1) {
    const std::string others = absl::StrJoin(found.begin(), found.end() - 1, "', '", [](std::string* out, const Found& f) { absl::StrAppend(out, f.run); });
    say(absl::StrCat("this is incident ", *values.id, " of run '", found.back().run, "'; there is one of '", others, "' too (--run)"));
  }
  return std::move(found.back());
}

std::string answer(IncidentSource& source, const ExplainValues& values) {
  if (!values.id.has_value()) {
    const auto page = source.list({});
    end_unless_ok(page.status());
    if (page->matching > page->incidents.size()) {
      say(absl::StrCat("the newest ", page->incidents.size(), " of ", page->matching, " incidents; `ccld incidents` shows others"));
    }
    return values.json ? Json(page->incidents).dump(2) + "\n" : list_text(*page, output_columns());
  }
  auto found = source.find(*values.id, values.revisions);
  end_unless_ok(found.status());
  const Found incident = choose(*std::move(found), values);
  if (values.revisions)
    return values.json ? Json(incident.revisions).dump(2) + "\n"
                       : report::revisions_text(incident.revisions, output_columns());
  if (values.json) return incident.revisions.back().dump(2) + "\n";
  Json verdict = incident.revisions.back();
  // What a service says about that goes by what it was told; files and histories know nothing of it.
  if (!verdict.contains("mitigation")) report::set_mitigation(verdict, {});
  return report::verdict_text(verdict, values.evidence);
}

void explain(const ExplainValues& values) {
  if (values.revisions && !values.id.has_value()) fail(exit_usage, "--revisions needs the number of an incident");
  const auto source = open_source(values.source);
  end_unless_ok(source.status());
  say((*source)->note());
  try {
    std::fputs(answer(**source, values).c_str(), stdout);
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the verdict is not understood: ", e.what()));
  }
}

}  // namespace

void add_explain_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("explain", "Say what an incident is, who causes it, why the service thinks so, what to look at next");
  auto values = std::make_shared<ExplainValues>();
  command->add_option("incident", values->id, "number of the incident; without it, the newest incidents are listed")->type_name("INCIDENT");
  CLI::Option* http = add_source_flags(*command, values->source);
  command->add_option("--run", values->run, "of several runs in a file of verdicts that gave this number: which one")->type_name("RUN");
  command->add_flag("--evidence", values->evidence, "all numbers, the chain of waits, and who else waits");
  command->add_flag("--revisions", values->revisions, "how the incident developed: a line for each revision");
  command->add_flag("--json", values->json, "the document as it is");
  command->callback([values, http] {
    values->source.url_given = !http->empty();
    explain(*values);
  });
}

}  // namespace ccld::decision
