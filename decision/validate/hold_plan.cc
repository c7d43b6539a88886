#include "decision/validate/hold_plan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ccld::decision::validate {
namespace {

std::string place(const Group& group, int rank) {
  return absl::StrCat("rank ", rank, " (", group.members()[static_cast<size_t>(rank)].host, ")");
}

// The answers, if all ranks gave one without an error.
absl::StatusOr<std::vector<Answer>> all_of(Group& group, const Step& step) {
  Answers got = group.perform(step);
  if (!got.missing.empty())
    return absl::DeadlineExceededError(absl::StrCat(place(group, got.missing.front()), " does not answer any more"));
  for (const Answer& a : got.all)
    if (!a.error.empty()) return absl::UnavailableError(absl::StrCat(place(group, a.rank), ": ", a.error));
  return std::move(got.all);
}

}  // namespace

absl::Status hold_all(Group& group, double within_s) {
  double fastest = 0;
  int passed = 0;
  for (double ahead_s = ahead_s_least; ahead_s <= ahead_s_max; ahead_s *= ahead_factor) {
    Step step;
    step.kind = StepKind::progress;
    const auto progress = all_of(group, step);
    if (!progress.ok()) return progress.status();
    uint64_t foremost = 0;
    for (const Answer& a : *progress) {
      foremost = std::max(foremost, a.operations);
      fastest = std::max(fastest, a.operations_per_s);  // who holds already is not fast
    }
    step.kind = StepKind::hold;
    step.within_s = within_s;
    step.before_op_seq = foremost + 1 + static_cast<uint64_t>(std::ceil(fastest * ahead_s));
    const auto held = all_of(group, step);
    if (!held.ok()) return held.status();
    bool all = true;
    for (const Answer& a : *held) {
      if (a.holds == Holds::not_yet)
        return absl::DeadlineExceededError(absl::StrCat(place(group, a.rank), " did not call collective ",
                                                        step.before_op_seq, " of the communicator within ", within_s,
                                                        " s"));
      if (a.holds == Holds::passed) {
        all = false;
        passed = a.rank;
      }
    }
    if (all) return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(place(group, passed), " calls collectives too fast to be held"));
}

absl::StatusOr<std::string> id_of_rank_0(Group& group) {
  Step step;
  step.kind = StepKind::identify;
  const auto answers = all_of(group, step);
  if (!answers.ok()) return answers.status();
  return answers->front().id;
}

}  // namespace ccld::decision::validate
