#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/cli/service_client.h"
#include "decision/cli/service_options.h"
#include "decision/cli/status_check.h"
#include "decision/cli/top_screen.h"
#include "decision/report/page_query.h"
#include "decision/report/text_format.h"

// Last, and without macros that have names of the standard library (move, erase, clear).
#define NCURSES_NOMACROS
#include <ncurses.h>

namespace ccld::decision {
namespace {

using report::Json;

struct TopValues {
  ServiceAddress service;
  double every_s = 1;
};

std::string path_for(int lines) {
  const size_t rows = std::clamp<size_t>(static_cast<size_t>(std::max(lines, 1)), 1, report::page_rows_max);
  return absl::StrCat("/v1/status?limit=", rows);
}

// A service that does not answer is shown, and asked again: it may come back.
std::vector<std::string> screen(const TopValues& values, size_t columns, size_t rows) {
  const auto status = ask_service(values.service, path_for(static_cast<int>(rows)));
  if (!status.ok()) return {report::shortened(report::printable(status.status().message()), columns), "", "q: quit"};
  try {
    return top_screen(*status, columns, rows);
  } catch (const nlohmann::json::exception& e) {
    return {report::shortened(absl::StrCat("the service's answer is not understood: ", report::printable(e.what())), columns)};
  }
}

void draw(const std::vector<std::string>& lines) {
  erase();
  for (size_t row = 0; row < lines.size() && row < static_cast<size_t>(LINES); ++row)
    mvaddstr(static_cast<int>(row), 0, lines[row].c_str());
  refresh();
}

void run_on_terminal(const TopValues& values) {
  std::setlocale(LC_CTYPE, "");
  if (newterm(nullptr, stdout, stdin) == nullptr) fail(exit_failed, "this terminal is not known (TERM): `ccld status --watch` needs less");
  const absl::Cleanup restore = [] { endwin(); };
  cbreak();
  noecho();
  curs_set(0);
  timeout(static_cast<int>(std::lround(values.every_s * 1e3)));
  for (;;) {
    draw(screen(values, static_cast<size_t>(std::max(COLS, 1)), static_cast<size_t>(std::max(LINES, 1))));
    const int key = getch();  // ERR after the time; KEY_RESIZE draws anew
    if (key == 'q' || key == 'Q') return;
  }
}

void run(const TopValues& values) {
  if (isatty(STDOUT_FILENO) != 0 && isatty(STDIN_FILENO) != 0) return run_on_terminal(values);
  const auto status = ask_service(values.service, "/v1/status?limit=1");
  end_unless_ok(status.status());
  try {
    std::printf("%s\n", check_of(*status).line.c_str());
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the service's answer is not understood: ", e.what()));
  }
}

}  // namespace

void add_top_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("top", "Watch jobs, open incidents and communicators on a terminal; q quits");
  auto values = std::make_shared<TopValues>();
  add_service_options(*command, values->service);
  command->add_option("--every", values->every_s, "seconds between two looks")->type_name("SECONDS")->check(CLI::Range(0.1, 3600.0))->capture_default_str();
  command->callback([values] { run(*values); });
}

}  // namespace ccld::decision
