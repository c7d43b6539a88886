#include "decision/cli/man_page.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ccld::decision {
namespace {

using absl::StrAppend;

// Plain text for roff: no escape of its own, hyphens that can be copied, and no line that begins with a control
// character.
std::string roff(absl::string_view text) {
  std::string out = absl::StrReplaceAll(
      text, {{"\\", "\\e"}, {"-", "\\-"}, {"~", "\\(ti"}, {"^", "\\(ha"}, {"`", "\\(ga"}, {"'", "\\(aq"}});
  out = absl::StrReplaceAll(out, {{"\n.", "\n\\&."}});
  return absl::StartsWith(out, ".") ? "\\&" + out : out;
}

std::string bold(absl::string_view text) { return absl::StrCat("\\fB", roff(text), "\\fR"); }
std::string italic(absl::string_view text) { return absl::StrCat("\\fI", roff(text), "\\fR"); }

std::string head(const std::string& name, const std::string& help, const std::string& source) {
  std::string text(absl::StripSuffix(help, "."));
  if (!text.empty()) text[0] = absl::ascii_tolower(static_cast<unsigned char>(text[0]));
  return absl::StrCat(".TH ", absl::AsciiStrToUpper(roff(name)), " 1 \"\" \"", roff(source), "\" \"ccld\"\n.SH NAME\n",
                      roff(name), " \\- ", roff(text), "\n");
}

// Help texts end without a full stop, and another sentence may follow.
std::string sentence(const std::string& text) {
  return roff(text.empty() || absl::EndsWith(text, ".") ? text : text + ".");
}

std::string positional_synopsis(const OptionRow& row) {
  const std::string name = italic(row.names.front()) + (row.repeated ? "..." : "");
  return row.required ? name : absl::StrCat("[", name, "]");
}

std::string option_item(const OptionRow& option) {
  const std::string names =
      absl::StrJoin(option.names, ", ", [](std::string* out, const std::string& n) { out->append(bold(n)); });
  std::string out = absl::StrCat(".TP\n", names);
  if (!option.type.empty()) {
    const std::string value = italic(option.type);
    StrAppend(&out, " ", option.value_optional ? absl::StrCat("[", value, "]") : value, option.repeated ? "..." : "");
  }
  StrAppend(&out, "\n", sentence(option.help), "\n");
  if (!option.default_text.empty() && option.default_text != "[]")
    StrAppend(&out, "Default: ", bold(option.default_text), ".\n");
  if (!option.variable.empty())
    StrAppend(&out, "Without it, the environment variable ", bold(option.variable), " counts.\n");
  return out;
}

std::string option_items(const std::vector<OptionRow>& rows) {
  return absl::StrJoin(rows, "", [](std::string* out, const OptionRow& row) { out->append(option_item(row)); });
}

std::string arguments(const CommandRow& command) {
  std::string out;
  for (const OptionRow& row : command.positionals) {
    StrAppend(&out, ".TP\n", positional_synopsis(row), "\n", sentence(row.help), "\n");
  }
  return out;
}

std::string variables(const std::vector<OptionRow>& rows) {
  std::string out;
  for (const OptionRow& row : rows) {
    if (!row.variable.empty()) StrAppend(&out, ".TP\n", bold(row.variable), "\nGives ", bold(row.names.front()), ".\n");
  }
  return out.empty() ? out : ".SH ENVIRONMENT\n" + out;
}

std::string exit_status(const OptionTable& table) {
  if (table.footer.empty()) return "";
  return absl::StrCat(".SH EXIT STATUS\n", roff(absl::StripPrefix(table.footer, "Exit codes: ")), "\n");
}

std::string page_name(const OptionTable& table, const CommandRow& command) {
  return absl::StrCat(table.program.name, "-", command.name);
}

}  // namespace

std::string man_page(const OptionTable& table, const std::string& source) {
  const CommandRow& program = table.program;
  std::string out = head(program.name, program.help, source);
  StrAppend(&out, ".SH SYNOPSIS\n.B ", program.name, "\n", italic("COMMAND"), " [", italic("OPTION"), "...]\n");
  StrAppend(&out, ".SH COMMANDS\n");
  for (const CommandRow& command : table.commands) {
    StrAppend(&out, ".TP\n", bold(page_name(table, command)), "(1)\n", roff(command.help), "\n");
  }
  StrAppend(&out, ".SH OPTIONS\n", option_items(program.options), exit_status(table));
  return out;
}

std::string man_page(const OptionTable& table, const CommandRow& command, const std::string& source) {
  const std::string name = page_name(table, command);
  std::string out = head(name, command.help, source);
  StrAppend(&out, ".SH SYNOPSIS\n.B ", table.program.name, " ", roff(command.name), "\n[", italic("OPTION"), "...]");
  for (const OptionRow& row : command.positionals) StrAppend(&out, " ", positional_synopsis(row));
  StrAppend(&out, "\n");
  if (!command.positionals.empty()) StrAppend(&out, ".SH ARGUMENTS\n", arguments(command));
  StrAppend(&out, ".SH OPTIONS\n", option_items(command.options), variables(command.options), exit_status(table));
  StrAppend(&out, ".SH SEE ALSO\n.BR ", table.program.name, " (1)\n");
  return out;
}

}  // namespace ccld::decision
