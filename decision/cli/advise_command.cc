#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/advise/known_settings.h"
#include "decision/cli/command.h"
#include "decision/cli/incident_source.h"
#include "decision/report/mitigation.h"
#include "decision/report/mitigation_text.h"
#include "decision/report/text_format.h"
#include "decision/server/layout_file.h"

namespace ccld::decision {
namespace {

using report::Json;

struct AdviseValues {
  SourceFlags source;
  std::string run, layout;
  std::vector<std::string> settings;
  uint64_t id = 0;
  bool json = false;
};

// What the command line says goes before what the service knew.
absl::Status add_given(const AdviseValues& values, advise::Known& known) {
  if (!values.layout.empty()) {
    const auto texts = server::read_layout_file(values.layout);
    if (!texts.ok()) return absl::InvalidArgumentError(absl::StrCat("--layout: ", texts.status().message()));
    Settings settings;
    for (const std::string& text : *texts)
      if (absl::Status s = parse_setting(settings, text); !s.ok())
        return absl::InvalidArgumentError(absl::StrCat("--layout: ", s.message()));
    known.layout = advise::known_of(settings).layout;
  }
  for (const std::string& text : values.settings)
    if (absl::Status s = advise::parse_known_setting(known, text); !s.ok()) return s;
  return absl::OkStatus();
}

// The newest run that gave the number, unless one is asked for.
Json choose(const std::vector<Found>& found, const AdviseValues& values) {
  if (values.run.empty()) {
    if (found.size() > 1)
      say(absl::StrCat("this is incident ", values.id, " of run '", found.back().run,
                       "'; other runs have one too (--run)"));
    return found.back().revisions.back();
  }
  for (const Found& one : found)
    if (one.run == values.run || report::text_of(one.revisions.back(), "run") == values.run)
      return one.revisions.back();
  fail(exit_failed, absl::StrCat("there is no incident ", values.id, " of run '", values.run, "'"));
}

void advise_on(const AdviseValues& values) {
  advise::Known checked;
  end_unless_ok(add_given(values, checked));  // before anybody is asked
  const auto source = open_source(values.source);
  end_unless_ok(source.status());
  say((*source)->note());
  const auto found = (*source)->find(values.id, false);
  end_unless_ok(found.status());
  try {
    Json verdict = choose(*found, values);
    advise::Known known = report::known_from(verdict);
    end_unless_ok(add_given(values, known));
    report::set_mitigation(verdict, known);
    std::fputs((values.json ? verdict.at("mitigation").dump(2) + "\n" : report::mitigation_text(verdict)).c_str(),
               stdout);
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the verdict is not understood: ", e.what()));
  }
}

}  // namespace

void add_advise_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "advise", "Say what to do about an incident, what an iteration takes then, what it costs and when it pays");
  auto values = std::make_shared<AdviseValues>();
  command->add_option("incident", values->id, "number of the incident")->type_name("INCIDENT")->required();
  CLI::Option* http = add_source_flags(*command, values->source);
  command->add_option("--run", values->run, "of several runs in a file of verdicts that gave this number: which one")
      ->type_name("RUN");
  command
      ->add_option("--layout", values->layout,
                   "sizes of the job's groups, as for `ccld serve`, in place of those that the service knows")
      ->type_name("FILE");
  command
      ->add_option("--set", values->settings,
                   "a setting that begins with advise_, may be repeated; `ccld settings` lists them")
      ->type_name("NAME=VALUE");
  command->add_flag("--json", values->json, "field `mitigation` of the incident");
  command->callback([values, http] {
    values->source.url_given = !http->empty();
    advise_on(*values);
  });
}

}  // namespace ccld::decision
