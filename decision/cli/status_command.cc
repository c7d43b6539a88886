#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/cli/command.h"
#include "decision/cli/service_client.h"
#include "decision/cli/service_options.h"
#include "decision/cli/status_check.h"
#include "decision/cli/terminal.h"
#include "decision/report/page_query.h"
#include "decision/report/status_text.h"

namespace ccld::decision {
namespace {

using report::Json;

// Communicators on a screen: troubled ones come first, so what matters is among them.
constexpr size_t text_rows_default = 20;

struct StatusValues {
  ServiceAddress service;
  std::string job, state, after;
  size_t limit = 0;  // 0: not given
  double watch_s = 0;
  bool json = false, ranks = false, wide = false, check = false, health = false;
};

std::string path_of(const StatusValues& v) {
  std::vector<std::string> parameters;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) parameters.push_back(absl::StrCat(name, "=", percent_encoded(value)));
  };
  if (v.limit > 0 || !v.json) add("limit", absl::StrCat(v.limit > 0 ? v.limit : text_rows_default));
  add("after", v.after);
  add("state", v.state);
  if (v.ranks) add("ranks", "1");
  return absl::StrCat(v.job.empty() ? "/v1/status" : absl::StrCat("/v1/jobs/", percent_encoded(v.job)),
                      parameters.empty() ? "" : "?", absl::StrJoin(parameters, "&"));
}

std::string text_of(const StatusValues& v, const Json& document) {
  if (v.json) return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  report::StatusTextOptions options;
  options.columns = v.wide ? report::columns_unlimited : output_columns();
  options.ranks = v.ranks;
  return v.job.empty() ? report::status_text(document, options) : report::job_text(document, options);
}

CheckResult check(const StatusValues& v) {
  // A service that answers from what it knew long ago is none.
  if (const auto health = ask_service(v.service, "/healthz"); !health.ok()) return check_unknown(std::string(health.status().message()));
  const auto document =
      ask_service(v.service, v.job.empty() ? "/v1/status?limit=1" : absl::StrCat("/v1/jobs/", percent_encoded(v.job), "?limit=1"));
  if (!document.ok()) return check_unknown(std::string(document.status().message()));
  try {
    return check_of(*document);
  } catch (const nlohmann::json::exception& e) {
    return check_unknown(absl::StrCat("the service's answer is not understood: ", e.what()));
  }
}

void show(const StatusValues& v) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  for (;;) {
    const auto document = ask_service(v.service, path_of(v));
    end_unless_ok(document.status());
    std::string text;
    try {
      text = text_of(v, *document);
    } catch (const nlohmann::json::exception& e) {
      fail(exit_failed, absl::StrCat("the service's answer is not understood: ", e.what()));
    }
    if (v.watch_s > 0 && terminal && !v.json) std::fputs("\x1b[H\x1b[2J", stdout);
    std::fputs(text.c_str(), stdout);
    if (v.watch_s <= 0) return;
    if (std::fflush(stdout) != 0) return;  // main says so
    std::this_thread::sleep_for(std::chrono::duration<double>(v.watch_s));
    if (!terminal && !v.json) std::fputs("\n", stdout);
  }
}

// For the health checks of containers, which have no token.
void show_health(const StatusValues& v) {
  const auto health = ask_service(v.service, "/healthz");
  end_unless_ok(health.status());
  std::printf("%s\n", health->dump().c_str());
}

}  // namespace

void add_status_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("status", "Show jobs and communicators, the troubled first, what is in flight and for how long, silent processes");
  command->footer(
      "Exit codes: 0 done, 1 the surroundings failed (service), 2 wrong usage. With --check: 0 OK, 1 suspected, 2 "
      "confirmed, 3 unknown.");
  auto values = std::make_shared<StatusValues>();
  add_service_options(*command, values->service);
  command->add_option("--job", values->job, "this job only")->type_name("JOB");
  command->add_option("--state", values->state, "communicators in this state only: troubled, confirmed, suspected, victim, silent, busy, idle, ended")->type_name("STATE");
  command->add_option("--limit", values->limit, "communicators shown, 20 unless said otherwise (--json: 100)")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, report::page_rows_max));
  command->add_option("--after", values->after, "the page after this one: what the page before ended with")->type_name("CURSOR");
  command->add_flag("--ranks", values->ranks, "every rank of these communicators");
  command->add_flag("--wide", values->wide, "lines as long as they are; else they fit the terminal, or 80 columns");
  auto* json = command->add_flag("--json", values->json, "the document as it is");
  auto* watch = command->add_option("--watch", values->watch_s, "again and again, with so many seconds between, until interrupted")
                    ->type_name("SECONDS")
                    ->expected(0, 1)
                    ->default_str("2")
                    ->check(CLI::Range(0.1, 86400.0));
  auto* health = command->add_flag("--health", values->health, "only whether the service is well, which needs no token: exit status 0 or 1");
  command->add_flag("--check", values->check, "one line and an exit status for a monitoring system")
      ->excludes(json)
      ->excludes(watch)
      ->excludes(health);
  command->callback([values] {
    if (values->health) return show_health(*values);
    if (!values->check) return show(*values);
    const CheckResult result = check(*values);
    std::printf("%s\n", result.line.c_str());
    if (result.exit_code != exit_check_ok) throw CLI::RuntimeError(result.exit_code);
  });
}

}  // namespace ccld::decision
