#include "decision/detect/oldest_operation.h"

namespace ccld::decision {

bool outdated(const RankModel& r, const ProcessTable& processes) {
  return processes.newest_ns() - sampled_at(r) > processes.silent_limit_ns();
}

bool operation_counts(const RankModel& r, Life life, const ProcessTable& processes) {
  return life == Life::well && !r.left() && r.in_flight() && !outdated(r, processes);
}

std::optional<OpSeq> oldest_operation(const Communicator& comm, const ProcessTable& processes) {
  std::optional<OpSeq> oldest;
  comm.visit_ranks([&](const RankModel& r) {
    if (!r.in_flight() || !operation_counts(r, life_of(r, processes), processes)) return;
    const OpSeq op = r.oldest_in_flight();
    if (!oldest || op < *oldest) oldest = op;
  });
  return oldest;
}

}  // namespace ccld::decision
