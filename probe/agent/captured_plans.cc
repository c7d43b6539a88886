#include "probe/agent/captured_plans.h"

#include <utility>

namespace ccld::probe {

// nullptr: it leaves no rows.
template <class Record>
CapturedPlans::Plan* CapturedPlans::plan_of(const Record& record) {
  if (!rows_.expected(record)) return nullptr;
  const auto [found, added] = plans_.try_emplace(record.plan);
  if (added) order_.push_back(record.plan);
  Plan& plan = found->second;
  plan.channel_mask |= rows_.channels(record);
  plan.replay_slot = record.replay_slot;
  channel_mask_ |= plan.channel_mask;
  ++items_;
  return &plan;
}

void CapturedPlans::remember(const abi::OpRecord& record) {
  if (Plan* plan = plan_of(record)) plan->operations.push_back(record), forget_oldest();
}

void CapturedPlans::remember(const abi::P2pRecord& record) {
  if (Plan* plan = plan_of(record)) plan->calls.push_back(record), forget_oldest();
}

void CapturedPlans::forget_oldest() {
  while (items_ > captured_max && order_.size() > 1) {
    const auto oldest = plans_.find(order_.front());
    items_ -= oldest->second.operations.size() + oldest->second.calls.size();
    plans_.erase(oldest);
    order_.pop_front();
    ++forgotten_;
  }
}

template <class Record>
void CapturedPlans::look_for_expected(std::deque<uint64_t>& ahead) {
  Record record{};
  for (size_t left = ahead.size(); left > 0; --left) {
    const uint64_t number = ahead.front();
    ahead.pop_front();
    if (read_record(frame_, number, &record) != abi::Found::yes) continue;
    if (record.plan != 0)
      remember(record);
    else
      ahead.push_back(number);
  }
}

void CapturedPlans::look_for_expected() {
  look_for_expected<abi::OpRecord>(operations_ahead_);
  look_for_expected<abi::P2pRecord>(calls_ahead_);
}

const CapturedPlans::Plan* CapturedPlans::find(uint32_t token) const {
  const auto found = plans_.find(token);
  return found == plans_.end() ? nullptr : &found->second;
}

void CapturedPlans::lose_count() {
  for (auto& [token, plan] : plans_) plan.uncounted |= plan.replay_slot == 0;
}

void CapturedPlans::finish_replay(Kernel& kernel, const FinishedRound& measured, FinishedRounds& finished,
                                  Sampling& s) {
  const auto found = plans_.find(kernel.token);
  if (found == plans_.end()) return;
  Plan& plan = found->second;
  FinishedRound round = measured;
  // Replays that no slot counts are counted here, as long as none was missed.
  if (plan.replay_slot == 0 && !kernel.lapped && !plan.uncounted) round.replay = plan.last_replay + 1;
  if (round.replay == 0 || kernel.lapped) return;  // the next index tells how many were lost
  const uint32_t missed = round.replay - plan.last_replay - 1;
  if (static_cast<int32_t>(missed) > 0) {
    s.lose_rounds(uint64_t{missed} * plan.operations.size());
    s.lose_calls(uint64_t{missed} * plan.calls.size());
  }
  plan.last_replay = round.replay;
  std::vector<LinkTrack> links;
  if (measured.samples >= link_samples_min) links.swap(kernel.links);
  for (const abi::OpRecord& record : plan.operations) {
    finished.add(record.commit, record, round, std::move(links), s.now);
    links.clear();
  }
  for (const abi::P2pRecord& record : plan.calls) finished.add(record, round, {}, s.now);
}

}  // namespace ccld::probe
