#include "decision/cli/validate_in_job.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/report/text_format.h"
#include "decision/server/clock.h"
#include "decision/server/tune.h"
#include "decision/validate/hold_plan.h"
#include "decision/validate/meeting.h"
#include "decision/validate/outcome.h"
#include "decision/validate/plan.h"

namespace ccld::decision {
namespace {

using report::Json;
using Clock = std::chrono::steady_clock;

constexpr int default_port = 29611;
// A probe that rests looks for what the service says once a second; the rest is room for a busy machine.
constexpr double come_s = 15;
// The job waits meanwhile, so there are fewer than ccld-validate makes.
constexpr int repetitions = 5;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

std::string own_address() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return absl::StrCat(name, ":", default_port);
}

// One line, and nothing was measured.
[[noreturn]] void not_measured(const absl::Status& status) {
  fail(absl::IsInvalidArgument(status) ? exit_usage : validate::exit_not_measured, std::string(status.message()));
}

validate::PlanOptions plan_of(const InJobValues& v, const std::string& job) {
  validate::PlanOptions plan;
  plan.job = job;
  plan.repetitions = repetitions;
  plan.timeout_s = v.hold_s;
  for (const std::string& text : v.thresholds) end_unless_ok(validate::set_threshold(plan.thresholds, text));
  if (!v.past.empty()) plan.past = value_of(validate::read_past(v.past));
  return plan;
}

void ask_for_ranks(const ServiceAddress& service, const InJobValues& v, const std::string& job,
                   const std::string& meet) {
  const auto answer = tell_service(
      service, "/v1/validate", {{"job", job}, {"communicator", v.communicator}, {"meet", meet}, {"hold_s", v.hold_s}});
  end_unless_ok(answer.status());
}

void print(const validate::Outcome& outcome, const InJobValues& v) {
  const std::string text =
      v.json ? validate::outcome_json(outcome).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
             : validate::outcome_text(outcome, v.all_rows);
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) != 0) fail(validate::exit_not_measured, "cannot write to standard output");
}

}  // namespace

int validate_in_job(const ServiceAddress& service, const InJobValues& v) {
  const Json document =
      value_of(ask_service(service, absl::StrCat("/v1/communicators/", percent_encoded(v.communicator))));
  const std::string job = report::text_of(document, "job");
  const auto ranks = static_cast<int>(report::number_of(document, "rank_count"));
  if (ranks < 1 || ranks > validate::ranks_max)
    fail(validate::exit_not_measured, absl::StrCat("communicator ", v.communicator, " has ", ranks, " ranks"));
  validate::PlanOptions plan = plan_of(v, job);
  const std::string meet = v.meet.empty() ? own_address() : v.meet;
  auto meeting = validate::Meeting::open(meet, ranks, come_s);
  if (!meeting.ok())
    not_measured(absl::Status(meeting.status().code(), absl::StrCat("--meet: ", meeting.status().message())));

  ask_for_ranks(service, v, job, meet);
  validate::Outcome outcome;
  absl::Status status = (*meeting)->wait_for_all(validate::program_text());
  if (absl::IsDeadlineExceeded(status))
    status = absl::DeadlineExceededError(
        absl::StrCat(status.message(), "; each process needs NCCL_PROBE_VALIDATE=1 when it starts"));
  if (status.ok()) {
    (*meeting)->set_timeout(v.within_s);
    status = validate::hold_all(**meeting, v.within_s);
  }
  const Clock::time_point held = Clock::now();
  if (status.ok()) {
    (*meeting)->set_timeout(v.hold_s);
    auto id = validate::id_of_rank_0(**meeting);
    status = id.status();
    if (id.ok()) plan.id = *std::move(id);
  }
  if (status.ok()) {
    outcome.now_ns = server::realtime_now_ns();
    validate::run_plan(**meeting, plan, outcome);
    outcome.held_s = seconds_since(held);
  }
  (*meeting)->perform({});  // whoever holds goes on
  if (!status.ok()) not_measured(status);
  print(outcome, v);
  if (!v.save.empty() && outcome.failure.empty())
    if (const absl::Status s = validate::write_past(v.save, validate::past_of(outcome)); !s.ok())
      fail(validate::exit_not_measured, absl::StrCat("--save: ", s.message()));
  return validate::exit_status(outcome);
}

void add_in_job_options(CLI::App& command, InJobValues& v) {
  command
      .add_flag("--in-job", v.wanted,
                "test the hardware now, in the processes of the running job, which holds meanwhile; they need "
                "NCCL_PROBE_VALIDATE=1")
      ->group("In the running job");
  const auto option = [&command](CLI::Option* o) { return o->group("In the running job")->needs("--in-job"); };
  option(command.add_option("--communicator", v.communicator, "of these ranks, in place of --incident"))
      ->type_name("ID");
  option(command.add_option("--meet", v.meet,
                            "where the ranks reach this command; without it, this host's name, port 29611"))
      ->type_name("HOST:PORT");
  option(command.add_option("--hold-s", v.hold_s, "a rank holds no longer than that"))
      ->type_name("SECONDS")
      ->check(CLI::Range(server::hold_s_least, server::hold_s_max))
      ->capture_default_str();
  option(command.add_option("--within-s", v.within_s,
                            "how long a rank may take to call the collective before which all hold"))
      ->type_name("SECONDS")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  option(command.add_flag("--json", v.json, "one JSON document, as of ccld-validate"));
  option(command.add_flag("--all", v.all_rows, "every row, not only what is slow"));
  option(command.add_option("--set", v.thresholds, "a threshold of ccld-validate, e.g. gemm_margin=0.2"))
      ->type_name("NAME=VALUE");
  option(command.add_option("--past", v.past, "compare with what the same hardware took then"))->type_name("FILE");
  option(command.add_option("--save", v.save, "keep what healthy hardware takes"))->type_name("FILE");
}

}  // namespace ccld::decision
