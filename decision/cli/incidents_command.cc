#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/cli/incident_source.h"
#include "decision/cli/terminal.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

using report::Json;

struct IncidentsValues {
  SourceFlags source;
  FilterTexts filter;
  bool open = false, json = false, wide = false;
};

void list(const IncidentsValues& values) {
  const auto source = open_source(values.source);
  end_unless_ok(source.status());
  FilterTexts filter = values.filter;
  std::erase_if(filter, [](const auto& text) { return text.second.empty(); });
  if (values.open) filter["open"] = "1";
  const auto page = (*source)->list(filter);
  end_unless_ok(page.status());
  say((*source)->note());
  try {
    const std::string text = values.json ? Json({{"incidents", page->incidents},
                                                 {"matching", page->matching},
                                                 {"next", page->next.has_value() ? Json(*page->next) : Json(nullptr)}})
                                                   .dump(2) +
                                               "\n"
                                         : list_text(*page, values.wide ? report::columns_unlimited : output_columns());
    std::fputs(text.c_str(), stdout);
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the incidents are not understood: ", e.what()));
  }
  if (page->next.has_value()) {
    say(absl::StrCat("further ones with --after ", *page->next));
  } else if (page->matching > page->incidents.size() && !filter.contains("after")) {
    say(absl::StrCat("the newest ", page->incidents.size(), " of ", page->matching, "; all of them from --after 0 on"));
  }
}

}  // namespace

void add_incidents_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("incidents", "List incidents of this run of the service and of earlier ones, also while none runs");
  auto values = std::make_shared<IncidentsValues>();
  const auto text = [&](const char* name, const char* type, const char* help) {
    command->add_option(absl::StrCat("--", name), values->filter[name], help)->type_name(type);
  };
  text("since", "TIME", "open, or changed since then: 90s, 30m, 2h, 7d ago, or 2026-01-31, 2026-01-31T12:00 in UTC");
  text("job", "JOB", "of this training job");
  text("class", "CLASS", "H1, H2, H3, S1, S2 or S3");
  command->add_flag("--open", values->open, "neither resolved nor ended");
  text("limit", "N", "so many, the newest; 100 unless given");
  text("after", "INCIDENT", "those with higher numbers, lowest first; 0: from the first one on");
  CLI::Option* http = add_source_flags(*command, values->source);
  command->add_flag("--wide", values->wide, "lines as long as they are; else they fit the terminal, or 80 columns");
  command->add_flag("--json", values->json, "{\"incidents\", \"matching\", \"next\"}");
  command->callback([values, http] {
    values->source.url_given = !http->empty();
    list(*values);
  });
}

}  // namespace ccld::decision
