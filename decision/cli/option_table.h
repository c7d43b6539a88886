// The command line as data: what completion and manual pages are made of. Read from the CLI::App that also parses, so
// none of them can tell of an option that is not there.
//
// Contract
//   What is hidden (an empty group) is left out. Order is that of the program. `type` is what `--help` shows for the
//   value, without the description of its range.
// Threads: none of its own; the App must not change meanwhile.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace ccld::decision {

enum class ValueKind {
  none,  // a flag
  text,  // cannot be guessed
  file,
  folder,
  choices,  // one of OptionRow::choices
};

struct OptionRow {
  std::vector<std::string> names;  // "--http", "-h"; of a positional its one name, "FILE"
  std::string type;                // "FOLDER"; empty: a flag
  std::string help;
  std::string default_text;          // empty: none
  std::string variable;              // environment variable that gives it; empty: none
  std::vector<std::string> choices;  // "name=" where the user goes on typing behind it
  ValueKind kind = ValueKind::none;
  bool required = false;
  bool repeated = false;  // may be given more than once, or takes several values
  bool value_optional = false;
};

struct CommandRow {
  std::string name, help;
  std::vector<OptionRow> options, positionals;
};

struct OptionTable {
  CommandRow program;
  std::vector<CommandRow> commands;
  std::string footer;
};

OptionTable read_option_table(const CLI::App&);

}  // namespace ccld::decision
