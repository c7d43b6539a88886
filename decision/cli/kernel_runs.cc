#include "decision/cli/kernel_runs.h"

namespace ccld::decision::frames {

Runs::Runs(const abi::FrameView& frame) : channels_(frame.channel_count()) {
  for (uint32_t c = 0; c < frame.channel_count(); ++c) {
    const uint32_t newest = frame.newest_run(c);
    for (uint32_t back = 0; back < abi::rounds_max && back < newest; ++back) {
      const uint32_t run = newest - back;
      abi::RoundBegin begin;
      if (frame.read_begin(c, run, &begin) != abi::Found::yes) continue;
      Channel& channel = channels_[c];
      const auto [it, added] = channel.by_token.try_emplace(begin.token);
      if (!added) continue;  // an older replay of it
      abi::RoundEnd end;
      abi::RoundReplay replay;
      const abi::Found found = frame.read_end(c, run, &end);
      it->second.run = run;
      it->second.ended = found == abi::Found::yes || found == abi::Found::later;
      if (frame.read_replay(c, run, &replay) == abi::Found::yes) it->second.replay = replay.index;
      if (!channel.any || abi::distance(channel.newest_token, begin.token) > 0) channel.newest_token = begin.token;
      channel.any = true;
    }
  }
}

const Run* Runs::find(uint32_t channel, uint32_t token) const {
  if (channel >= channels_.size()) return nullptr;
  const auto it = channels_[channel].by_token.find(token);
  return it == channels_[channel].by_token.end() ? nullptr : &it->second;
}

// Its row was overwritten: a kernel that was launched later has begun on the channel.
bool Runs::passed(uint32_t channel, uint32_t token) const {
  return channel < channels_.size() && channels_[channel].any &&
         abi::distance(token, channels_[channel].newest_token) > 0;
}

Runs::Kernel Runs::kernel(uint32_t token, uint64_t mask) const {
  Kernel k;
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    if (!has_channel(mask, c)) continue;
    if (const Run* run = find(c, token)) {
      k.begun = true;
      k.ended &= run->ended;
      if (k.replay == 0) k.replay = run->replay;
    } else {
      k.ended &= passed(c, token);
    }
  }
  return k;
}

namespace {

template <class Record>
Standing standing(const abi::FrameView& frame, const Runs& runs, const Record& r) {
  Standing s;
  if ((r.flags & abi::op_no_kernel) != 0) return s;
  const bool captured = (r.flags & abi::op_captured) != 0;
  if (r.plan == 0 || r.channel_mask == 0) {
    s.in_flight = !captured && (r.flags & abi::op_launched) == 0;
    if ((r.signals & abi::signal_stream) != 0 && r.plan != 0 && (r.flags & abi::op_launched) != 0) {
      // The stream itself says so, of the newest launch; older ones have ended.
      s.in_flight = abi::distance(frame.stream_ended_token(), r.plan) > 0;
      s.running = s.in_flight && abi::distance(frame.stream_begun_token(), r.plan) <= 0;
    }
    return s;
  }
  const Runs::Kernel k = runs.kernel(r.plan, r.channel_mask);
  s.replay = k.replay;
  s.running = k.begun && !k.ended;
  // Recorded into a graph: it runs when the GPU says so, not because it was called.
  s.in_flight = captured ? s.running : !k.ended;
  // By means that write no times: nobody can say whether it runs.
  if ((r.flags & abi::op_launched) != 0 && (r.signals & (abi::signal_times | abi::signal_stream)) == 0)
    s.in_flight = s.running = false;
  return s;
}

}  // namespace

Standing standing_of(const abi::FrameView& frame, const Runs& runs, const abi::OpRecord& r) {
  return standing(frame, runs, r);
}

Standing standing_of(const abi::FrameView& frame, const Runs& runs, const abi::P2pRecord& r) {
  return standing(frame, runs, r);
}

}  // namespace ccld::decision::frames
