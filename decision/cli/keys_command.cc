// `ccld keys`: keys of telemetry, and the list of those that a service lets in.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "decision/admission/files.h"
#include "decision/admission/key_list.h"
#include "decision/admission/key_pair.h"
#include "decision/admission/rotation.h"
#include "decision/cli/command.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

struct KeysValues {
  std::string action, what, list, public_file, note;
  std::vector<std::string> jobs, hosts;
};

// A list that is not there yet is an empty one: the first key begins it.
void make(const KeysValues& values) {
  const auto pair = admission::make_key_pair();
  end_unless_ok(pair.status());
  end_unless_ok(admission::create_secret_file(values.what, admission::secret_file_text(*pair)));
  std::printf("%s\n", pair->open.c_str());
}

void show(const KeysValues& values) {
  const auto secret = admission::read_secret_key(values.what);
  end_unless_ok(secret.status());
  const auto open = admission::public_key_of(*secret);
  end_unless_ok(open.status());
  std::printf("%s\n", open->c_str());
}

void rotate(const KeysValues& values) {
  if (values.list.empty() == values.public_file.empty())
    fail(exit_usage, "rotate needs --list for a probe's key, or --public for the service's");
  const bool of_probe = !values.list.empty();
  const auto rotated = of_probe ? admission::rotate_probe_key(values.what, values.list)
                                : admission::rotate_service_key(values.what, values.public_file);
  end_unless_ok(rotated.status());
  std::printf("%s\n", rotated->now.c_str());
  if (of_probe)
    std::fprintf(stderr,
                 "ccld: the old key is let in until you remove it, when all jobs have the new one: ccld keys remove %s "
                 "--list %s\n",
                 rotated->before.c_str(), report::printable(values.list).c_str());
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
  const bool rotates = values.action == "rotate";
  if (!of_list && !rotates && !values.list.empty()) fail(exit_usage, absl::StrCat(values.action, " takes no --list"));
  if (values.action == "list" && !values.what.empty()) fail(exit_usage, "list takes nothing but --list");
  if (values.action != "list" && values.what.empty())
    fail(exit_usage, absl::StrCat(values.action, of_list ? " needs a public key" : " needs the file of a secret key"));
  if (values.action != "add" && !(values.jobs.empty() && values.hosts.empty() && values.note.empty()))
    fail(exit_usage, "--job, --host and --note are for add");
  if (!rotates && !values.public_file.empty()) fail(exit_usage, "--public is for rotate");
  if (values.action == "make")
    make(values);
  else if (values.action == "show")
    show(values);
  else if (rotates)
    rotate(values);
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
                   "rotate (put a new key into FILE, and its public one into --list or --public), add KEY to a list, "
                   "remove it, or list")
      ->required()
      ->check(CLI::IsMember({"make", "show", "rotate", "add", "remove", "list"}))
      ->type_name("ACTION");
  command->add_option("what", values->what, "make, show, rotate: file of a secret key; add, remove: a public key")
      ->type_name("FILE|KEY");
  command
      ->add_option("--list", values->list, "the list, a file of public keys (--telemetry-allow-file of `ccld serve`)")
      ->type_name("FILE");
  command
      ->add_option("--public", values->public_file,
                   "rotate, of the service's key: the file in which probes find its public key (NCCL_PROBE_SERVER_KEY)")
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
