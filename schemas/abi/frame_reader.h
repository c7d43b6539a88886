// Reads a probing frame while it is being written: validation, reads that refuse a torn or foreign record, and what
// each lane waits for. (Paper, section 5.1: Probing Frame; section 4.1: SendCount and RecvCount.)
//
// Contract
//   FrameView::open checks magic, major version, sizes and that every part lies within the memory; afterwards no index
//   or offset that the frame contains can lead outside. It uses the offsets and strides of the header, so that a newer
//   minor version with longer records is read too. Times are nanoseconds, steps are the connection steps of frame.h
//   (absolute, modulo 2^32). Nothing here waits, locks, allocates (besides error texts) or throws.
//
// Threads: a view is immutable; any number of threads and processes may read while the writers write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "schemas/abi/frame.h"

namespace ccld::abi {

namespace reading {

// Sixteen bytes as one load where the machine has it (aligned SSE loads are single on every x86 with AVX). Elsewhere as
// two: callers always check the run again afterwards.
struct Row16 {
  uint64_t low, high;
  friend bool operator==(const Row16& a, const Row16& b) { return a.low == b.low && a.high == b.high; }
};

inline Row16 load_row(const void* address) {
  Row16 row;
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  __m128i value;
  asm volatile("movdqa %1, %0" : "=x"(value) : "m"(*static_cast<const __m128i*>(address)) : "memory");
  std::memcpy(&row, &value, sizeof row);
#else
  const auto* words = static_cast<const uint64_t*>(address);
  row.low = __atomic_load_n(words, __ATOMIC_ACQUIRE);
  row.high = __atomic_load_n(words + 1, __ATOMIC_ACQUIRE);
#endif
  return row;
}

template <class T>
T load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

// Copies a record of the host word by word, so that no 8-byte word is torn.
inline void load_words(const void* from, void* to, size_t bytes) {
  const auto* source = static_cast<const uint64_t*>(from);
  auto* target = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
    const uint64_t word = __atomic_load_n(source + i, __ATOMIC_RELAXED);
    std::memcpy(target + i * sizeof word, &word, sizeof word);
  }
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

}  // namespace reading

// Signed distance of two runs, tokens or steps that count modulo 2^32.
constexpr int32_t distance(uint32_t from, uint32_t to) { return static_cast<int32_t>(to - from); }

// What a record says about the one that was asked for.
enum class Found : uint8_t {
  yes,
  earlier,  // the place still holds (or never held) anything newer: not written yet
  later,    // overwritten by a newer one
  busy,     // being written; ask again later
};

// A kernel on a channel. Filled in too when `later` was found: then it is the run that took the place.
struct RoundBegin {
  uint32_t run = 0;
  uint32_t token = 0;
  uint64_t device_ns = 0;
};
struct RoundCounts {
  uint32_t run = 0;
  uint32_t send_steps = 0;
  uint32_t recv_steps = 0;
};
// Of all kernels on the channel up to this one, modulo 2^32. Those of run 0 are zero.
struct RoundTotals {
  uint32_t run = 0;
  uint32_t send_steps = 0;
  uint32_t recv_steps = 0;
  uint32_t busy_ns = 0;
};
struct RoundEnd {
  RoundTotals totals;
  uint32_t flags = 0;        // RoundFlag
  uint64_t duration_ns = 0;  // from its begin, as exact as round_end.h says
};
constexpr RoundCounts counts_between(const RoundTotals& before, const RoundTotals& totals) {
  return {totals.run, totals.send_steps - before.send_steps, totals.recv_steps - before.recv_steps};
}
struct RoundReplay {
  uint32_t run = 0;
  uint32_t index = 0;
};

// What the lanes of one channel show of a run that has not ended: its newest primitives.
struct LaneCounts {
  uint32_t send = 0;
  uint32_t recv = 0;
  uint32_t lanes = 0;        // that carried the run
  bool overwritten = false;  // a newer run has taken lanes: the sums are incomplete
};

class FrameView {
 public:
  static constexpr size_t bytes_min = sizeof(FrameHeader);

