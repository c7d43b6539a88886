#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/import/import_report.h"
#include "decision/import/load.h"

namespace ccld::decision {
namespace {

struct ImportValues {
  std::vector<std::string> paths, changes;
  std::string format;
  bool json = false, evidence = false;
};

std::string set_help() {
  std::string out = "from where on something is trouble, may be repeated:";
  const dumps::Thresholds defaults;
  for (const dumps::ThresholdRow& row : dumps::thresholds())
    absl::StrAppend(&out, " ", row.name, "=", defaults.*(row.field), " (", row.help, ")");
  return out;
}

void import_dumps(const ImportValues& v) {
  dumps::Thresholds thresholds;
  for (const std::string& change : v.changes)
    if (const absl::Status s = dumps::set_threshold(thresholds, change); !s.ok())
      fail(exit_usage, absl::StrCat("--set: ", s.message()));
  const auto findings = dumps::load_and_judge(v.paths, dumps::format_named(v.format), thresholds);
  end_unless_ok(findings.status());
  const std::string text =
      v.json ? dumps::findings_json(*findings).dump(2, ' ', false, report::Json::error_handler_t::replace) + "\n"
             : dumps::findings_text(*findings, v.evidence);
  std::fputs(text.c_str(), stdout);
  say(findings->summary);
}

}  // namespace

void add_import_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("import",
                                         "Judge dumps of other tools, of jobs that ran without the probe: PyTorch "
                                         "Flight Recorder, `ncclras -f json`, NCCL Inspector");
  auto v = std::make_shared<ImportValues>();
  command
      ->add_option("files", v->paths,
                   "dumps of all ranks, or folders of them; the name of a Flight Recorder dump ends with its rank; "
                   "several files of RAS are several moments")
      ->type_name("FILE")
      ->required();
  command->add_option("--format", v->format, "what the files are; without this flag, by their content")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"flight-recorder", "ras", "inspector"}));
  command->add_option("--set", v->changes, set_help())->type_name("NAME=VALUE");
  command->add_flag("--evidence", v->evidence, "all numbers, and who else waits");
  command->add_flag("--json", v->json, "as JSON");
  command->callback([v] {
    try {
      import_dumps(*v);
    } catch (const nlohmann::json::exception& e) {
      fail(exit_failed, std::string("a verdict is not understood: ") + e.what());
    }
  });
}

}  // namespace ccld::decision
