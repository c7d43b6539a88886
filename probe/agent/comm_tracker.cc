#include "probe/agent/comm_tracker.h"

#include <algorithm>
#include <type_traits>

namespace ccld::probe {
namespace {

constexpr uint64_t bit(uint32_t channel) { return uint64_t{1} << channel; }
constexpr uint8_t flag(wire::RoundFlags flags) { return static_cast<uint8_t>(flags); }

constexpr unsigned kept_of(const abi::OpRecord&) { return abi::ops_max; }
constexpr unsigned kept_of(const abi::P2pRecord&) { return abi::p2ps_max; }

}  // namespace

CommTracker::CommTracker(const abi::FrameView& frame, uint64_t comm_uid, int rank, const TrackerOptions& options,
                         Instant now)
    : frame_(frame),
      comm_uid_(comm_uid),
      rank_(rank),
      options_(options),
      present_mask_(frame.channel_count() >= 64 ? ~uint64_t{0} : bit(frame.channel_count()) - 1),
      channels_(frame.channel_count()),
      proxies_of_(size_t{frame.channel_count()} * abi::directions),
      moved_ns_(now.monotonic_ns) {}

CommTracker::Api CommTracker::read_api() const {
  Api api;
  api.launched_op_seq = frame_.launched_op_seq();
  api.launched_p2p = frame_.launched_p2p();
  api.launched_plan = frame_.launched_plan();
  api.captured_plans = frame_.captured_plans();
  api.unseen_while_stopped = frame_.unseen_while_stopped();
  api.entered_op_seq = frame_.entered_op_seq();
  api.entered_p2p = frame_.entered_p2p();
  return api;
}

bool CommTracker::news() const { return !(read_api() == api_); }

void CommTracker::sample(Instant now) {
  now_ = now;
  moved_in_sample_ = records_fresh_ = runs_missing_ = false;
  const Api api = read_api();
  const bool changed = !(api == api_);
  if (!changed && !busy() && captured_mask_ == 0 && captures_ahead_.empty() && p2p_captures_ahead_.empty()) return;

  const bool slow_look = slow_looked_ns_ == 0 || now.monotonic_ns - slow_looked_ns_ >= slow_look_ns;
  if (slow_look) slow_looked_ns_ = now.monotonic_ns;
  if (changed) take_new(api);
  if (busy()) sample_proxies();
  if (changed || slow_look) refresh();
  newest_token_before_ = newest_token_;
  newest_begin_before_ns_ = newest_begin_ns_;
  follow_runs(slow_look);
  for (const auto& kernel : kernels_)
    if ((kernel->begun & ~kernel->ended) != 0) observe(*kernel, slow_look);
  finish_kernels();
  if (slow_look && now.monotonic_ns - retire_looked_ns_ >= retire_look_ns) {
    retire_looked_ns_ = now.monotonic_ns;
    retire_passed_by();
  }
  pop_done();
  close_links();
  forgive_ = false;
  if (moved_in_sample_) {
    ++movement_;
    moved_ns_ = now.monotonic_ns;
  }
}

// ---- operations and calls ------------------------------------------------------------------------------------------

template <class Record>
void CommTracker::append(std::deque<Tracked<Record>>& items, uint64_t from, uint64_t to, uint64_t unseen) {
  if (to <= from) return;
  const unsigned kept = kept_of(Record{});
  uint64_t next = from + 1;
  // Records that are overwritten already: only their number is known. Those read before are still followed.
  if (to - from > kept) {
    const uint64_t gone = to - from - kept;
    lost(gone - std::min(gone, unseen), std::is_same_v<Record, abi::OpRecord> ? &lapped_rounds_ : &lapped_calls_);
    next += gone;
  }
  for (; next <= to; ++next) {
    items.emplace_back();
    items.back().number = next;
  }
}

void CommTracker::take_new(const Api& api) {
  moved();
  const uint64_t unseen = api.unseen_while_stopped - api_.unseen_while_stopped;
  const bool none = operations_.empty();
  append(operations_, api_.entered_op_seq, api.entered_op_seq, unseen);
  append(calls_, api_.entered_p2p, api.entered_p2p, unseen);
  if (none && !operations_.empty()) completed_op_seq_ = operations_.front().number - 1;
  api_ = api;
}

template <class Record>
bool CommTracker::has_rows(const Record& record) const {
  return record.plan != 0 && (record.flags & abi::op_no_kernel) == 0 && (record.signals & abi::signal_times) != 0 &&
         (frame_.identity().mode & abi::mode_steps) != 0 && (record.channel_mask & present_mask_) != 0;
}

template bool CommTracker::has_rows(const abi::OpRecord&) const;
template bool CommTracker::has_rows(const abi::P2pRecord&) const;

namespace {
constexpr uint8_t still_going = 0xff;
}

// RoundFlags of one that no rows will tell of, once it is over; `still_going` before.
template <class Record>
uint8_t CommTracker::ended_without_rows(const Record& record) const {
  const bool no_kernel = (record.flags & abi::op_no_kernel) != 0;
  if (no_kernel && record.plan == 0) return flag(wire::RoundFlags::no_kernel);
  if ((record.flags & abi::op_launched) == 0 || has_rows(record)) return still_going;
  if ((record.signals & abi::signal_stream) != 0) {
    const uint32_t ended = frame_.stream_ended_token();
    if (ended == 0 || abi::distance(record.plan, ended) < 0) return still_going;
  }
  return static_cast<uint8_t>(flag(wire::RoundFlags::not_measured) |
                              (no_kernel ? flag(wire::RoundFlags::no_kernel) : 0));
}

template <class Record>
void CommTracker::refresh_one(Tracked<Record>& item) {
  if (item.done) return;
  if (!item.known || !item.launched()) {
    constexpr bool is_operation = std::is_same_v<Record, abi::OpRecord>;
    Record record{};
    abi::Found found;
    if constexpr (is_operation)
      found = frame_.read_operation(item.number, &record);
    else
      found = frame_.read_p2p(item.number, &record);
    switch (found) {
      case abi::Found::yes:
        if (item.known && record.plan != item.record.plan) moved();
        item.record = record;
        item.known = true;
        break;
      case abi::Found::later:  // overwritten: it was never launched, or finished long ago
        if (item.known && item.record.plan != 0) return;
        item.done = true;
        lost(1, is_operation ? &lapped_rounds_ : &lapped_calls_);
        return;
      case abi::Found::busy:
        // A record is there before its number is announced. So this one was not recorded, because the probe was
        // stopped; or its place is being taken this moment.
        if (api_.unseen_while_stopped == 0) lost(1, is_operation ? &lapped_rounds_ : &lapped_calls_);
        item.done = true;
        return;
      case abi::Found::earlier: item.done = true; return;  // not recorded
    }
  }
  watched_mask_ |= item.record.channel_mask & present_mask_;
  if ((item.record.flags & abi::op_captured) != 0) {
    if (item.record.plan != 0)
      remember_capture(item.record);
    else if constexpr (std::is_same_v<Record, abi::OpRecord>)
      captures_ahead_.push_back(item.number);
    else
      p2p_captures_ahead_.push_back(item.number);
    // It runs when the graph is replayed, which only the GPU can tell.
    conclude(item, static_cast<uint8_t>(flag(wire::RoundFlags::no_kernel) | flag(wire::RoundFlags::not_measured)));
    return;
  }
  const uint8_t flags = ended_without_rows(item.record);
  if (flags == still_going) return;
  const uint64_t enter_ns = item.record.enter_monotonic_ns, launch_ns = item.record.launch_monotonic_ns;
  conclude(item, flags);
  if (launch_ns != 0) ended_in_turn(enter_ns, launch_ns);
}

// Reads what is not known yet, and concludes what no rows will tell of.
void CommTracker::refresh() {
  records_fresh_ = true;
  if (!in_flight()) watched_mask_ = captured_mask_;
  refresh_items(operations_, &settled_op_seq_);
  refresh_items(calls_, &settled_call_);
  look_for_captures();
}

// Thousands may be queued on the GPU: those at the front, of which nothing more is to be read, are passed over.
template <class Record>
void CommTracker::refresh_items(std::deque<Tracked<Record>>& items, uint64_t* settled) {
  const auto first =
      std::upper_bound(items.begin(), items.end(), *settled,
                       [](uint64_t number, const Tracked<Record>& item) { return number < item.number; });
  bool all_settled = true;
  for (auto item = first; item != items.end(); ++item) {
    refresh_one(*item);
    all_settled = all_settled && (item->done || (item->known && item->launched() && has_rows(item->record)));
    if (all_settled) *settled = item->number;
  }
}

void CommTracker::conclude(Operation& operation, uint8_t flags) {
  FinishedRound round;
  round.flags = flags;
  add_round(operation.number, operation.record, round, {});
  operation.done = true;
  moved();
}

void CommTracker::conclude(Call& call, uint8_t flags) {
  FinishedRound kernel;
  kernel.flags = flags;
  // A captured call is nothing yet: only its replays move bytes.
  if ((call.record.flags & abi::op_captured) == 0) add_call(call.record, kernel);
  call.done = true;
  moved();
}

void CommTracker::pop_done() {
  while (!operations_.empty() && operations_.front().done) {
    completed_op_seq_ = operations_.front().number;
    operations_.pop_front();
  }
  while (!calls_.empty() && calls_.front().done) calls_.pop_front();
}

// Two operations that came later, one after the other, have run: what was entered before the first was launched and is
// not planned yet never will be (its group was only simulated).
void CommTracker::ended_in_turn(uint64_t enter_ns, uint64_t launch_ns) {
  const auto look = [&](auto& items) {
    for (auto& item : items) {
      if (item.known && item.record.enter_monotonic_ns >= enter_ns) break;  // and so are all behind it
      if (item.done || !item.known || item.record.plan != 0) continue;
      if (item.passed_by_ns == 0)
        item.passed_by_ns = launch_ns;
      else if (enter_ns > item.passed_by_ns)
        conclude(item, static_cast<uint8_t>(flag(wire::RoundFlags::no_kernel) | flag(wire::RoundFlags::not_measured)));
    }
  };
  look(operations_);
  look(calls_);
}

// Kernels run in the order of their tokens: one that has left no rows while a later one has begun (in an earlier
// sample, so that all its rows had been looked for) is over, or was never launched.
template <class Record>
void CommTracker::retire_passed_by(std::deque<Tracked<Record>>& items) {
  for (auto& item : items) {
    if (item.done || !item.known || !has_rows(item.record)) continue;
    if (abi::distance(item.record.plan, newest_token_before_) <= 0 || kernel_with(item.record.plan) != nullptr)
      continue;
    if (item.launched()) {
      lost(1, std::is_same_v<Record, abi::OpRecord> ? &lapped_rounds_ : &lapped_calls_);
      conclude(item, flag(wire::RoundFlags::lapped));
    } else {
      conclude(item, static_cast<uint8_t>(flag(wire::RoundFlags::no_kernel) | flag(wire::RoundFlags::not_measured)));
    }
  }
}

void CommTracker::retire_passed_by() {
  if (newest_token_before_ == 0) return;
  retire_passed_by(operations_);
  retire_passed_by(calls_);
}

wire::OpSignature CommTracker::signature(const abi::OpRecord& r) const {
  return wire::OpSignature(r.count, r.root, r.function, r.datatype, r.reduction, r.algorithm, r.protocol, r.flags,
                           r.channel_count);
}

// ---- graphs --------------------------------------------------------------------------------------------------------

template <class Record>
void CommTracker::remember_capture(const Record& record) {
  if (!has_rows(record)) return;
  const auto [found, added] = captured_.try_emplace(record.plan);
  if (added) captured_order_.push_back(record.plan);
  CapturedPlan& plan = found->second;
  if constexpr (std::is_same_v<Record, abi::OpRecord>)
    plan.operations.push_back(record);
  else
    plan.calls.push_back(record);
  plan.channel_mask |= record.channel_mask & present_mask_;
  plan.replay_slot = record.replay_slot;
  captured_mask_ |= plan.channel_mask;
  watched_mask_ |= plan.channel_mask;
  ++captured_items_;
  forget_captures();
}

void CommTracker::forget_captures() {
  while (captured_items_ > captured_max && captured_order_.size() > 1) {
    const auto oldest = captured_.find(captured_order_.front());
    captured_items_ -= oldest->second.operations.size() + oldest->second.calls.size();
    captured_.erase(oldest);
    captured_order_.pop_front();
    ++forgotten_captures_;
  }
}

// A call may be known to be captured before its kernel is.
void CommTracker::look_for_captures() {
  const auto look = [this](std::deque<uint64_t>& ahead, auto record, auto read) {
    for (size_t left = ahead.size(); left > 0; --left) {
      const uint64_t number = ahead.front();
      ahead.pop_front();
      if (read(number, &record) != abi::Found::yes) continue;
      if (record.plan != 0)
        remember_capture(record);
      else
        ahead.push_back(number);
    }
  };
  look(captures_ahead_, abi::OpRecord{}, [this](uint64_t n, abi::OpRecord* r) { return frame_.read_operation(n, r); });
  look(p2p_captures_ahead_, abi::P2pRecord{}, [this](uint64_t n, abi::P2pRecord* r) { return frame_.read_p2p(n, r); });
}

// ---- runs and kernels ----------------------------------------------------------------------------------------------

void CommTracker::follow_runs(bool thorough) {
  for (uint64_t mask = watched_mask_; mask != 0; mask &= mask - 1) {
    const auto c = static_cast<uint32_t>(__builtin_ctzll(mask));
    channels_[c].runs.follow(frame_, c, thorough, *this);
  }
  for (const auto& kernel : kernels_) read_replay(*kernel);
  if (runs_missing_) untangle_replays();
}

CommTracker::Cargo CommTracker::cargo_of(uint32_t token) const {
  Cargo cargo;
  const auto add = [&](const auto& record) {
    cargo.channel_mask |= record.channel_mask & present_mask_;
    ++cargo.items;
    if constexpr (std::is_same_v<std::decay_t<decltype(record)>, abi::OpRecord>)
      cargo.all_waits_announced &= record.protocol == static_cast<uint8_t>(abi::Protocol::simple);
    else
      cargo.all_waits_announced = false;
  };
  const auto captured = captured_.find(token);
  if (captured != captured_.end()) {
    cargo.captured = true;
    for (const abi::OpRecord& r : captured->second.operations) add(r);
    for (const abi::P2pRecord& r : captured->second.calls) add(r);
    return cargo;
  }
  // What was entered after the launch is not carried, and nothing behind it.
  uint64_t launch_ns = 0;
  const auto look = [&](const auto& items) {
    for (const auto& item : items) {
      if (item.done || !item.known) continue;
      if (launch_ns != 0 && item.record.enter_monotonic_ns > launch_ns) break;
      if (item.record.plan != token || !has_rows(item.record)) continue;
      launch_ns = item.record.launch_monotonic_ns;
      add(item.record);
    }
  };
  look(operations_);
  look(calls_);
  return cargo;
}

CommTracker::Kernel* CommTracker::kernel_for(uint32_t channel, uint32_t token) {
  for (const auto& kernel : kernels_)
    if (kernel->token == token && ((kernel->begun | kernel->ended) & bit(channel)) == 0 &&
        (kernel->channel_mask & bit(channel)) != 0)
      return kernel.get();
  Cargo cargo = cargo_of(token);
  if (cargo.items == 0 && !records_fresh_) {  // launched since the records were read
    const Api api = read_api();
    if (!(api == api_)) take_new(api);
    refresh();
    cargo = cargo_of(token);
  }
  if (cargo.items == 0) return nullptr;
  std::unique_ptr<Kernel> kernel;
  if (unused_kernels_.empty()) {
    kernel = std::make_unique<Kernel>();
  } else {
    kernel = std::move(unused_kernels_.back());
    unused_kernels_.pop_back();
    auto links = std::move(kernel->links);
    links.clear();
    *kernel = Kernel{};
    kernel->links = std::move(links);
  }
  kernel->token = token;
  kernel->captured = cargo.captured;
  kernel->channel_mask = cargo.channel_mask | bit(channel);
  kernel->all_waits_announced = cargo.all_waits_announced;
  kernels_.push_back(std::move(kernel));
  if (!cargo.captured && (newest_token_ == 0 || abi::distance(newest_token_, token) > 0)) newest_token_ = token;
  return kernels_.back().get();
}

void CommTracker::run_begun(uint32_t channel, const abi::RoundBegin& begin) {
  ChannelTrack& ch = channels_[channel];
  runs_seen_ = std::max(runs_seen_, ++ch.begun);
  ch.begun_seen_ns = now_.monotonic_ns;
  ch.polled_ns = ch.lanes_looked_ns = 0;
  ch.ticks_known = false;
  ch.lanes_in_use[0] = ch.lanes_in_use[1] = 0;
  ch.kernel = kernel_for(channel, begin.token);
  if (ch.kernel == nullptr) return;
  Kernel& kernel = *ch.kernel;
  kernel.begun |= bit(channel);
  kernel.begin_ns = std::min(kernel.begin_ns, begin.device_ns);
  if (kernel.first_begin_ns == 0) kernel.first_begin_ns = begin.device_ns;
  newest_begin_ns_ = std::max(newest_begin_ns_, kernel.first_begin_ns);
  if ((kernel.channel_mask & (bit(channel) - 1)) == 0) kernel.lowest_run = begin.run;
  moved();
}

void CommTracker::run_ended(uint32_t channel, uint32_t run, const abi::RoundEnd* end, const abi::RoundCounts* counts) {
  ChannelTrack& ch = channels_[channel];
  if (ch.kernel == nullptr) return;
  Kernel& kernel = *ch.kernel;
  if (end == nullptr) {
    kernel.lapped = true;
  } else {
    kernel.end_ns = std::max(kernel.end_ns, end->device_ns);
    kernel.end_flags |= end->flags;
  }
  if (!kernel.links.empty()) observe_lanes(kernel, channel, run, false);
  if (counts != nullptr) {
    kernel.ended_send += counts->send_steps;
    kernel.ended_recv += counts->recv_steps;
    complete_link(kernel, channel, abi::Direction::send, counts->send_steps);
    complete_link(kernel, channel, abi::Direction::recv, counts->recv_steps);
  } else {
    kernel.counts_valid = false;
  }
  if (kernel.captured && kernel.replay == 0) read_replay(kernel);
  kernel.ended |= bit(channel);
  ch.kernel = nullptr;
  moved();
}

void CommTracker::runs_lost(uint32_t, uint32_t) {
  runs_missing_ = true;
  moved();
}

void CommTracker::read_replay(Kernel& kernel) {
  if (!kernel.captured || kernel.replay != 0 || kernel.lowest_run == 0) return;
  const auto lowest = static_cast<uint32_t>(__builtin_ctzll(kernel.channel_mask));
  abi::RoundReplay replay;
  if (frame_.read_replay(lowest, kernel.lowest_run, &replay) == abi::Found::yes) kernel.replay = replay.index;
}

// The replays of one graph differ in nothing but their order, so after a loss it is not known any more which runs of
// the channels belong together. Those at hand are given up; the next one is followed again.
void CommTracker::untangle_replays() {
  for (auto& [token, plan] : captured_) plan.uncounted |= plan.replay_slot == 0;
  for (const auto& kernel : kernels_) {
    if (!kernel->captured) continue;
    kernel->lapped = true;
    uint64_t open = 0;
    for (uint64_t mask = kernel->begun & ~kernel->ended; mask != 0; mask &= mask - 1)
      if (channels_[static_cast<uint32_t>(__builtin_ctzll(mask))].kernel == kernel.get()) open |= mask & -mask;
    kernel->channel_mask = open | kernel->ended;
  }
}

void CommTracker::finish_kernels() {
  for (size_t i = 0; i < kernels_.size();) {
    Kernel& kernel = *kernels_[i];
    const bool complete = (kernel.channel_mask & ~kernel.ended) == 0;
    // Also by the next kernel on other channels: then rows of this one were lost, or its channels were not told right.
    const bool passed = kernel.first_begin_ns < newest_begin_before_ns_;
    if (!complete && !passed) {
      ++i;
      continue;
    }
    kernel.lapped |= !complete;
    for (ChannelTrack& ch : channels_)
      if (ch.kernel == &kernel) ch.kernel = nullptr;
    finish(kernel);
    unused_kernels_.push_back(std::move(kernels_[i]));
    kernels_.erase(kernels_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void CommTracker::finish(Kernel& kernel) {
  FinishedRound measured;
  if (!kernel.lapped) {
    measured.begin_device_ns = kernel.begin_ns;
    measured.end_device_ns = kernel.end_ns;
  }
  // The look that saw the end is one of the samples.
  measured.samples = kernel.samples + 1;
  measured.send_changes = kernel.send_changes + (kernel.ended_send != kernel.send_steps);
  measured.recv_changes = kernel.recv_changes + (kernel.ended_recv != kernel.recv_steps);
  measured.send_steps = kernel.ended_send;
  measured.recv_steps = kernel.ended_recv;
  const bool valid = kernel.counts_valid && !kernel.lapped;
  measured.flags =
      static_cast<uint8_t>((valid ? flag(wire::RoundFlags::counts_valid) : 0) |
                           ((kernel.end_flags & abi::round_aborted) != 0 ? flag(wire::RoundFlags::aborted) : 0) |
                           (kernel.lapped ? flag(wire::RoundFlags::lapped) : 0) |
                           (cargo_of(kernel.token).items > 1 ? flag(wire::RoundFlags::shared_kernel) : 0));
  measured.replay = kernel.replay;
  for (LinkTrack& link : kernel.links) link.limit = link.gpu.steps();
  moved();
  if (kernel.captured) return finish_replay(kernel, measured);

  std::vector<LinkTrack> links;
  if (measured.samples >= link_samples_min) links.swap(kernel.links);
  uint64_t enter_ns = 0, launch_ns = 0;
  const auto end_item = [&](auto& item) {
    // A short kernel may end before its launch has returned to the user thread.
    if (!item.launched()) {
      auto record = item.record;
      abi::Found found;
      if constexpr (std::is_same_v<decltype(record), abi::OpRecord>)
        found = frame_.read_operation(item.number, &record);
      else
        found = frame_.read_p2p(item.number, &record);
      if (found == abi::Found::yes) item.record = record;
    }
    enter_ns = std::max(enter_ns, item.record.enter_monotonic_ns);
    launch_ns = item.record.launch_monotonic_ns;
    item.done = true;
  };
  for (Operation& o : operations_) {
    if (o.done || !o.known) continue;
    if (launch_ns != 0 && o.record.enter_monotonic_ns > launch_ns) break;  // as in cargo_of
    if (o.record.plan != kernel.token || !has_rows(o.record)) continue;
    lost(kernel.lapped, &lapped_rounds_);
    end_item(o);
    add_round(o.number, o.record, measured, std::move(links));
    links.clear();  // of the first operation that the kernel carried
  }
  for (Call& c : calls_) {
    if (c.done || !c.known) continue;
    if (launch_ns != 0 && c.record.enter_monotonic_ns > launch_ns) break;
    if (c.record.plan != kernel.token || !has_rows(c.record)) continue;
    lost(kernel.lapped, &lapped_calls_);
    end_item(c);
    add_call(c.record, measured);
  }
  if (launch_ns != 0) ended_in_turn(enter_ns, launch_ns);
}

void CommTracker::finish_replay(Kernel& kernel, const FinishedRound& measured) {
  const auto found = captured_.find(kernel.token);
  if (found == captured_.end()) return;
  CapturedPlan& plan = found->second;
  FinishedRound round = measured;
  // Replays that no slot counts are counted here, as long as none was missed.
  if (plan.replay_slot == 0 && !kernel.lapped && !plan.uncounted) round.replay = plan.last_replay + 1;
  if (round.replay == 0 || kernel.lapped) return;  // the next index tells how many were lost
  const uint32_t missed = round.replay - plan.last_replay - 1;
  if (static_cast<int32_t>(missed) > 0) {
    lost(uint64_t{missed} * plan.operations.size(), &lapped_rounds_);
    lost(uint64_t{missed} * plan.calls.size(), &lapped_calls_);
  }
  plan.last_replay = round.replay;
  std::vector<LinkTrack> links;
  if (measured.samples >= link_samples_min) links.swap(kernel.links);
  for (const abi::OpRecord& record : plan.operations) {
    add_round(record.commit, record, round, std::move(links));
    links.clear();
  }
  for (const abi::P2pRecord& record : plan.calls) add_call(record, round);
}

void CommTracker::add_round(uint64_t op_seq, const abi::OpRecord& record, FinishedRound round,
                            std::vector<LinkTrack> links) {
  ++finished_rounds_;
  if (!options_.keep_rounds) return;
  round.op_seq = op_seq;
  round.signature = signature(record);
  round.enter_monotonic_ns = record.enter_monotonic_ns;
  round.launch_monotonic_ns = record.launch_monotonic_ns;
  round.signals = record.signals;
  if (record.plan_operations > 1) round.flags |= flag(wire::RoundFlags::shared_kernel);
  if ((record.signals & abi::signal_steps) == 0)
    round.flags &= static_cast<uint8_t>(~flag(wire::RoundFlags::counts_valid));
  PendingRound pending;
  pending.round = round;
  pending.finished_ns = now_.monotonic_ns;
  pending.links = std::move(links);
  pending.open = !pending.links.empty();
  open_links_ += pending.open;
  pending_.push_back(std::move(pending));
  if (pending_.size() <= rounds_pending_max) return;
  open_links_ -= pending_.front().open;
  pending_.pop_front();
  ++dropped_rounds_;
}

void CommTracker::add_call(const abi::P2pRecord& record, const FinishedRound& kernel) {
  ++finished_rounds_;
  if (!options_.keep_rounds) return;
  FinishedP2p call;
  call.peer = record.peer;
  call.direction = record.direction;
  call.flags = kernel.flags;
  call.replay = kernel.replay;
  call.plan = record.plan;
  call.pair_seq = record.pair_seq;
  call.bytes = record.bytes;
  call.enter_monotonic_ns = record.enter_monotonic_ns;
  call.launch_monotonic_ns = record.launch_monotonic_ns;
  call.begin_device_ns = kernel.begin_device_ns;
  call.end_device_ns = kernel.end_device_ns;
  call.send_steps = kernel.send_steps;
  call.recv_steps = kernel.recv_steps;
  pending_p2p_.push_back(call);
  if (pending_p2p_.size() <= rounds_pending_max) return;
  pending_p2p_.pop_front();
  ++dropped_rounds_;
}

}  // namespace ccld::probe