  // `memory` must be 16-byte aligned and outlive the view. On failure *error says what is wrong, without the file's
  // name.
  static std::optional<FrameView> open(const void* memory, size_t bytes, std::string* error) {
    const auto fail = [error](std::string text) {
      if (error != nullptr) *error = std::move(text);
      return std::nullopt;
    };
    if (bytes < sizeof(FrameHeader))
      return fail("truncated: " + std::to_string(bytes) + " bytes, the header alone has " +
                  std::to_string(sizeof(FrameHeader)));
    const auto* header = static_cast<const FrameHeader*>(memory);
    if (reading::load(header->identity.magic) != frame_magic) return fail("not a probing frame (or not initialized yet)");
    // A copy: whoever owns the file may change it between a check and a use.
    FrameIdentity id;
    reading::load_words(&header->identity, &id, sizeof id);
    if (id.abi_major != frame_abi_major)
      return fail("frame version " + std::to_string(id.abi_major) + "." + std::to_string(id.abi_minor) +
                  ", this program reads " + std::to_string(frame_abi_major) + ".x");
    if (id.end_marker != frame_magic) return fail("header damaged: end marker missing");
    if (id.file_bytes > bytes)
      return fail("truncated: " + std::to_string(bytes) + " bytes of " + std::to_string(id.file_bytes));
    if (id.channel_count > channels_max)
      return fail("header damaged: " + std::to_string(id.channel_count) + " channels, at most " +
                  std::to_string(channels_max));
    FrameView view;
    view.header_ = header;
    view.channel_count_ = id.channel_count;
    const Part parts[] = {
        {"operations", id.ops_offset, id.ops_stride, sizeof(OpRecord), ops_max, &view.operations_, &view.ops_stride_},
        {"point-to-point calls", id.p2ps_offset, id.p2ps_stride, sizeof(P2pRecord), p2ps_max, &view.p2ps_,
         &view.p2ps_stride_},
        {"proxies", id.proxies_offset, id.proxies_stride, sizeof(ProxyRecord), proxies_max, &view.proxies_,
         &view.proxies_stride_},
        {"times of proxies", id.proxy_times_offset, id.proxy_times_stride, sizeof(ProxyTimes), proxies_max,
         &view.proxy_times_, &view.proxy_times_stride_},
        {"channels", id.channels_offset, id.channels_stride, sizeof(DeviceChannel), id.channel_count, &view.channels_,
         &view.channels_stride_},
    };
    for (const Part& part : parts) {
      if (part.base == &view.proxy_times_ && part.offset == 0) continue;  // of an older version
      const uint64_t end = part.offset + uint64_t{part.stride} * part.count;
      if (part.offset < sizeof(FrameHeader) || part.offset % 128 != 0 || part.stride % 64 != 0 ||
          part.stride < part.record_bytes || end > id.file_bytes)
        return fail(std::string("header damaged: ") + part.name + " lie outside the frame");
      *part.base = static_cast<const unsigned char*>(memory) + part.offset;
      *part.view_stride = part.stride;
    }
    return view;
  }

  // Constant once the communicator is ready (state() >= ready); texts are always terminated by these accessors.
  const FrameIdentity& identity() const { return header_->identity; }
  template <size_t N>
  static std::string text(const char (&field)[N]) {
    return std::string(field, strnlen(field, N));
  }

  uint32_t channel_count() const { return channel_count_; }
  CommState state() const { return static_cast<CommState>(reading::load(header_->state.state)); }

  uint32_t hidden() const { return reading::load(header_->state.hidden); }

