// `ccld tokens`: who may ask a service what.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/admission/files.h"
#include "decision/admission/token_list.h"
#include "decision/cli/command.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

// Enough of a hash to tell tokens apart, in lists for people.
constexpr size_t hash_digits_shown = 16;

struct TokensValues {
  std::string action, hash, list, note;
  std::vector<std::string> roles;
};

void add(const TokensValues& values) {
  const auto roles = admission::parse_roles(absl::StrJoin(values.roles, ","));
  end_unless_ok(roles.status());
  const auto token = admission::new_token();
  end_unless_ok(token.status());
  const auto text = admission::with_token(value_of(admission::read_file_if_any(values.list)), values.list,
                                          {admission::hash_of(*token), *roles, values.note});
  end_unless_ok(text.status());
  end_unless_ok(admission::replace_file(values.list, *text));
  std::printf("%s\n", token->c_str());
}

void remove(const TokensValues& values) {
  const auto text = admission::without_token(value_of(admission::read_file(values.list)), values.list, values.hash);
  end_unless_ok(text.status());
  end_unless_ok(admission::replace_file(values.list, *text));
}

void list(const TokensValues& values) {
  const auto tokens = admission::TokenList::parse(value_of(admission::read_file(values.list)), values.list);
  end_unless_ok(tokens.status());
  for (const admission::TokenEntry& entry : tokens->entries()) {
    const std::string line = absl::StrCat(admission::hex_of(entry.hash).substr(0, hash_digits_shown), "  ",
                                          text_of(entry.roles), entry.comment.empty() ? "" : "  ", entry.comment);
    std::printf("%s\n", report::printable(line).c_str());
  }
}

void run(const TokensValues& values) {
  if (values.action == "remove" && values.hash.empty())
    fail(exit_usage, "remove needs the first digits of a hash (ccld tokens list)");
  if (values.action != "remove" && !values.hash.empty())
    fail(exit_usage, absl::StrCat(values.action, " takes no hash"));
  if (values.action == "add" && values.roles.empty()) fail(exit_usage, "add needs --role: read, acknowledge or tune");
  if (values.action != "add" && !(values.roles.empty() && values.note.empty()))
    fail(exit_usage, "--role and --note are for add");
  if (values.action == "add")
    add(values);
  else if (values.action == "remove")
    remove(values);
  else
    list(values);
}

}  // namespace

void add_tokens_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokens", "Make tokens for the query API, and list who may do what");
  auto values = std::make_shared<TokensValues>();
  command
      ->add_option("action", values->action, "add a token (it is printed once, its hash is kept), remove one, or list")
      ->required()
      ->check(CLI::IsMember({"add", "remove", "list"}))
      ->type_name("ACTION");
  command->add_option("hash", values->hash, "remove: the first digits of its hash, as list shows them")
      ->type_name("HASH");
  command->add_option("--list", values->list, "the file of tokens (--http-tokens-file of `ccld serve`)")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--role", values->roles,
                   "add: read (questions), acknowledge (incidents, silences) or tune (probes); may be repeated")
      ->type_name("ROLE")
      ->allow_extra_args(false);
  command->add_option("--note", values->note, "add: who has it")->type_name("TEXT");
  command->callback([values] { run(*values); });
}

}  // namespace ccld::decision
