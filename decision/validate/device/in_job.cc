// libccld_validate.so: a rank of a validation inside a training process. The probe loads it (probe/hold/validation.cc);
// contract and types: schemas/abi/validation_library.h. The coordinator is `ccld validate --in-job`.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "decision/validate/device/gpu_hardware.h"
#include "decision/validate/meeting.h"
#include "decision/validate/messages.h"
#include "schemas/abi/validation_library.h"

namespace ccld::decision::validate {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

// How long a rank's pace is looked at.
constexpr auto pace_time = std::chrono::milliseconds(200);
// Between two steps a rank waits for the others, which hold no longer than they may; twice that is room for a busy
// machine.
constexpr double attendance_s = 2 * abi::hold_ms_max / 1e3;

uint64_t in_ns(Clock::time_point t) { return static_cast<uint64_t>(t.time_since_epoch().count()); }

Clock::time_point at(uint64_t ns) {
  return ns == UINT64_MAX ? Clock::time_point::max() : Clock::time_point(std::chrono::nanoseconds(ns));
}

class Rank {
 public:
  explicit Rank(const abi::ValidationTask& task) : task_(task), hold_(task.hold) {}

  // What became of it.
  std::string run() {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // another thread may record a graph: not disturbed
    cudaThreadExchangeStreamCaptureMode(&mode);
    HardwareOptions options;
    options.gpu = task_.cuda_device;
    options.in_job.emplace();
    for (size_t i = 0; i < task_.channel_count; ++i) {
      const abi::ValidationNeighbours& n = task_.channels[i];
      options.in_job->channels.push_back({n.ring_previous, n.ring_next, n.tree_parent});
    }
    options.in_job->until = [this] { return at(hold_.until(hold_.context)); };
    auto hardware = open_gpu(options);
    if (!hardware.ok()) return std::string(hardware.status().message());
    const Hello hello{program_text(), task_.rank_count, (*hardware)->member(task_.rank)};
    auto attendance = Attendance::open(task_.meet, hello, attendance_s);
    if (!attendance.ok()) return std::string(attendance.status().message());
    for (;;) {
      const auto step = (*attendance)->next([this] { return hold_.wanted(hold_.context); });
      if (!step.ok()) return std::string(step.status().message());
      if (step->kind == StepKind::end) return error_.empty() ? "done" : error_;
      Answer answer = perform(**hardware, *step);
      answer.rank = task_.rank;
      error_ = answer.error;
      (*attendance)->answer(answer);
    }
  }

 private:
  Answer perform(Hardware& hardware, const Step& step) {
    Answer answer;
    if (task_.refusal != nullptr) {
      answer.error = task_.refusal;
      return answer;
    }
    switch (step.kind) {
      case StepKind::progress: progress(answer); return answer;
      case StepKind::hold: hold(step, answer); return answer;
      case StepKind::identify: identify(hardware, answer); return answer;
      default: break;
    }
    // Without its hold the GPU has other work, and CUDA may wait for kernels that wait for other ranks.
    if (hold_.until(hold_.context) == UINT64_MAX) {
      answer.error = held_too_long;
      return answer;
    }
    return hardware.perform(step, task_.rank, task_.rank_count);
  }

  void progress(Answer& answer) {
    const uint64_t before = hold_.operations(hold_.context);
    const Clock::time_point begun = Clock::now();
    std::this_thread::sleep_for(pace_time);
    answer.operations = hold_.operations(hold_.context);
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    answer.operations_per_s = static_cast<double>(answer.operations - std::min(before, answer.operations)) / seconds;
  }

  void hold(const Step& step, Answer& answer) {
    abi::HoldState state = hold_.before(hold_.context, step.before_op_seq);
    if (state == abi::HoldState::coming) {
      const auto within = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(step.within_s));
      state = hold_.wait(hold_.context, in_ns(Clock::now() + within));
    }
    switch (state) {
      case abi::HoldState::coming: answer.holds = Holds::not_yet; break;
      case abi::HoldState::holds: answer.holds = Holds::holds; break;
      case abi::HoldState::passed: answer.holds = Holds::passed; break;
      case abi::HoldState::refused:
        answer.error = "it records CUDA graphs, and a call that is recorded cannot wait";
        break;
      case abi::HoldState::over: answer.error = held_too_long; break;
    }
  }

  void identify(Hardware& hardware, Answer& answer) {
    if (task_.rank != 0) return;
    const auto id = hardware.unique_id();
    if (id.ok())
      answer.id = *id;
    else
      answer.error = std::string(id.status().message());
  }

  static constexpr char held_too_long[] = "it has held for as long as it may, and has gone on";

  const abi::ValidationTask& task_;
  const abi::ValidationHold& hold_;
  std::string error_;
};

}  // namespace
}  // namespace ccld::decision::validate

extern "C" __attribute__((visibility("default"))) void ccld_validate_in_job(const ccld::abi::ValidationTask* task,
                                                                            char* line, size_t line_bytes) {
  std::string said;
  try {
    said = task->version == ccld::abi::validation_version
               ? ccld::decision::validate::Rank(*task).run()
               : absl::StrCat("this library is of another release: version ", ccld::abi::validation_version, ", not ",
                              task->version);
  } catch (const std::exception& e) {
    said = e.what();
  }
  std::snprintf(line, line_bytes, "%s", said.c_str());
}
