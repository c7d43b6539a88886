// `ccld-validate`: a rank of a validation; the coordinator too in the process of rank 0; or what starts ranks on hosts.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "decision/report/text_format.h"
#include "decision/validate/device/gpu_hardware.h"
#include "decision/validate/device/shared_memory.h"
#include "decision/validate/launch.h"
#include "decision/validate/meeting.h"
#include "decision/validate/messages.h"
#include "decision/validate/options.h"
#include "decision/validate/plan.h"
#include "schemas/build_id/build_id.h"

namespace {

using namespace ccld::decision;
using namespace ccld::decision::validate;

int fail(int status, const absl::string_view line) {
  std::fprintf(stderr, "ccld-validate: %s\n", report::printable(line).c_str());
  return status;
}

Nanoseconds calendar_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Rank 0's second thread: says what all do, and prints what came out.
int coordinate(Meeting& meeting, const Options& o, PlanOptions plan) {
  const absl::Status met = meeting.wait_for_all(program_text());
  if (!met.ok()) {
    meeting.perform({});  // those that have come need not wait
    return fail(exit_not_measured, met.message());
  }
  Outcome outcome;
  outcome.now_ns = calendar_ns();
  run_plan(meeting, plan, outcome);
  meeting.perform({});
  const std::string text =
      o.json ? outcome_json(outcome).dump(2, ' ', false, report::Json::error_handler_t::replace) + "\n"
             : outcome_text(outcome, o.all_rows);
  std::fputs(text.c_str(), stdout);
  if (!o.save.empty() && outcome.failure.empty())
    if (const absl::Status s = write_past(o.save, past_of(outcome)); !s.ok())
      return fail(exit_not_measured, absl::StrCat("--save: ", s.message()));
  if (std::fflush(stdout) != 0) return fail(exit_not_measured, "cannot write to standard output");
  return exit_status(outcome);
}

// Rank 0 says what went wrong, the others only that they were left alone.
int attend(Attendance& attendance, Hardware& hardware, const Options& o) {
  for (;;) {
    const auto step = attendance.next();
    if (!step.ok()) return fail(exit_not_measured, absl::StrCat("rank ", o.rank, ": ", step.status().message()));
    if (step->kind == StepKind::end) return exit_healthy;
    attendance.answer(hardware.perform(*step, o.rank, o.ranks));
  }
}

// One path for whatever ends a rank: a kernel that hangs cannot be waited for, and what NCCL tidies up would.
[[noreturn]] void leave(int status) {
  std::fflush(nullptr);
  unlink_nccl_files();
  _exit(status);
}

int run_rank(const Options& o) {
  PlanOptions plan;
  plan.job = o.job;
  plan.thresholds = o.thresholds;
  plan.repetitions = o.repetitions;
  plan.timeout_s = o.timeout_s;
  if (!o.past.empty() && o.rank == 0) {
    auto past = read_past(o.past);
    if (!past.ok()) return fail(exit_usage, absl::StrCat("--past: ", past.status().message()));
    plan.past = *std::move(past);
  }
  // It is no training job: it neither reports to a service nor leaves frames.
  setenv("NCCL_PROBE_ENABLE", "0", 1);
  HardwareOptions device;
  device.gpu = o.gpu;
  device.local_rank = o.local_rank >= 0 ? o.local_rank : o.rank;
  device.timeout_s = o.timeout_s;
  if (!o.bytes.empty()) device.link_bytes = *parse_bytes(o.bytes);
  auto hardware = open_gpu(device);
  if (!hardware.ok()) return fail(exit_not_measured, absl::StrCat("rank ", o.rank, ": ", hardware.status().message()));

  std::unique_ptr<Meeting> meeting;
  if (o.rank == 0) {
    auto opened = Meeting::open(o.meet, o.ranks, o.timeout_s);
    if (!opened.ok()) {
      const bool usage = absl::IsInvalidArgument(opened.status());
      return fail(usage ? exit_usage : exit_not_measured, absl::StrCat("--meet: ", opened.status().message()));
    }
    meeting = *std::move(opened);
    const auto id = (*hardware)->unique_id();
    if (!id.ok()) return fail(exit_not_measured, id.status().message());
    plan.id = *id;
  }
  auto attendance = Attendance::open(o.meet, {program_text(), o.ranks, (*hardware)->member(o.rank)}, o.timeout_s);
  if (!attendance.ok()) {
    const bool usage = absl::IsInvalidArgument(attendance.status());
    return fail(usage ? exit_usage : exit_not_measured, absl::StrCat("--meet: ", attendance.status().message()));
  }
  if (meeting == nullptr) return attend(**attendance, **hardware, o);
  std::thread rank([&] { attend(**attendance, **hardware, o); });
  const int status = coordinate(*meeting, o, std::move(plan));
  rank.detach();    // it may hang in the hardware
  meeting.reset();  // the last messages go out
  leave(status);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string version = absl::StrCat(program_text(), " (build ", ccld::build_id(), ")");
    Parsed parsed = parse_options(argc, argv, version);
    if (parsed.exit) return *parsed.exit;
    Options& o = parsed.options;
    const absl::Status placed = add_place(o, [](const char* name) {
      const char* value = getenv(name);
      return std::string(value != nullptr ? value : "");
    });
    if (!placed.ok()) return fail(exit_usage, placed.message());
    if (!o.hosts.empty()) {
      if (o.gpus == 0) o.gpus = gpu_count();
      if (o.gpus == 0) return fail(exit_usage, "--gpus is needed: this host has no GPU to go by");
      const auto status = launch_on_hosts(o, argc, argv);
      if (!status.ok()) return fail(exit_not_measured, status.status().message());
      return *status;
    }
    leave(run_rank(o));
  } catch (const std::exception& e) {
    leave(fail(exit_not_measured, e.what()));
  }
}
