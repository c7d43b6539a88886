// `ccld keys`: keys of telemetry, and the list of those that a service lets in.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "decision/admission/files.h"
#include "decision/admission/key_list.h"
#include "decision/admission/key_pair.h"
#include "decision/cli/command.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

struct KeysValues {
  std::string action, what, list, note;
  std::vector<std::string> jobs, hosts;
};

// A list that is not there yet is an empty one: the first key begins it.
void make(const KeysValues& values) {
  const auto pair = admission::make_key_pair();
  end_unless_ok(pair.status());
  const std::string text =
      absl::StrCat("# Secret key of telemetry; its public one is ", pair->open, "\nsecret ", pair->secret, "\n");
  end_unless_ok(admission::create_secret_file(values.what, text));
  std::printf("%s\n", pair->open.c_str());
}

void show(const KeysValues& values) {
  const auto secret = admission::read_secret_key(values.what);
  end_unless_ok(secret.status());
  const auto open = admission::public_key_of(*secret);
  end_unless_ok(open.status());
  std::printf("%s\n", open->c_str());
}

void add(const KeysValues& values) {
  const auto text = admission::with_key(value_of(admission::read_file_if_any(values.list)), values.list,
                                        {values.what, values.jobs, values.hosts, values.note});
  end_unless_ok(text.status());
  end_unless_ok(admission::replace_file(values.list, *text));
}

void remove(const KeysValues& values) {
  const auto text = admission::without_key(value_of(admission::read_file(values.list)), values.list, values.what);
  end_unless_ok(text.status());
  end_unless_ok(admission::replace_file(values.list, *text));
}

void list(const KeysValues& values) {
  const auto keys = admission::KeyList::parse(value_of(admission::read_file(values.list)), values.list);
  end_unless_ok(keys.status());
  for (const admission::KeyEntry& entry : keys->entries()) {
    std::string line = entry.key;
    for (const std::string& job : entry.jobs) absl::StrAppend(&line, "  job ", job);
    for (const std::string& host : entry.hosts) absl::StrAppend(&line, "  host ", host);
    if (!entry.comment.empty()) absl::StrAppend(&line, "  ", entry.comment);
    std::printf("%s\n", report::printable(line).c_str());
  }
}

void run(const KeysValues& values) {
  const bool of_list = values.action == "add" || values.action == "remove" || values.action == "list";
  if (of_list && values.list.empty())
    fail(exit_usage, absl::StrCat(values.action, " needs --list: the file of --telemetry-allow-file"));
  if (!of_list && !values.list.empty()) fail(exit_usage, absl::StrCat(values.action, " takes no --list"));
  if (values.action == "list" && !values.what.empty()) fail(exit_usage, "list takes nothing but --list");
  if (values.action != "list" && values.what.empty())
    fail(exit_usage, absl::StrCat(values.action, of_list ? " needs a public key" : " needs the file of a secret key"));
  if (values.action != "add" && !(values.jobs.empty() && values.hosts.empty() && values.note.empty()))
    fail(exit_usage, "--job, --host and --note are for add");
  if (values.action == "make")
    make(values);
  else if (values.action == "show")
    show(values);
  else if (values.action == "add")
    add(values);
  else if (values.action == "remove")
    remove(values);
  else
    list(values);
}

}  // namespace

void add_keys_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("keys", "Make keys of telemetry, and list whose are let in");
  auto values = std::make_shared<KeysValues>();
  command
      ->add_option("action", values->action,
                   "make a pair (the secret key goes to FILE, the public one is printed), show the public key of FILE, "
                   "add KEY to a list, remove it, or list")
      ->required()
      ->check(CLI::IsMember({"make", "show", "add", "remove", "list"}))
      ->type_name("ACTION");
  command->add_option("what", values->what, "make, show: file of a secret key; add, remove: a public key")
      ->type_name("FILE|KEY");
  command
      ->add_option("--list", values->list, "the list, a file of public keys (--telemetry-allow-file of `ccld serve`)")
      ->type_name("FILE");
  command->add_option("--job", values->jobs, "add: it may speak for this job only; may be repeated")
      ->type_name("JOB")
      ->allow_extra_args(false);
  command->add_option("--host", values->hosts, "add: it may speak for this host only; may be repeated")
      ->type_name("HOST")
      ->allow_extra_args(false);
  command->add_option("--note", values->note, "add: whose it is")->type_name("TEXT");
  command->callback([values] { run(*values); });
}

}  // namespace ccld::decision
