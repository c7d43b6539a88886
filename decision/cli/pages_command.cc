// `ccld completion` and `ccld man`: what packages install beside the program. Hidden, since they are for builds.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/cli/completion.h"
#include "decision/cli/man_page.h"
#include "decision/cli/option_table.h"
#include "schemas/build_id/build_id.h"

namespace ccld::decision {
namespace {

constexpr char hidden[] = "";  // a group without a name is not listed

void show(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    fail(exit_failed, absl::StrCat("standard output: ", std::strerror(errno)));
}

void write_page(const std::string& folder, const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(folder, "/", name, ".1");
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(exit_failed, absl::StrCat("--into: cannot write '", path, "': ", std::strerror(errno)));
}

struct ManValues {
  std::string command, into;
};

void man(const CLI::App& app, const ManValues& values) {
  const OptionTable table = read_option_table(app);
  const std::string source = absl::StrCat(table.program.name, " ", release_version());
  if (!values.into.empty()) {
    write_page(values.into, table.program.name, man_page(table, source));
    for (const CommandRow& command : table.commands) {
      write_page(values.into, absl::StrCat(table.program.name, "-", command.name), man_page(table, command, source));
    }
    return;
  }
  if (values.command.empty()) return show(man_page(table, source));
  for (const CommandRow& command : table.commands) {
    if (command.name == values.command) return show(man_page(table, command, source));
  }
  fail(exit_usage, absl::StrCat("man: there is no command '", values.command, "'"));
}

}  // namespace

void add_pages_commands(CLI::App& app) {
  const CLI::App* const program = &app;
  CLI::App* completion = app.add_subcommand("completion", "Print the completion script of a shell")->group(hidden);
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "which shell")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  completion->callback([program, shell] {
    const OptionTable table = read_option_table(*program);
    show(*shell == "bash" ? bash_completion(table) : zsh_completion(table));
  });

  CLI::App* pages = app.add_subcommand("man", "Print a manual page, or write all of them")->group(hidden);
  auto values = std::make_shared<ManValues>();
  pages->add_option("command", values->command, "of this command; without it, of ccld")->type_name("COMMAND");
  pages->add_option("--into", values->into, "write the pages of all commands into this folder")->type_name("FOLDER");
  pages->callback([program, values] { man(*program, *values); });
}

}  // namespace ccld::decision
