#include "benchmarks/gpu/visibility.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "benchmarks/gpu/frames.h"

namespace ccld::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t wrong_kept_max = 10;
// A look that has not seen the end by then never will: rows that are stored arrive within microseconds.
constexpr auto end_timeout = std::chrono::seconds(1);

// What is known of the kernels of one rank on one channel.
class ChannelReader {
 public:
  ChannelReader(const Frames& frames, int rank, uint32_t channel)
      : view_(frames.view(rank)),
        channel_(channel),
        who_("rank " + std::to_string(rank) + ", channel " + std::to_string(channel)) {
    run_ = view_.newest_run(channel);
  }

  void look(Visibility* seen) {
    ++seen->looks;
    abi::RoundBegin begin;
    switch (view_.read_begin(channel_, run_ + 1, &begin)) {
      case abi::Found::earlier: return;
      case abi::Found::busy: ++seen->refused; return;
      case abi::Found::later:
        seen->skipped += begin.run - run_ - 1;
        run_ = begin.run - 1;
        previous_end_ns_ = 0;
        return;
      case abi::Found::yes: break;
    }
    accept(seen, begin);
    abi::RoundEnd end;
    const abi::Found found = view_.read_end(channel_, begin.run, &end);
    if (found == abi::Found::busy) ++seen->refused;
    if (found == abi::Found::earlier) {
      ++seen->running;
      look_at_lanes(seen, begin.run);
    }
    if (found != abi::Found::yes) return;
    ++seen->accepted;
    if (end.flags != 0) wrong(seen, "has the flag of an abort", begin.run);
    previous_end_ns_ = begin.device_ns + end.duration_ns;
    look_at_counts(seen, begin.run);
    run_ = begin.run;
  }

 private:
  void wrong(Visibility* seen, const std::string& what, uint32_t run) {
    ++seen->wrong_total;
    if (seen->wrong.size() < wrong_kept_max) seen->wrong.push_back(who_ + ", run " + std::to_string(run) + ": " + what);
  }

  void accept(Visibility* seen, const abi::RoundBegin& begin) {
    ++seen->accepted;
    const uint32_t distance = begin.token - begin.run;
    if (!token_distance_) token_distance_ = distance;
    if (distance != *token_distance_) wrong(seen, "has the token of another run", begin.run);
    if (begin.device_ns < previous_end_ns_) wrong(seen, "begins before the run before it ends", begin.run);
  }

  void look_at_counts(Visibility* seen, uint32_t run) {
    abi::RoundCounts counts;
    const abi::Found found = view_.read_counts(channel_, run, &counts);
    if (found == abi::Found::busy) ++seen->refused;
    if (found != abi::Found::yes) return;
    ++seen->accepted;
    if (!counts_) counts_ = counts;
    if (counts.send_steps != counts_->send_steps || counts.recv_steps != counts_->recv_steps) {
      wrong(seen,
            std::to_string(counts.send_steps) + " steps sent and " + std::to_string(counts.recv_steps) +
                " received, others " + std::to_string(counts_->send_steps) + " and " +
                std::to_string(counts_->recv_steps),
            run);
    }
  }

  // While the kernel runs its endpoints show no more than it will have sent in the end.
  void look_at_lanes(Visibility* seen, uint32_t run) {
    if (!counts_) return;
    for (uint32_t i = 0; i < abi::lanes_per_direction; ++i) {
      abi::Lane lane;
      if (!view_.read_lane_of(channel_, abi::Direction::send, i, run, &lane)) continue;
      ++seen->accepted;
      if (lane.current_step - lane.base_step > counts_->send_steps) {
        wrong(seen, "an endpoint shows " + std::to_string(lane.current_step - lane.base_step) + " steps", run);
      }
    }
  }

  const abi::FrameView& view_;
  const uint32_t channel_;
  const std::string who_;
  uint32_t run_ = 0;
  uint64_t previous_end_ns_ = 0;
  std::optional<uint32_t> token_distance_;
  std::optional<abi::RoundCounts> counts_;
};

// The channels that the newest kernel of a rank ran on.
std::vector<uint32_t> channels_in_use(const abi::FrameView& view) {
  std::vector<uint32_t> channels;
  for (uint32_t channel = 0; channel < view.channel_count(); ++channel) {
    if (view.newest_run(channel) != 0) channels.push_back(channel);
  }
  if (channels.empty()) throw std::runtime_error("no kernel has written into the frame");
  return channels;
}

void read_while_running(Ranks& ranks, const Call& call, int operations, const Frames& frames, Visibility* seen) {
  std::vector<ChannelReader> readers;
  for (const Rank& rank : ranks.all()) {
    for (const uint32_t channel : channels_in_use(frames.view(rank.number)))
      readers.emplace_back(frames, rank.number, channel);
  }
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over.load(std::memory_order_relaxed)) {
      for (ChannelReader& each : readers) each.look(seen);
    }
  });
  try {
    for (int i = 0; i < operations; ++i) ranks.issue(call);
    ranks.wait();
  } catch (...) {
    over = true;
    reader.join();
    throw;
  }
  over = true;
  reader.join();
}

double us_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// Rank 0's kernel, on the channels that it used before.
double end_delay_us(const Rank& rank, const abi::FrameView& view, const std::vector<uint32_t>& channels,
                    const std::vector<uint32_t>& runs) {
  std::optional<Clock::time_point> done, seen;
  while (!done || !seen) {
    const auto now = Clock::now();
    if (!done) {
      const cudaError_t state = cudaStreamQuery(rank.stream);
      if (state != cudaErrorNotReady) CCLD_GPU_CHECK(state);
      if (state == cudaSuccess) done = now;
    }
    bool all_ended = true;
    for (size_t i = 0; i < channels.size() && all_ended; ++i) {
      abi::RoundEnd end;
      all_ended = view.read_end(channels[i], runs[i] + 1, &end) == abi::Found::yes;
    }
    if (all_ended && !seen) seen = now;
    if (done && !seen && now - *done > end_timeout) break;
  }
  return seen ? us_between(*done, *seen) : us_between(Clock::time_point(), Clock::time_point() + end_timeout);
}

}  // namespace

Visibility check_visibility(Ranks& ranks, const Call& call, int operations, const std::string& folder) {
  ranks.issue(call);
  ranks.wait();
  const Frames frames(folder);
  Visibility seen;
  read_while_running(ranks, call, operations, frames, &seen);
  const abi::FrameView& view = frames.view(0);
  const std::vector<uint32_t> channels = channels_in_use(view);
  for (; seen.operations < static_cast<uint64_t>(operations); ++seen.operations) {
    std::vector<uint32_t> runs;
    for (const uint32_t channel : channels) runs.push_back(view.newest_run(channel));
    ranks.issue(call);
    seen.ends_us.push_back(end_delay_us(ranks[0], view, channels, runs));
    ranks.wait();
  }
  return seen;
}

}  // namespace ccld::gpu
