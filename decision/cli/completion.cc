#include "decision/cli/completion.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"

namespace ccld::decision {
namespace {

using absl::StrAppend;

// Of bash's words and of zsh's specifications alike: nothing in it is expanded.
std::string in_quotes(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string all_names(const CommandRow& command) {
  std::vector<std::string> names;
  for (const OptionRow& option : command.options) names.insert(names.end(), option.names.begin(), option.names.end());
  return absl::StrJoin(names, " ");
}

std::string command_names(const OptionTable& table) {
  return absl::StrJoin(table.commands, " ", [](std::string* out, const CommandRow& c) { out->append(c.name); });
}

// ---- bash
// -------------------------------------------------------------------------------------------------------------

std::string bash_answer(const OptionRow& option) {
  switch (option.kind) {
    case ValueKind::file: return "_ccld_paths -f";
    case ValueKind::folder: return "_ccld_paths -d";
    case ValueKind::choices: return absl::StrCat("_ccld_words ", in_quotes(absl::StrJoin(option.choices, " ")));
    default: return ":";
  }
}

// The line of a `case`: what follows the option.
std::string bash_value_case(const CommandRow& command, const OptionRow& option) {
  std::vector<std::string> patterns;
  for (const std::string& name : option.names) patterns.push_back(absl::StrCat(command.name, ":", name));
  return absl::StrCat("    ", absl::StrJoin(patterns, " | "), ") ", bash_answer(option), "; return ;;\n");
}

// Words are split at '=' (COMP_WORDBREAKS): --rules=paper and --set name=value arrive in three words.
constexpr char bash_frame[] = R"(# bash completion for ccld. Made by `ccld completion bash`.
_ccld_words() {
  COMPREPLY=($$(compgen -W "$$1" -- "$$cur"))
  [[ $${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
}
_ccld_paths() {
  mapfile -t COMPREPLY < <(compgen "$$1" -- "$$cur")
  compopt -o filenames 2>/dev/null
}
_ccld() {
  local cur=$${COMP_WORDS[COMP_CWORD]} prev=$${COMP_WORDS[COMP_CWORD - 1]} command='' i
  COMPREPLY=()
  if [[ $$cur == = ]]; then
    cur=''
  elif [[ $$prev == = ]]; then
    prev=$${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case $${COMP_WORDS[i]} in
      $0) command=$${COMP_WORDS[i]}; break ;;
    esac
  done
  case $$command:$$prev in
$1  esac
  if [[ $$cur == -* ]]; then
    case $$command in
$2    esac
    return
  fi
  case $$command in
    '') _ccld_words '$3' ;;
$4  esac
}
complete -F _ccld ccld
)";

// ---- zsh
// --------------------------------------------------------------------------------------------------------------

std::string zsh_action(const OptionRow& row) {
  switch (row.kind) {
    case ValueKind::file: return "_files";
    case ValueKind::folder: return "_files -/";
    case ValueKind::choices: return absl::StrCat("(", absl::StrJoin(row.choices, " "), ")");
    default: return " ";
  }
}

// In a specification a bracket ends the help, a colon the message.
std::string zsh_help(const std::string& text) {
  return absl::StrReplaceAll(text, {{"[", "("}, {"]", ")"}, {":", "\\:"}});
}

std::string zsh_option(const OptionRow& option) {
  const char* const more = option.repeated ? "*" : "";
  const char* const value_follows = option.kind == ValueKind::none ? "" : option.value_optional ? "=-" : "=";
  std::string out;
  for (const std::string& name : option.names) {
    std::string specification = absl::StrCat(more, name, value_follows, "[", zsh_help(option.help), "]");
    if (option.kind != ValueKind::none)
      StrAppend(&specification, option.value_optional ? "::" : ":", zsh_help(option.type), ":", zsh_action(option));
    StrAppend(&out, " \\\n        ", in_quotes(specification));
  }
  return out;
}

std::string zsh_positional(const OptionRow& row, size_t number) {
  const std::string place = row.repeated ? "*" : row.required ? absl::StrCat(number) : absl::StrCat(number, ":");
  return absl::StrCat(" \\\n        ",
                      in_quotes(absl::StrCat(place, ":", zsh_help(row.names.front()), ":", zsh_action(row))));
}

std::string zsh_arguments(const CommandRow& command) {
  std::string out;
  for (const OptionRow& option : command.options) StrAppend(&out, zsh_option(option));
  for (size_t i = 0; i < command.positionals.size(); ++i)
    StrAppend(&out, zsh_positional(command.positionals[i], i + 1));
  return out;
}

constexpr char zsh_frame[] = R"(#compdef ccld
# zsh completion for ccld. Made by `ccld completion zsh`.
_ccld() {
  local curcontext=$$curcontext state line
  local -a commands=($0
  )
  _arguments -C$1 \
    '1:command:->command' '*::argument:->arguments'
  case $$state in
    command) _describe -t commands command commands ;;
    arguments)
      case $$line[1] in
$2      esac ;;
  esac
}
if [[ $$funcstack[1] == _ccld ]]; then _ccld "$$@"; else compdef _ccld ccld; fi
)";

}  // namespace

std::string bash_completion(const OptionTable& table) {
  std::string values, options, words;
  StrAppend(&options, "      '') _ccld_words ", in_quotes(all_names(table.program)), " ;;\n");
  for (const CommandRow& command : table.commands) {
    for (const OptionRow& option : command.options) {
      if (option.kind != ValueKind::none && !option.value_optional)
        StrAppend(&values, bash_value_case(command, option));
    }
    StrAppend(&options, "      ", command.name, ") _ccld_words ", in_quotes(all_names(command)), " ;;\n");
    // Nothing known to offer: the options, so that the user sees what there is.
    const bool positional = !command.positionals.empty() && command.positionals.front().kind != ValueKind::text;
    StrAppend(&words, "    ", command.name, ") ",
              positional ? bash_answer(command.positionals.front())
                         : absl::StrCat("_ccld_words ", in_quotes(all_names(command))),
              " ;;\n");
  }
  return absl::Substitute(bash_frame, absl::StrReplaceAll(command_names(table), {{" ", " | "}}), values, options,
                          command_names(table), words);
}

std::string zsh_completion(const OptionTable& table) {
  std::string commands, program, arguments;
  for (const CommandRow& command : table.commands) {
    StrAppend(&commands, "\n    ",
              in_quotes(absl::StrCat(command.name, ":", absl::StrReplaceAll(command.help, {{":", "\\:"}}))));
    StrAppend(&arguments, "        ", command.name, ") _arguments", zsh_arguments(command), " ;;\n");
  }
  for (const OptionRow& option : table.program.options) StrAppend(&program, zsh_option(option));
  return absl::Substitute(zsh_frame, commands, program, arguments);
}

}  // namespace ccld::decision
