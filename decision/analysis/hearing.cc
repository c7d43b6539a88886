#include "decision/analysis/hearing.h"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace ccld::decision {
namespace {

template <class Message>
constexpr bool says_what_ranks_do =
    std::is_same_v<Message, Rounds> || std::is_same_v<Message, P2pRounds> || std::is_same_v<Message, InFlight>;

}  // namespace

void Hearing::look_up(const Batch& batch, Found& out) const {
  out.sender = tables_.processes().find(batch.process);
  out.ranks.assign(batch.payloads.size(), {});
  for (size_t i = 0; out.sender && i < batch.payloads.size(); ++i)
    std::visit([&](const auto& m) { look_up(m, *out.sender, out.ranks[i]); }, batch.payloads[i]);
}

template <class Message>
void Hearing::look_up(const Message& m, const ProcessModel& sender, FoundRank& out) const {
  if constexpr (says_what_ranks_do<Message>) {
    if (Watch* const w = tables_.find(m.comm)) out = find_in(*w, m.rank, sender);
  }
}

Hearing::FoundRank Hearing::find_in(Watch& w, Rank rank, const ProcessModel& sender) {
  const RankModel* const r = w.comm.rank(rank);
  return r && r->process == &sender ? FoundRank{&w, true, r->cuda_device} : FoundRank{&w};
}

// It lies anywhere in memory, and is fetched while the batch before is heard.
void Hearing::prefetch(const Found& where) {
  if (where.sender) where.sender->prefetch();
  for (const FoundRank& r : where.ranks)
    if (r.watch) __builtin_prefetch(&r.watch->waiting, 1);
}

void Hearing::hear(absl::Span<const Batch* const> batches, Nanoseconds now_ns) {
  found_.resize(std::max(found_.size(), batches.size()));
  const auto look = [&](size_t i) { look_up(*batches[i], found_[i]); };
  constexpr size_t to_share_min = 128;  // each takes some 300 ns
  workers_.run(batches.size(), to_share_min, look);
  const uint64_t gone_before = tables_.gone();
  for (size_t i = 0; i < batches.size(); ++i) {
    if (tables_.gone() != gone_before) look(i);
    if (i + 1 < batches.size() && tables_.gone() == gone_before) prefetch(found_[i + 1]);
    hear(*batches[i], found_[i], now_ns);
  }
  take_in();
}

void Hearing::hear(const Batch& batch, const Found& where, Nanoseconds now_ns) {
  heard_ns_ = now_ns;
  const uint64_t gone_before = tables_.gone();
  tables_.make_room_for(batch.process, now_ns);
  const bool known = where.sender && tables_.gone() == gone_before;
  ProcessModel* const process = known ? where.sender : tables_.processes().sender(batch);
  if (!process) return;
  if (Reports::wait_of(*process)) take_in();
  tables_.processes().heard(*process, batch, now_ns);
  process->kernels.prefetch();
  for (size_t i = 0; i < batch.payloads.size(); ++i) {
    const Payload& payload = batch.payloads[i];
    const FoundRank rank = tables_.gone() == gone_before ? where.ranks[i] : FoundRank{};
    std::visit([&](const auto& m) { hear(m, payload, rank, *process); }, payload);
  }
}

// What a process says of itself, and of others.
void Hearing::hear(const AgentHealth& m, const Payload&, FoundRank, ProcessModel& process) {
  tables_.processes().health(process, m, heard_ns_);
  last_operations(process, m);
}

void Hearing::hear(const CommInit& m, const Payload&, FoundRank, ProcessModel& process) {
  tables_.inits().heard(m, process, heard_ns_);
}

void Hearing::hear(const ControlState& m, const Payload&, FoundRank, ProcessModel& process) {
  ProcessTable::control(process, m);
}

void Hearing::hear(const Metrics&, const Payload& payload, FoundRank, ProcessModel& process) {
  reports_.add(process, payload);
}

void Hearing::hear(const NetQueues&, const Payload& payload, FoundRank, ProcessModel& process) {
  reports_.add(process, payload);
}

// Who is a rank of what.
void Hearing::hear(const CommUp& m, const Payload&, FoundRank, ProcessModel& process) {
  take_in();
  Watch* w = tables_.find_or_make(m.comm);
  if (w && w->comm.contradicted_by(m)) {
    tables_.contradicted(m.comm, heard_ns_);
    w = tables_.find_or_make(m.comm);
  }
  if (!w) return;
  w->comm.up(m, process, heard_ns_);
  tables_.inits().up(m, process, heard_ns_);
}

void Hearing::hear(const CommDown& m, const Payload&, FoundRank, ProcessModel& process) {
  take_in();
  if (Watch* const w = tables_.find_or_make(m.comm)) w->comm.down(m, process, heard_ns_);
}

// What its ranks did, and do.
template <class Reported>
void Hearing::hear(const Reported& m, const Payload& payload, FoundRank rank, ProcessModel& process) {
  if (!rank.is_member) {
    Watch* const known = tables_.find_or_make(m.comm);
    if (!known) return;
    rank = find_in(*known, m.rank, process);
  }
  Watch* const w = rank.watch;
  if (!rank.is_member) {
    take_in();
    if (!w->comm.join(m.rank, process, heard_ns_)) return;  // what is said of this rank counts for nothing
    rank = find_in(*w, m.rank, process);
  }
  if constexpr (std::is_same_v<Reported, InFlight>) {
    if (w->comm.is_news(m, process)) process.probe_stopped = m.stopped;
  } else {
    if (whatif_) whatif_->add(w->comm, {&process, rank.cuda_device}, m, heard_ns_);
  }
  reports_.add(*w, process, payload, heard_ns_);
}

// A process that was lost before this service began is known by its frame alone: it is the rank for which nobody
// speaks.
ProcessModel* Hearing::take_in_lost(const ProcessModel& reporter, const Sibling& s) {
  const bool lacked = std::any_of(s.last_operations.begin(), s.last_operations.end(), [&](const LastOperations& last) {
    const Watch* const w = tables_.find(last.comm);
    return w && w->comm.lacks(last.rank);
  });
  return lacked ? tables_.processes().take_in_lost(reporter, s, heard_ns_) : nullptr;
}

void Hearing::last_operations(const ProcessModel& reporter, const AgentHealth& health) {
  for (const Sibling& s : health.siblings) {
    if (s.last_operations.empty()) continue;
    ProcessModel* process = tables_.processes().lost_sibling(reporter, s);
    if (!process) process = take_in_lost(reporter, s);
    if (!process) continue;
    for (const LastOperations& last : s.last_operations) {
      Watch* const w = tables_.find(last.comm);
      if (!w) continue;
      if (w->comm.lacks(last.rank)) w->comm.join(last.rank, *process, heard_ns_);
      w->comm.last_operations(last, *process);
    }
    if (process->gone()) tables_.processes().departures().lost(*process);
  }
}

}  // namespace ccld::decision
