#include "decision/cli/option_table.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "decision/model/control_wishes.h"
#include "decision/settings.h"

namespace ccld::decision {
namespace {

// Where `--help` names a kind of value by its type: what a shell can offer for it.
std::vector<std::string> choices_of_type(const std::string& type) {
  if (type == "RULES") return {"default", "paper"};
  if (type == "LEVEL") return {"trace", "debug", "info", "warning", "error", "critical", "off"};
  return {};
}

std::vector<std::string> setting_choices() {
  std::vector<std::string> names;
  for (const SettingRow& row : describe_settings()) names.push_back(std::string(row.name) + "=");
  return names;
}

std::vector<std::string> wish_choices() {
  std::vector<std::string> names;
  for (const std::string& name : control_field_names(UINT32_MAX)) {
    if (!absl::StrContains(name, ' ')) names.push_back(name + "=");  // bits without a name are "field 64"
  }
  return names;
}

// "SHELL:{bash,zsh}", as CLI::IsMember describes itself.
std::vector<std::string> listed_choices(const std::string& full_type) {
  const size_t open = full_type.find('{'), close = full_type.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return absl::StrSplit(full_type.substr(open + 1, close - open - 1), ',', absl::SkipWhitespace());
}

std::vector<std::string> choices_of(const OptionRow& row, const std::string& full_type) {
  if (row.type == "NAME=VALUE") return row.names.front() == "--set" ? setting_choices() : wish_choices();
  std::vector<std::string> choices = listed_choices(full_type);
  return choices.empty() ? choices_of_type(row.type) : choices;
}

OptionRow row_of(const CLI::Option& option) {
  OptionRow row;
  if (option.get_positional()) {
    row.names.push_back(absl::AsciiStrToUpper(option.get_name(true)));
  } else {
    for (const std::string& name : option.get_lnames()) row.names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) row.names.push_back("-" + name);
  }
  row.help = option.get_description();
  row.variable = option.get_envname();
  row.required = option.get_required();
  row.repeated = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0) return row;
  const std::string full_type = option.get_type_name();
  row.type = full_type.substr(0, full_type.find(':'));
  row.default_text = option.get_default_str();
  row.value_optional = option.get_items_expected_min() == 0 && !option.get_positional();
  row.choices = choices_of(row, full_type);
  if (!row.choices.empty())
    row.kind = ValueKind::choices;
  else if (row.type == "FILE")
    row.kind = ValueKind::file;
  else if (row.type == "FOLDER")
    row.kind = ValueKind::folder;
  else
    row.kind = ValueKind::text;
  return row;
}

CommandRow command_of(const CLI::App& app) {
  CommandRow command;
  command.name = app.get_name();
  command.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? command.positionals : command.options).push_back(row_of(*option));
  }
  return command;
}

}  // namespace

OptionTable read_option_table(const CLI::App& app) {
  OptionTable table;
  table.program = command_of(app);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); })) {
    table.commands.push_back(command_of(*command));
  }
  table.footer = app.get_footer();
  return table;
}

}  // namespace ccld::decision