  uint64_t entered_op_seq() const { return reading::load(header_->api.entered_op_seq); }
  uint64_t launched_op_seq() const { return reading::load(header_->api.launched_op_seq); }
  uint64_t launched_plan() const { return reading::load(header_->api.launched_plan); }
  uint64_t entered_p2p() const { return reading::load(header_->api.entered_p2p); }
  uint64_t launched_p2p() const { return reading::load(header_->api.launched_p2p); }
  uint64_t captured_plans() const { return reading::load(header_->api.captured_plans); }
  uint64_t unseen_while_stopped() const { return reading::load(header_->api.unseen_while_stopped); }
  uint32_t stream_begun_token() const { return reading::load(header_->stream.begun_token); }
  uint32_t stream_ended_token() const { return reading::load(header_->stream.ended_token); }
  uint64_t completed_op_seq() const { return reading::load(header_->agent.completed_op_seq); }
  uint64_t heartbeat_monotonic_ns() const { return reading::load(header_->agent.heartbeat_monotonic_ns); }
  uint64_t agent_samples() const { return reading::load(header_->agent.samples); }
  uint64_t lapped_rounds() const { return reading::load(header_->agent.lapped_rounds); }
  uint64_t summed_kernels() const { return reading::load(header_->agent.summed_kernels); }
  uint64_t summed_busy_ns() const { return reading::load(header_->agent.summed_busy_ns); }
  uint64_t summed_send_steps() const { return reading::load(header_->agent.summed_send_steps); }
  uint64_t summed_recv_steps() const { return reading::load(header_->agent.summed_recv_steps); }
  uint64_t proxy_ticks() const { return reading::load(header_->proxy.ticks); }
  uint64_t proxies_dropped() const { return reading::load(header_->proxy.dropped); }
  uint32_t proxy_count() const {
    const uint64_t connections = reading::load(header_->proxy.connections);
    return static_cast<uint32_t>(connections < proxies_max ? connections : proxies_max);
  }

  // Fields after the launch (plan, channels, launch time, flags) may still be 0 in the copy.
  Found read_operation(uint64_t op_seq, OpRecord* out) const {
    return read_record(operations_ + (op_seq % ops_max) * ops_stride_, op_seq, out);
  }
  // `call`: its number on this communicator, ApiLine::entered_p2p. Likewise.
  Found read_p2p(uint64_t call, P2pRecord* out) const {
    return read_record(p2ps_ + (call % p2ps_max) * p2ps_stride_, call, out);
  }

  // Counters of the writer may be of two consecutive visits; each of them is whole.
  bool read_proxy(uint32_t index, ProxyRecord* out) const {
    if (index >= proxies_max) return false;
    reading::load_words(proxies_ + size_t{index} * proxies_stride_, out, sizeof(ProxyRecord));
    return out->connection != 0;
  }

  // Times of the newest operations of that connection, in no order; false: none, or they change right now.
  bool read_proxy_times(uint32_t index, ProxyOperationTimes (&out)[times_operations]) const {
    if (index >= proxies_max || proxy_times_ == nullptr) return false;
    const auto* times = reinterpret_cast<const ProxyTimes*>(proxy_times_ + size_t{index} * proxy_times_stride_);
    const uint32_t version = __atomic_load_n(&times->version, __ATOMIC_ACQUIRE);
    if (version == 0 || version % 2 != 0) return false;
    reading::load_words(times->operations, out, sizeof out);
    return reading::load(times->version) == version;
  }

  // The rows of the n-th kernel of this communicator on a channel.
  Found read_begin(uint32_t channel, uint32_t run, RoundBegin* out) const {
    reading::Row16 row{};
    const Found found = read_row(channel, run, offsetof(RoundRow, begin_run), &row);
    *out = {low(row.low), high(row.low), row.high};
    return found;
  }
  // With what all kernels up to this one have sent and received. May be seen before the begin.
  Found read_end(uint32_t channel, uint32_t run, RoundEnd* out) const {
    if (channel >= channel_count_) return Found::earlier;
    const uint32_t place = run % rounds_max;
    const RoundRow& round = this->channel(channel)->rounds[place];
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
      const uint32_t begun = reading::load(round.begin_run);
      reading::Row16 row{};
      if (!load_stable(&round.end_word, &row) || reading::load(round.begin_run) != begun) continue;
      const uint32_t word = low(row.low);
      if (!has_end(word)) return Found::earlier;
      const uint32_t found = run_of_end(place, begun, word);
      if (distance(run, found) < 0) return Found::earlier;
      *out = {{found, high(row.low), low(row.high), high(row.high)}, end_flags(word), end_duration_ns(word)};
      return found == run ? Found::yes : Found::later;
    }
    return Found::busy;
  }
  // SendCount and RecvCount of the whole kernel. `later` too where the totals of the run before it are overwritten.
  Found read_counts(uint32_t channel, uint32_t run, RoundCounts* out) const {
    RoundEnd before, end;
    const Found found = read_end(channel, run, &end);
    if (found != Found::yes) return found;
    const Found found_before = run == 1 ? Found::yes : read_end(channel, run - 1, &before);
    *out = counts_between(before.totals, end.totals);
    return found_before;
  }
  // Only of kernels that were recorded into a graph, on their lowest channel.
  Found read_replay(uint32_t channel, uint32_t run, RoundReplay* out) const {
    reading::Row16 row{};
    const Found found = read_row(channel, run, offsetof(RoundRow, replay_run), &row);
    *out = {low(row.low), high(row.low)};
    return found;
  }

