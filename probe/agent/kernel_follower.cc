#include "probe/agent/kernel_follower.h"

#include <algorithm>
#include <utility>

namespace ccld::probe {

struct KernelFollower::Sink {
  KernelFollower& follower;
  Sampling& sampling;

  void run_begun(uint32_t channel, const abi::RoundBegin& begin) { follower.run_begun(channel, begin, sampling); }
  void run_ended(uint32_t channel, uint32_t run, const abi::RoundEnd* end, const abi::RoundCounts* counts) {
    follower.run_ended(channel, run, end, counts, sampling);
  }
  void runs_lost(uint32_t, uint32_t, uint64_t device_ns) {
    follower.give_up_replays(device_ns);
    sampling.moved = true;
  }
  void runs_summed(uint32_t channel, const RunSums& sums) { follower.channels_[channel].summed.add(sums); }
};

KernelFollower::KernelFollower(const abi::FrameView& frame, OperationRecords& records, FinishedRounds& finished,
                               const ProxyWatch& proxies, uint64_t poll_fresh_ns)
    : frame_(frame),
      records_(records),
      finished_(finished),
      proxies_(proxies),
      poll_fresh_ns_(poll_fresh_ns),
      channels_(frame.channel_count()) {}

// ---- runs ----------------------------------------------------------------------------------------------------------

void KernelFollower::follow_runs(bool thorough, Sampling& s) {
  newest_token_before_ = newest_token_;
  newest_begin_before_ns_ = newest_begin_ns_;
  Sink sink{*this, s};
  for (uint64_t mask = records_.watched_channels(); mask != 0; mask &= mask - 1) {
    const uint32_t c = first_channel(mask);
    channels_[c].runs.follow(frame_, c, thorough, sink);
  }
  for (const auto& kernel : kernels_) read_replay(*kernel);
}

void KernelFollower::run_begun(uint32_t channel, const abi::RoundBegin& begin, Sampling& s) {
  Channel& ch = channels_[channel];
  runs_seen_ = std::max(runs_seen_, ++ch.begun);
  ch.begun_seen_ns = s.now.monotonic_ns;
  ch.begin_device_ns = begin.device_ns;
  ch.endpoints.begin();
  ch.kernel = kernel_for(channel, begin, s);
  if (ch.kernel == nullptr) return;
  Kernel& kernel = *ch.kernel;
  kernel.begun |= bit(channel);
  kernel.begin_ns = std::min(kernel.begin_ns, begin.device_ns);
  if (kernel.first_begin_ns == 0) kernel.first_begin_ns = begin.device_ns;
  newest_begin_ns_ = std::max(newest_begin_ns_, kernel.first_begin_ns);
  if ((kernel.channel_mask & (bit(channel) - 1)) == 0) kernel.lowest_run = begin.run;
  s.moved = true;
}

void KernelFollower::run_ended(uint32_t channel, uint32_t run, const abi::RoundEnd* end, const abi::RoundCounts* counts,
                               Sampling& s) {
  Channel& ch = channels_[channel];
  const uint64_t busy_ns = end != nullptr ? end->duration_ns : 0;
  if (ch.kernel == nullptr) {
    if (counts != nullptr) ch.summed.add_run(counts->send_steps, counts->recv_steps, busy_ns);
    return;
  }
  Kernel& kernel = *ch.kernel;
  if (end == nullptr) {
    kernel.lapped = true;
  } else {
    kernel.end_ns = std::max(kernel.end_ns, ch.begin_device_ns + end->duration_ns);
    kernel.end_flags |= end->flags;
  }
  if (!kernel.links.empty()) ch.endpoints.look(frame_, kernel, channel, run, false, s);
  if (counts != nullptr) {
    kernel.ended_send += counts->send_steps;
    kernel.ended_recv += counts->recv_steps;
    kernel.shares.push_back({channel, counts->send_steps, counts->recv_steps, busy_ns});
    if (!kernel.links.empty()) {
      const uint32_t operations = records_.cargo_of(kernel.token).items;
      complete_links(kernel, channel, abi::Direction::send, counts->send_steps, operations, s.now);
      complete_links(kernel, channel, abi::Direction::recv, counts->recv_steps, operations, s.now);
    }
  } else {
    kernel.counts_valid = false;
  }
  if (kernel.captured && kernel.replay == 0) read_replay(kernel);
  kernel.ended |= bit(channel);
  ch.kernel = nullptr;
  s.moved = true;
}

// ---- kernels -------------------------------------------------------------------------------------------------------

Kernel& KernelFollower::new_kernel() {
  std::unique_ptr<Kernel> kernel;
  if (unused_.empty()) {
    kernel = std::make_unique<Kernel>();
  } else {
    kernel = std::move(unused_.back());
    unused_.pop_back();
    auto links = std::move(kernel->links);
    auto shares = std::move(kernel->shares);
    links.clear();
    shares.clear();
    *kernel = Kernel{};
    kernel->links = std::move(links);
    kernel->shares = std::move(shares);
  }
  kernels_.push_back(std::move(kernel));
  return *kernels_.back();
}

// nullptr: of nothing that is known.
Kernel* KernelFollower::kernel_for(uint32_t channel, const abi::RoundBegin& begin, Sampling& s) {
  const uint32_t token = begin.token;
  for (const auto& kernel : kernels_)
    if (kernel->token == token && ((kernel->begun | kernel->ended) & bit(channel)) == 0 &&
        (kernel->channel_mask & bit(channel)) != 0 && !is_given_up(kernel->captured, begin))
      return kernel.get();
  Cargo cargo = records_.cargo_of(token);
  // Launched since the records were read.
  if (cargo.items == 0 && records_.catch_up(!kernels_.empty(), s)) cargo = records_.cargo_of(token);
  if (cargo.items == 0) return nullptr;
  if (is_given_up(cargo.captured, begin)) return nullptr;
  Kernel& kernel = new_kernel();
  kernel.token = token;
  kernel.captured = cargo.captured;
  kernel.channel_mask = cargo.channel_mask | bit(channel);
  kernel.all_waits_announced = cargo.all_waits_announced;
  if (!cargo.captured && (newest_token_ == 0 || abi::distance(newest_token_, token) > 0)) newest_token_ = token;
  return &kernel;
}

void KernelFollower::read_replay(Kernel& kernel) const {
  if (!kernel.captured || kernel.replay != 0 || kernel.lowest_run == 0) return;
  abi::RoundReplay replay;
  if (frame_.read_replay(first_channel(kernel.channel_mask), kernel.lowest_run, &replay) == abi::Found::yes)
    kernel.replay = replay.index;
}

// The replays of one graph differ in nothing but their order, so after a loss on one channel it is not known any more
// which runs of the others belong together. But kernels of one communicator run one after the other: a kernel of which
// all runs begin after `device_ns`, when a run behind the loss had ended, is known on all channels. Earlier ones are
// given up.
void KernelFollower::give_up_replays(uint64_t device_ns) {
  records_.captured().lose_count();
  replays_known_from_ns_ = std::max(replays_known_from_ns_, device_ns);
  for (const auto& kernel : kernels_) {
    if (!kernel->captured || kernel->first_begin_ns >= replays_known_from_ns_) continue;
    kernel->lapped = true;
    uint64_t open = 0;
    for (uint64_t mask = kernel->begun & ~kernel->ended; mask != 0; mask &= mask - 1)
      if (channels_[first_channel(mask)].kernel == kernel.get()) open |= mask & -mask;
    kernel->channel_mask = open | kernel->ended;
  }
}

SummedRuns KernelFollower::summed() const {
  SummedRuns all;
  for (const Channel& ch : channels_) {
    all.runs = std::max(all.runs, ch.summed.runs);
    all.busy_ns = std::max(all.busy_ns, ch.summed.busy_ns);
    all.send_steps += ch.summed.send_steps;
    all.recv_steps += ch.summed.recv_steps;
  }
  return all;
}

void KernelFollower::observe(Kernel& kernel, bool slow_look, Sampling& s) {
  for (uint64_t left = kernel.begun & ~kernel.ended; left != 0; left &= left - 1) {
    const uint32_t c = first_channel(left);
    Channel& ch = channels_[c];
    // Its endpoints open soon after a kernel has begun.
    const bool young = s.now.monotonic_ns - ch.begun_seen_ns < slow_look_ns;
    ch.endpoints.look(frame_, kernel, c, ch.runs.run(), slow_look || young, s);
    if (slow_look || !ch.endpoints.waits_known()) ch.endpoints.look_at_waits(frame_, kernel, c, poll_fresh_ns_, s.now);
  }
  proxies_.update(kernel.links, s.now);
  uint32_t send = kernel.ended_send, recv = kernel.ended_recv;
  for (const LinkTrack& link : kernel.links)
    if ((kernel.ended >> link.channel & 1) == 0)
      (link.direction == abi::Direction::send ? send : recv) += link.gpu.steps();
  ++kernel.samples;
  if (send != kernel.send_steps) ++kernel.send_changes;
  if (recv != kernel.recv_steps) ++kernel.recv_changes;
  kernel.send_steps = send;
  kernel.recv_steps = recv;
}

void KernelFollower::observe(bool slow_look, Sampling& s) {
  for (const auto& kernel : kernels_)
    if ((kernel->begun & ~kernel->ended) != 0) observe(*kernel, slow_look, s);
}

// The index of a replay is written before everything else and may be seen last: the next sample looks again.
bool KernelFollower::awaits_replay(Kernel& kernel) const {
  if (!kernel.captured || kernel.replay != 0 || kernel.lapped || kernel.replay_awaited) return false;
  const CapturedPlans::Plan* plan = records_.captured().find(kernel.token);
  if (plan == nullptr || plan->replay_slot == 0) return false;
  kernel.replay_awaited = true;
  return true;
}

void KernelFollower::finish_ended(Sampling& s) {
  for (size_t i = 0; i < kernels_.size();) {
    Kernel& kernel = *kernels_[i];
    const bool complete = (kernel.channel_mask & ~kernel.ended) == 0;
    // Also by the next kernel on other channels: then rows of this one were lost, or its channels were not told right.
    const bool passed = kernel.first_begin_ns < newest_begin_before_ns_;
    if (!complete && !passed) {
      ++i;
      continue;
    }
    if (complete && awaits_replay(kernel)) break;  // replays are told in their order
    kernel.lapped |= !complete;
    for (Channel& ch : channels_)
      if (ch.kernel == &kernel) ch.kernel = nullptr;
    finish(kernel, s);
    unused_.push_back(std::move(kernels_[i]));
    kernels_.erase(kernels_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void KernelFollower::finish(Kernel& kernel, Sampling& s) {
  const bool valid = kernel.counts_valid && !kernel.lapped;
  if (!valid)
    for (const ChannelShare& share : kernel.shares)
      channels_[share.channel].summed.add_run(share.send_steps, share.recv_steps, share.busy_ns);
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
  measured.flags =
      static_cast<uint8_t>((valid ? flag(wire::RoundFlags::counts_valid) : 0) |
                           ((kernel.end_flags & abi::round_aborted) != 0 ? flag(wire::RoundFlags::aborted) : 0) |
                           (kernel.lapped ? flag(wire::RoundFlags::lapped) : 0) |
                           (records_.cargo_of(kernel.token).items > 1 ? flag(wire::RoundFlags::shared_kernel) : 0));
  measured.replay = kernel.replay;
  for (LinkTrack& link : kernel.links) link.limit = link.gpu.steps();
  s.moved = true;
  if (kernel.captured)
    records_.captured().finish_replay(kernel, measured, finished_, s);
  else
    records_.finish(kernel, measured, s);
}

}  // namespace ccld::probe
