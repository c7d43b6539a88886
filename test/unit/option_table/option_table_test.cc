#include "decision/cli/option_table.h"

#include <algorithm>
#include <stdexcept>

#include <catch2/catch.hpp>

#include "decision/cli/completion.h"
#include "decision/cli/man_page.h"
#include "decision/settings.h"

namespace ccld::decision {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Program {
  CLI::App app{"Finds what is slow.", "tool"};
  std::string file, folder, rules, set, shell, secret;
  std::vector<std::string> wishes;
  double watch_s = 0;
  bool all = false;

  Program() {
    app.footer("Exit codes: 0 done, 1 not done.");
    CLI::App* look = app.add_subcommand("look", "Look at files: one, or .all of 'them'");
    look->add_option("--file,-f", file, "what to read")->type_name("FILE")->envname("TOOL_FILE")->capture_default_str();
    look->add_option("--dir", folder, "where")->type_name("FOLDER");
    look->add_option("--rules", rules, "which [sort]: of rules")->type_name("RULES");
    look->add_option("--set", set, "a setting")->type_name("NAME=VALUE");
    look->add_option("--watch", watch_s, "again and again")
        ->type_name("SECONDS")
        ->expected(0, 1)
        ->check(CLI::Range(0.1, 9.0));
    look->add_flag("--all", all, "everything");
    CLI::App* tune = app.add_subcommand("tune", "Change something");
    tune->add_option("wishes", wishes, "what")->type_name("NAME=VALUE")->required();
    tune->add_option("--secret", secret, "nobody sees it")->group("");
    CLI::App* shells = app.add_subcommand("shells", "Choose")->group("");
    shells->add_option("shell", shell, "one")->check(CLI::IsMember({"bash", "zsh"}));
  }
  OptionTable table() { return read_option_table(app); }
};

const OptionRow& option(const CommandRow& command, const std::string& name) {
  for (const OptionRow& row : command.options)
    if (std::count(row.names.begin(), row.names.end(), name) > 0) return row;
  FAIL("there is no " << name);
  throw std::logic_error("unreachable");
}

TEST_CASE("The table has every option that a user sees, with what its value is") {
  Program program;
  program.file = "a.txt";
  program.app.get_subcommand("look")->get_option("--file")->capture_default_str();
  const OptionTable table = program.table();
  REQUIRE(table.commands.size() == 2);  // one is hidden
  const CommandRow& look = table.commands[0];
  const OptionRow& file = option(look, "-f");
  CHECK(file.names == std::vector<std::string>{"--file", "-f"});
  CHECK(file.kind == ValueKind::file);
  CHECK(file.variable == "TOOL_FILE");
  CHECK(file.default_text == "a.txt");
  CHECK(option(look, "--dir").kind == ValueKind::folder);
  CHECK(option(look, "--rules").choices == std::vector<std::string>{"default", "paper"});
  CHECK(option(look, "--all").kind == ValueKind::none);
  CHECK(option(look, "--watch").value_optional);
  CHECK(option(look, "--watch").type == "SECONDS");
  CHECK(option(look, "--help").kind == ValueKind::none);
  CHECK(option(look, "--set").choices.size() == describe_settings().size());
  const CommandRow& tune = table.commands[1];
  CHECK(tune.options.size() == 1);  // --help alone
  REQUIRE(tune.positionals.size() == 1);
  CHECK(tune.positionals[0].required);
  CHECK(tune.positionals[0].repeated);
  const std::vector<std::string>& wishes = tune.positionals[0].choices;
  CHECK(std::count(wishes.begin(), wishes.end(), "sample_us=") == 1);
}

TEST_CASE("A list that the parser checks is offered as it is") {
  CLI::App app("", "tool");
  std::string shell;
  app.add_subcommand("completion", "Print")
      ->add_option("shell", shell, "which")
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh"}));
  const OptionTable table = read_option_table(app);
  CHECK(table.commands[0].positionals[0].choices == std::vector<std::string>{"bash", "zsh"});
  CHECK(table.commands[0].positionals[0].type == "SHELL");
}

TEST_CASE("Completion scripts name all commands and options, and none that is hidden") {
  Program program;
  const OptionTable table = program.table();
  for (const std::string& script : {bash_completion(table), zsh_completion(table)}) {
    for (const char* name :
         {"look", "tune", "--file", "-f", "--watch", "default paper", "hang_confirm_s=", "sample_us="})
      CHECK(contains(script, name));
    for (const char* name : {"shells", "--secret"}) CHECK_FALSE(contains(script, name));
  }
  // An option whose value may be left out: what follows may be another option.
  CHECK_FALSE(contains(bash_completion(table), "look:--watch"));
  CHECK(contains(zsh_completion(table), "which (sort)\\: of rules"));
}

TEST_CASE("A manual page has synopsis, options with defaults and variables, and how the program ends") {
  Program program;
  program.app.get_subcommand("look")->get_option("--file")->default_str("a-b");
  const OptionTable table = program.table();
  const std::string page = man_page(table, table.commands[0], "tool 1.2");
  CHECK(page.rfind(".TH TOOL\\-LOOK 1 \"\" \"tool 1.2\" \"ccld\"\n", 0) == 0);
  CHECK(contains(page, "tool\\-look \\- look at files: one, or .all of \\(aqthem\\(aq\n"));
  CHECK(contains(page, "\\fB\\-\\-file\\fR, \\fB\\-f\\fR \\fIFILE\\fR\nwhat to read.\nDefault: \\fBa\\-b\\fR.\n"));
  CHECK(contains(page, ".SH ENVIRONMENT\n.TP\n\\fBTOOL_FILE\\fR\n"));
  CHECK(contains(page, ".SH EXIT STATUS\n0 done, 1 not done.\n"));
  CHECK(contains(man_page(table, table.commands[1], "tool"), ".B tool tune\n[\\fIOPTION\\fR...] \\fIWISHES\\fR...\n"));
  const std::string front = man_page(table, "tool");
  CHECK(contains(front, "\\fBtool\\-look\\fR(1)"));
  CHECK_FALSE(contains(front, "shells"));
}

TEST_CASE("A help text that begins with a full stop is no request of roff") {
  CLI::App app(".ccld files, back\\slash", "tool");
  const std::string page = man_page(read_option_table(app), "tool");
  CHECK(contains(page, "tool \\- \\&.ccld files, back\\eslash\n"));
}

}  // namespace
}  // namespace ccld::decision
