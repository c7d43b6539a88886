// How a command ends: it returns normally, or throws what CLI11 carries to main with the exit code.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decision/cli/exit_codes.h"

namespace ccld::decision {

// One line on standard error, printable whatever names are in it; nothing if it is empty.
void say(const std::string& line);
// The same, then the end of the command.
[[noreturn]] void fail(int exit_code, const std::string& line);
// InvalidArgument ends with exit_usage, any other error with exit_failed.
void end_unless_ok(const absl::Status&);
// The same, or the value.
template <class T>
T value_of(absl::StatusOr<T> result) {
  end_unless_ok(result.status());
  return *std::move(result);
}

// What the config file of the service may hold besides settings.
std::vector<std::string> serve_flag_names();

// Each adds one subcommand.
void add_serve_command(CLI::App&);
void add_status_command(CLI::App&);
void add_explain_command(CLI::App&);
void add_advise_command(CLI::App&);
void add_validate_command(CLI::App&);
void add_incidents_command(CLI::App&);
void add_ack_command(CLI::App&);
void add_silence_command(CLI::App&);
void add_cluster_command(CLI::App&);
void add_settings_command(CLI::App&);
void add_tune_command(CLI::App&);
void add_keys_command(CLI::App&);
void add_tokens_command(CLI::App&);
void add_record_command(CLI::App&);
void add_replay_command(CLI::App&);
void add_trace_command(CLI::App&);
void add_import_command(CLI::App&);
void add_doctor_command(CLI::App&);
void add_top_command(CLI::App&);
// `completion` and `man`, which tell of all commands: the last to be added.
void add_pages_commands(CLI::App&);

}  // namespace ccld::decision