  // For readers that come late: the newest run that has begun on a channel, 0 if none. Looks at every row.
  uint32_t newest_run(uint32_t channel) const {
    if (channel >= channel_count_) return 0;
    uint32_t newest = 0;
    for (const RoundRow& row : this->channel(channel)->rounds) {
      const uint32_t run = reading::load(row.begin_run);
      if (run != 0 && (newest == 0 || distance(newest, run) > 0)) newest = run;
    }
    return newest;
  }

  // The lane whatever run it belongs to. False: not in use (or being rebuilt right now).
  bool read_lane(uint32_t channel, Direction direction, uint32_t index, Lane* out) const {
    if (channel >= channel_count_ || index >= lanes_per_direction) return false;
    const Lane* lane = &this->channel(channel)->lanes[static_cast<unsigned>(direction)][index];
    if ((reading::load(lane->peer_and_warps) & lane_in_use) == 0) return false;
    const reading::Row16 first = reading::load_row(lane);
    const reading::Row16 second = reading::load_row(&lane->want_step);
    std::memcpy(out, &first, sizeof first);
    std::memcpy(reinterpret_cast<unsigned char*>(out) + sizeof first, &second, sizeof second);
    return (out->peer_and_warps & lane_in_use) != 0 && reading::load(lane->run) == out->run &&
           reading::load(lane->base_step) == out->base_step;
  }
  // Only if it belongs to run `run`.
  bool read_lane_of(uint32_t channel, Direction direction, uint32_t index, uint32_t run, Lane* out) const {
    return read_lane(channel, direction, index, out) && out->run == run;
  }

  uint32_t warp_poll_tick(uint32_t channel, uint32_t warp) const {
    return channel < channel_count_ && warp < warps_max ? reading::load(this->channel(channel)->warp_poll_tick[warp])
                                                        : 0;
  }

  LaneCounts count_lanes(uint32_t channel, uint32_t run) const {
    LaneCounts counts;
    Lane lane;
    for (unsigned d = 0; d < directions; ++d)
      for (uint32_t i = 0; i < lanes_per_direction; ++i) {
        if (!read_lane(channel, static_cast<Direction>(d), i, &lane)) continue;
        if (lane.run != run) {
          if (distance(run, lane.run) <= 0) continue;
          counts.overwritten = true;
          return counts;
        }
        (d == static_cast<unsigned>(Direction::send) ? counts.send : counts.recv) += lane.current_step - lane.base_step;
        ++counts.lanes;
      }
    return counts;
  }

 private:
  struct Part {
    const char* name;
    uint32_t offset, stride;
    size_t record_bytes;
    uint32_t count;
    const unsigned char** base;
    uint32_t* view_stride;
  };

  const DeviceChannel* channel(uint32_t index) const {
    return reinterpret_cast<const DeviceChannel*>(channels_ + size_t{index} * channels_stride_);
  }

  static uint32_t low(uint64_t pair) { return static_cast<uint32_t>(pair); }
  static uint32_t high(uint64_t pair) { return static_cast<uint32_t>(pair >> 32); }

  template <class Record>
  static Found read_record(const unsigned char* place, uint64_t number, Record* out) {
    const auto* record = reinterpret_cast<const Record*>(place);
    const uint64_t before = reading::load(record->commit);
    if (before == 0) return Found::busy;
    if (before != number) return before > number ? Found::later : Found::earlier;
    // Flags and plan before the words they vouch for: a launched record then always shows its plan, channels and launch
    // time.
    const uint8_t flags = reading::load(record->flags);
    const uint32_t plan = reading::load(record->plan);
    reading::load_words(record, out, sizeof(Record));
    out->flags = flags;
    out->plan = plan;
    return reading::load(record->commit) == number && out->commit == number ? Found::yes : Found::later;
  }

