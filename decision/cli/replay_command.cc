#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/advise/known_settings.h"
#include "decision/cli/command.h"
#include "decision/cli/replay_report.h"
#include "decision/report/mitigation.h"
#include "decision/report/text_format.h"
#include "decision/server/config_file.h"
#include "decision/server/replay.h"
#include "decision/server/surroundings.h"
#include "decision/server/thread_count.h"

namespace ccld::decision {
namespace {

using recording::Reader;
using report::Json;

struct ReplayValues {
  std::string path, rules, config, verdicts, threads = "auto";
  std::vector<std::string> settings;
  std::optional<double> until_s;
  bool explain = false, json = false, info = false, compare_rules = false;
};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// What the recording says, then the config file, then the flags.
Settings settings_for(const ReplayValues& v, const recording::Metadata& metadata) {
  std::vector<std::string> warnings;
  Settings settings = recording::settings_of(metadata, warnings);
  for (const std::string& warning : warnings) say(warning);
  std::string rules = v.rules;
  std::vector<std::string> changes;
  if (!v.config.empty()) {
    server::ConfigFile config = value_of(server::read_config_file(v.config, serve_flag_names()));
    if (rules.empty()) rules = config.values["rules"];
    changes = std::move(config.settings);
  }
  changes.insert(changes.end(), v.settings.begin(), v.settings.end());
  if (!rules.empty()) end_unless_ok(server::naming("--rules", set_setting(settings, "rules", rules)));
  for (const std::string& change : changes) end_unless_ok(parse_setting(settings, change));
  end_unless_ok(check_settings(settings));
  return settings;
}

uint64_t size_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// What there was to find out is shown before an error of the file ends the command.
void warn_of(const Reader& reader, const server::ReplaySummary& summary) {
  if (!reader.warning().empty()) say(reader.warning());
  if (summary.gaps > 0) say(absl::StrCat("the recorder could not keep up: ", summary.missing, " entries are missing"));
}

void show_info(const ReplayValues& v) {
  Reader reader = value_of(Reader::open(v.path));
  RecordingFacts facts{.path = v.path, .file_bytes = size_of(v.path), .metadata = reader.metadata()};
  const absl::Status status = server::survey(reader, facts.summary);
  facts.ending = reader.ending();
  print(v.json ? facts_json(facts).dump(2) + "\n" : facts_text(facts));
  warn_of(reader, facts.summary);
  end_unless_ok(status);
}

struct Replayed {
  server::ReplaySummary summary;
  FinalVerdicts verdicts;
  absl::Status status;
};

Replayed replay_once(const ReplayValues& v, std::optional<RuleSet> rules, std::optional<server::VerdictWriter> writer) {
  Reader reader = value_of(Reader::open(v.path));
  Settings settings = settings_for(v, reader.metadata());
  if (rules.has_value()) settings.rules = *rules;
  server::ReplayOptions options;
  if (v.until_s.has_value()) options.until_ns = seconds_to_ns(*v.until_s);
  const auto threads = server::threads_of(v.threads);
  end_unless_ok(server::naming("--threads", threads.status()));
  server::Analysis analysis(settings, std::move(writer), reader.metadata().numbering, *threads);
  const advise::Known known = advise::known_of(settings);
  Replayed result;
  result.status = server::replay(reader, options, analysis, result.summary, [&](const Incident& i, Nanoseconds now_ns, int64_t realtime_ns) {
    report::Json verdict = report::verdict_json(i, now_ns, {realtime_ns - now_ns});
    report::set_mitigation(verdict, known);
    result.verdicts.see(std::move(verdict));
  });
  if (analysis.verdict_write_errors() > 0 && result.status.ok()) result.status = absl::UnavailableError("--verdicts: not all lines could be written");
  warn_of(reader, result.summary);
  return result;
}

void compare_rules(const ReplayValues& v) {
  const Replayed measured = replay_once(v, RuleSet::measured, std::nullopt), paper = replay_once(v, RuleSet::paper, std::nullopt);
  if (v.json) print(Json({{"default", measured.verdicts.all()}, {"paper", paper.verdicts.all()}}).dump(2) + "\n");
  else print(comparison_text(measured.verdicts.all(), paper.verdicts.all()));
  say(summary_text(measured.summary));
  end_unless_ok(measured.status);
}

void replay(const ReplayValues& v) {
  if (absl::Status s = server::start_log("warning"); !s.ok()) end_unless_ok(s);
  if (v.info && v.compare_rules) fail(exit_usage, "--info and --compare-rules exclude each other");
  if (v.verdicts == "-" && (v.json || v.explain)) fail(exit_usage, "--verdicts - takes standard output; with --json or --explain give it a file");
  if (v.until_s.has_value() && !(*v.until_s >= 0 && *v.until_s <= 1e9)) fail(exit_usage, "--until: seconds from 0 to 1000000000 are expected");
  if (v.info) return show_info(v);
  if (v.compare_rules) return compare_rules(v);

  std::optional<server::VerdictWriter> writer;
  if (!v.verdicts.empty()) {
    end_unless_ok(Reader::open(v.path).status());  // before a file of earlier verdicts is emptied
    auto opened = server::VerdictWriter::create(v.verdicts);
    end_unless_ok(server::naming("--verdicts", opened.status()));
    writer.emplace(*std::move(opened));
  }
  const auto begun = std::chrono::steady_clock::now();
  const Replayed result = replay_once(v, std::nullopt, std::move(writer));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const Json& verdicts = result.verdicts.all();
  if (v.json) print(Json({{"summary", summary_json(result.summary)}, {"incidents", verdicts}}).dump(2) + "\n");
  else if (v.verdicts.empty() || v.explain) print(verdicts_text(verdicts));
  char line[64];
  std::snprintf(line, sizeof(line), "; analysed in %.2f s", took.count());
  say(absl::StrCat(summary_text(result.summary), "; ", report::count_text(verdicts.size(), "incident", "incidents"), line));
  end_unless_ok(result.status);
}

}  // namespace

void add_replay_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("replay", "Analyse a recording under its own clock: the same verdicts, or those of other rules and settings");
  auto v = std::make_shared<ReplayValues>();
  command->add_option("file", v->path, "a recording of `ccld serve --record`, `--record-incidents` or `ccld record`")->type_name("FILE")->required();
  command->add_option("--rules", v->rules, "default or paper; without this flag, as recorded")->type_name("RULES");
  command->add_option("--set", v->settings, "a setting in place of the recorded one, may be repeated; `ccld settings` lists them")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--config", v->config, "a config file of the service: its rules and settings go before the recorded ones")->type_name("FILE");
  command->add_option("--verdicts", v->verdicts, "write the verdict lines as `ccld serve` does; an existing file starts anew; -: standard output")
      ->type_name("FILE");
  command->add_option("--threads", v->threads, "that take telemetry in; what is found is the same; auto: as many as there are processors")->type_name("N");
  command->add_flag("--explain", v->explain, "say what each incident is, also where --verdicts is given");
  command->add_option("--until", v->until_s, "stop after so many seconds of the recording")->type_name("SECONDS");
  command->add_flag("--info", v->info, "say what is in the recording, without analysing it");
  command->add_flag("--compare-rules", v->compare_rules, "both rule sets side by side");
  command->add_flag("--json", v->json, "as JSON");
  command->callback([v] {
    try {
      replay(*v);
    } catch (const nlohmann::json::exception& e) {
      fail(exit_failed, absl::StrCat("a verdict is not understood: ", e.what()));
    }
  });
}

}  // namespace ccld::decision
