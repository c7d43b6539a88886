// `ccld validate`: the command that tests the hardware that an incident names. The program is another one,
// ccld-validate, or the job itself (validate_in_job.h): this one knows neither NCCL nor CUDA.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/cli/command.h"
#include "decision/cli/incident_source.h"
#include "decision/cli/validate_in_job.h"
#include "decision/report/text_format.h"
#include "decision/validate/outcome.h"

namespace ccld::decision {
namespace {

using report::Json;

constexpr char program[] = "ccld-validate";

struct ValidateValues {
  SourceFlags source;
  uint64_t id = 0;
  std::string service_run;
  std::vector<std::string> with;
  int gpus = 0;
  bool run = false;
  InJobValues in_job;
};

// Names of hosts come from the jobs that are watched: anything else is not put into a command.
bool plain_host(const std::string& host) {
  return !host.empty() && host[0] != '-' && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '.' || c == '_';
  });
}

Json newest(const ValidateValues& v) {
  const auto source = open_source(v.source);
  end_unless_ok(source.status());
  say((*source)->note());
  const auto found = (*source)->find(v.id, false);
  end_unless_ok(found.status());
  for (auto one = found->rbegin(); one != found->rend(); ++one)
    if (v.service_run.empty() || one->run == v.service_run ||
        report::text_of(one->revisions.back(), "run") == v.service_run)
      return one->revisions.back();
  fail(exit_failed, absl::StrCat("there is no incident ", v.id, " of run '", v.service_run, "'"));
}

// Those of the culprits, and of the other ends of links, each once.
std::vector<std::string> hosts_of(const Json& verdict) {
  std::vector<std::string> hosts;
  const auto add = [&hosts](const std::string& host) {
    if (!host.empty() && std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  };
  for (const Json& culprit : report::member(verdict, "culprits")) {
    add(report::text_of(culprit, "host"));
    add(report::text_of(culprit, "peer_host"));
  }
  return hosts;
}

std::vector<std::string> command_for(const ValidateValues& v, const Json& verdict) {
  std::vector<std::string> hosts = hosts_of(verdict);
  if (hosts.empty())
    fail(exit_failed,
         absl::StrCat("incident ", v.id, " names no host: test those of the job with ", program, " --hosts"));
  for (const std::string& host : v.with)
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  for (const std::string& host : hosts)
    if (!plain_host(host)) fail(exit_failed, absl::StrCat("'", host, "' is no name of a host"));
  if (hosts.size() == 1)
    say("only one host is named: its GPUs are compared with each other, and none of its links to other hosts is "
        "tested; "
        "--with adds a host to compare with");
  std::vector<std::string> words = {program, "--hosts", absl::StrJoin(hosts, ",")};
  if (v.gpus > 0) words.insert(words.end(), {"--gpus", absl::StrCat(v.gpus)});
  return words;
}

// Beside this program, else wherever the shell would find it. Returns only if it cannot be started.
[[noreturn]] void become(std::vector<std::string> words) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = own.parent_path() / program;
  if (!error && access(beside.c_str(), X_OK) == 0) words[0] = beside;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  fail(exit_failed, absl::StrCat("cannot start ", program, ": ", std::strerror(errno),
                                 "; it is installed with the library (make install)"));
}

// The exit code.
int validate_hardware(const ValidateValues& v) {
  if (v.id == 0 && v.in_job.communicator.empty())
    fail(exit_usage, v.in_job.wanted ? "--incident or --communicator is needed" : "--incident is needed");
  try {
    if (v.in_job.wanted) {
      InJobValues in_job = v.in_job;
      if (in_job.communicator.empty()) in_job.communicator = report::text_of(newest(v), "communicator");
      return validate_in_job(v.source.service, in_job);
    }
    const std::vector<std::string> words = command_for(v, newest(v));
    if (v.run) become(words);
    std::printf("%s\n", absl::StrJoin(words, " ").c_str());
    return exit_ok;
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the verdict is not understood: ", e.what()));
  }
}

// Where a test was wanted, 1 means that hardware is slow, not that the service or a program was out of reach.
int code_of_test(const ValidateValues& v) {
  try {
    return validate_hardware(v);
  } catch (const CLI::RuntimeError& e) {
    const bool tests = v.in_job.wanted || v.run;
    throw CLI::RuntimeError(tests && e.get_exit_code() == exit_failed ? validate::exit_not_measured
                                                                      : e.get_exit_code());
  }
}

}  // namespace

void add_validate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "validate",
      "Test the hardware that an incident names: print, or run, the command for its hosts, or in the running job");
  command->footer(
      "Exit codes: 0 done, 1 the surroundings failed (service, incident), 2 wrong usage. With --run and --in-job: "
      "0 healthy, 1 suspect, 2 wrong usage, 3 could not be measured.");
  auto v = std::make_shared<ValidateValues>();
  command->add_option("--incident", v->id, "number of the incident")->type_name("INCIDENT");
  CLI::Option* http = add_source_flags(*command, v->source);
  command
      ->add_option("--service-run", v->service_run,
                   "of several runs in a file of verdicts that gave this number: which one")
      ->type_name("RUN");
  command->add_option("--with", v->with, "further hosts, to compare with")->type_name("A,B")->delimiter(',');
  command->add_option("--gpus", v->gpus, "GPUs of each host; without it, as many as this one has")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--run", v->run, "run it instead of printing it");
  add_in_job_options(*command, v->in_job);
  command->callback([v, http] {
    v->source.url_given = !http->empty();
    if (const int code = code_of_test(*v); code != exit_ok) throw CLI::RuntimeError(code);
  });
}

}  // namespace ccld::decision
