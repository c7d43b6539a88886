#include "decision/model/call_record.h"

#include <algorithm>
#include <utility>

#include "decision/model/signature.h"

namespace ccld::decision {

std::shared_ptr<const RecordedCall> recorded_call(const RoundEntry& e, Nanoseconds now_ns) {
  const Signature* signature = e.signature();
  const auto times = call_times(e);
  if (!signature || !times || !needs_everybody(signature->function)) return nullptr;
  if (std::count_if(e.cells.begin(), e.cells.end(), [](const RoundCell& c) { return c.timed; }) < 2) return nullptr;
  auto call = std::make_shared<RecordedCall>();
  call->heard_ns = now_ns;
  call->op = e.op;
  call->replay = e.replay;
  call->signature = *signature;
  call->times = *times;
  call->late.reserve(e.cells.size());
  for (const RoundCell& c : e.cells)
    call->late.push_back(
        c.timed ? RecordedCall::Micros::encode(static_cast<uint64_t>((times->longest_ns - c.duration_ns()) / ns_per_us))
                : RecordedCall::Micros::none);
  return call;
}

void CallRecord::add(std::shared_ptr<const RecordedCall> call) {
  if (!call) return;
  auto place = calls_.end();
  while (place != calls_.begin() && (*(place - 1))->replay == call->replay && (*(place - 1))->op > call->op) --place;
  calls_.insert(place, std::move(call));
  if (calls_.size() > calls_max) calls_.pop_front();
}

}  // namespace ccld::decision
