#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/cli/command.h"
#include "decision/cli/service_client.h"
#include "decision/cli/service_options.h"
#include "decision/cli/tune_local.h"
#include "decision/report/text_format.h"
#include "schemas/abi/names.h"
#include "schemas/abi/process_reader.h"

namespace ccld::decision {
namespace {

using report::Json;
using Clock = std::chrono::steady_clock;

struct TuneValues {
  ServiceAddress service;
  std::string job, host;
  uint32_t pid = 0;
  std::string dir = "/dev/shm";
  std::vector<std::string> wishes;
  bool wait = false;
  double timeout_s = 10;
};

void tune_one(const TuneValues& values, const ControlWishes& wishes) {
  TuneLocal request;
  request.dir = values.dir;
  request.pid = values.pid;
  request.wishes = wishes;
  request.timeout = std::chrono::milliseconds(static_cast<int64_t>(values.timeout_s * 1000));
  const auto state = tune_process(request);
  end_unless_ok(state.status());
  const std::string endpoint = report::printable(abi::ProcessView::text(state->endpoint));
  std::printf("process %u: %s, sample_us=%u (now %u), budget_ppm=%u, log=%s, endpoint=%s\n", values.pid,
              state->running != 0 ? "running" : "stopped", state->sample_us, state->period_us, state->budget_ppm,
              abi::name_of(static_cast<abi::LogVerbosity>(state->log)), endpoint.empty() ? "(none)" : endpoint.c_str());
  if (state->refused_fields != 0) {
    fail(exit_failed, absl::StrCat("process ", values.pid, " refused ",
                                   absl::StrJoin(control_field_names(state->refused_fields), ", "),
                                   " and goes on with what it had"));
  }
}

Json request_json(const TuneValues& values, const ControlWishes& w) {
  Json request = {{"job", values.job}};
  if (!values.host.empty()) request["host"] = values.host;
  if (values.pid != 0) request["pid"] = values.pid;
  if ((w.fields & abi::control_running) != 0) request["running"] = w.running;
  if ((w.fields & abi::control_sample_us) != 0) request["sample_us"] = w.sample_us;
  if ((w.fields & abi::control_log) != 0) request["log"] = w.log;
  if ((w.fields & abi::control_budget_ppm) != 0) request["budget_ppm"] = w.budget_ppm;
  if ((w.fields & abi::control_endpoint) != 0) request["endpoint"] = w.endpoint;
  return request;
}

void tune_job(const TuneValues& values, const ControlWishes& wishes) {
  const auto answer = tell_service(values.service, "/v1/tune", request_json(values, wishes));
  end_unless_ok(answer.status());
  const uint64_t asked = report::number_of(*answer, "asked"), matched = report::number_of(*answer, "matched");
  std::printf("asked %s of job %s\n", report::count_text(asked, "probe", "probes").c_str(), values.job.c_str());
  if (asked < matched)
    std::printf("%s cannot be reached\n", report::count_text(matched - asked, "probe", "probes").c_str());
  if (!values.wait) return;

  const std::string path = absl::StrCat("/v1/tune/", report::number_of(*answer, "sequence"));
  const auto deadline = Clock::now() + std::chrono::duration<double>(values.timeout_s);
  constexpr std::chrono::milliseconds ask_every{100};
  for (;;) {
    const auto state = ask_service(values.service, path);
    end_unless_ok(state.status());
    const uint64_t answered = report::number_of(*state, "answered");
    const bool over = answered >= matched || Clock::now() >= deadline;
    if (!over) {
      std::this_thread::sleep_for(ask_every);
      continue;
    }
    std::printf("%llu of %llu answered\n", static_cast<unsigned long long>(answered),
                static_cast<unsigned long long>(matched));
    const Json& refused = report::member(*state, "refused");
    for (const Json& r : refused) {
      std::vector<std::string> fields;
      for (const Json& field : report::member(r, "fields")) fields.push_back(field.get<std::string>());
      std::printf("pid %s on %s refused %s\n", report::text_of(r, "pid").c_str(), report::text_of(r, "host").c_str(),
                  report::printable(absl::StrJoin(fields, ", ")).c_str());
    }
    std::fflush(stdout);
    if (answered < matched || !refused.empty()) throw CLI::RuntimeError(exit_failed);
    return;
  }
}

void tune(const TuneValues& values) {
  ControlWishes wishes;
  for (const std::string& wish : values.wishes) end_unless_ok(set_wish(wishes, wish));
  if (values.job.empty() && values.pid == 0)
    fail(exit_usage, "--job (through the service) or --pid (on this machine) is needed");
  if (values.job.empty() && !values.host.empty()) fail(exit_usage, "--host needs --job");
  try {
    values.job.empty() ? tune_one(values, wishes) : tune_job(values, wishes);
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the service's answer is not understood: ", e.what()));
  }
}

}  // namespace

void add_tune_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tune", "Start, stop and tune the probes of a running job, or of one process of this machine");
  auto values = std::make_shared<TuneValues>();
  command
      ->add_option("wishes", values->wishes,
                   "running=0|1, sample_us=100..1000000, log=warnings|info|trace, budget_ppm=0..1000000, "
                   "endpoint=tcp://...|ipc://...|several with commas|(empty)")
      ->type_name("NAME=VALUE")
      ->required();
  command->add_option("--job", values->job, "every process of this job, through the service")->type_name("JOB");
  command->add_option("--host", values->host, "only those of this host")->type_name("HOST");
  command->add_option("--pid", values->pid, "only this process; without --job: of this machine, without a service")
      ->type_name("PID")
      ->check(CLI::Range(1, INT32_MAX));
  add_service_options(*command, values->service, "--http,--service");
  command->add_option("--dir", values->dir, "folder of the process files")
      ->envname("NCCL_PROBE_FRAMES_DIR")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_flag("--wait", values->wait, "with --job: wait until all probes have answered");
  command->add_option("--timeout", values->timeout_s, "how long to wait for answers")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  command->callback([values] { tune(*values); });
}

}  // namespace ccld::decision