  Found read_row(uint32_t channel, uint32_t run, size_t row_offset, reading::Row16* out) const {
    if (channel >= channel_count_) return Found::earlier;
    const auto* row =
        reinterpret_cast<const unsigned char*>(&this->channel(channel)->rounds[run % rounds_max]) + row_offset;
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
      reading::Row16 read{};
      if (!load_stable(row, &read)) continue;
      const uint32_t found = low(read.low);
      if (found == 0 || distance(run, found) < 0) return Found::earlier;
      *out = read;
      return found == run ? Found::yes : Found::later;
    }
    return Found::busy;
  }

  static constexpr int attempts_max = 4;

  // The same bytes twice in a row are not a row in the middle of being stored.
  static bool load_stable(const void* address, reading::Row16* row) {
    *row = reading::load_row(address);
    return *row == reading::load_row(address);
  }

  const FrameHeader* header_ = nullptr;
  const unsigned char* operations_ = nullptr;
  const unsigned char* p2ps_ = nullptr;
  const unsigned char* proxies_ = nullptr;
  const unsigned char* proxy_times_ = nullptr;
  const unsigned char* channels_ = nullptr;
  uint32_t channel_count_ = 0;
  uint32_t ops_stride_ = 0, p2ps_stride_ = 0, proxies_stride_ = 0, proxy_times_stride_ = 0, channels_stride_ = 0;
};

// ---- what the lanes of one channel wait for ----------------------------------------------------------------------

// A lane of the kernel in question together with what two looks at it, some time apart, have shown.
struct LaneObservation {
  Lane lane{};
  Direction direction = Direction::recv;
  uint8_t index = 0;        // lane_index()
  bool lane_polls = false;  // its own poll_tick moved recently
  bool warps_poll = false;  // a warp of its group polled recently
  // filled in by derive_waits
  WaitKind wait = WaitKind::none;
  uint32_t want_step = 0;
  uint32_t seen_step = 0;
  bool certain = false;

  unsigned group() const { return index / lane_peers; }
  unsigned peer_index() const { return index % lane_peers; }
  uint32_t steps() const { return lane.current_step - lane.base_step; }
};

// `lanes`: all lanes of the kernel on one channel that has begun and not ended.
//
// A wait that the lane itself announces (Simple; sends of LL and LL128) counts while the wanted step is not reached and
// the lane polls. The receive loops of LL and LL128 announce nothing but that a warp polls: then every receive lane of
// the group may be the one that waits for its next step, unless another lane of the group announces that the group
// waits there. Simple announces every wait (`all_announced`): there nothing is derived.
inline void derive_waits(LaneObservation* lanes, size_t count, bool all_announced) {
  bool announced[lane_groups] = {};
  unsigned receivers[lane_groups] = {};
  for (size_t i = 0; i < count; ++i) {
    LaneObservation& o = lanes[i];
    const auto kind = static_cast<WaitKind>(o.lane.wait_kind);
    const bool known = kind == WaitKind::data || kind == WaitKind::credit;
    const bool explicit_wait = known && o.lane_polls && distance(o.lane.current_step, o.lane.want_step) > 0;
    o.wait = explicit_wait ? kind : WaitKind::none;
    o.want_step = explicit_wait ? o.lane.want_step : 0;
    o.seen_step = explicit_wait ? o.lane.seen_step : 0;
    o.certain = explicit_wait;
    announced[o.group() % lane_groups] |= explicit_wait;
    if (o.direction == Direction::recv) ++receivers[o.group() % lane_groups];
  }
  for (size_t i = 0; i < count && !all_announced; ++i) {
    LaneObservation& o = lanes[i];
    const unsigned group = o.group() % lane_groups;
    if (o.direction != Direction::recv || announced[group] || !o.warps_poll) continue;
    o.wait = WaitKind::data;
    o.want_step = o.lane.current_step + 1;
    o.seen_step = o.lane.current_step;
    o.certain = receivers[group] == 1;
  }
}

}  // namespace ccld::abi
