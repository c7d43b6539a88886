// Follows the stream of runs of one channel: every kernel that ran there is told once and in order, with its exact
// times and counts, however short it was; what was overwritten before it could be read is told as a number and as sums.
//
// Contract
//   follow() reads until nothing more has happened. The sink's functions:
//     run_begun(channel, RoundBegin)
//     run_ended(channel, run, const RoundEnd*, const RoundCounts*)   null: overwritten or never written; counts also
//                                                                    where those of the run before are not known
//     runs_lost(channel, count, device_ns)                           runs without a row; the one behind them ended then
//     runs_summed(channel, RunSums)                                  runs whose counts are known as a sum only
//   Every run_begun is followed by one run_ended. With `thorough`, a run without an end is given up if its successor
//   has ended: kernels of one communicator run one after the other. An end may become visible before its begin: it is
//   told after it. Every run is told with its counts or is part of one RunSums, which comes as soon as the end of a
//   later run can be read.
//
// Threads: one at a time.
#pragma once

#include <cstdint>

#include "probe/agent/run_sums.h"
#include "schemas/abi/frame_reader.h"

namespace ccld::probe {

class RunFollower {
 public:
  uint32_t run() const { return run_; }  // that is running, or the next to run
  bool open() const { return open_; }    // it has begun and not ended

  template <class Sink>
  void follow(const abi::FrameView& frame, uint32_t channel, bool thorough, Sink& sink) {
    // Bounded: a GPU cannot start kernels as fast as their rows are read, but nothing here relies on it.
    for (unsigned step = 0; step < 4 * abi::rounds_max; ++step) {
      if (!open_ && !begin(frame, channel, sink)) return;
      if (open_ && !end(frame, channel, thorough, sink)) return;
    }
  }

 private:
  // The newest run whose end was read.
  struct Known {
    abi::RoundTotals totals;
    uint64_t end_device_ns = 0;  // 0: no run yet
  };

  // False: nothing new.
  template <class Sink>
  bool begin(const abi::FrameView& frame, uint32_t channel, Sink& sink) {
    abi::RoundBegin begin;
    switch (frame.read_begin(channel, run_, &begin)) {
      case abi::Found::yes:
        open_ = true;
        begin_device_ns_ = begin.device_ns;
        sink.run_begun(channel, begin);
        return true;
      case abi::Found::later: return skip_lost(frame, channel, begin.run, sink);
      case abi::Found::earlier:
      case abi::Found::busy: break;
    }
    return false;
  }

  // The place of run_ holds `newer`. Goes on with the oldest run whose end can still be read: its totals are those of
  // all that is lost, too. False: not now.
  template <class Sink>
  bool skip_lost(const abi::FrameView& frame, uint32_t channel, uint32_t newer, Sink& sink) {
    for (uint32_t oldest = newer - abi::rounds_max + 1; abi::distance(oldest, newer) > 0; ++oldest) {
      abi::RoundBegin begin;
      abi::RoundEnd end;
      if (frame.read_begin(channel, oldest, &begin) != abi::Found::yes ||
          frame.read_end(channel, oldest, &end) != abi::Found::yes)
        continue;
      sink.runs_lost(channel, oldest - run_, begin.device_ns + end.duration_ns);
      run_ = oldest;
      return true;
    }
    return false;  // the GPU has overwritten all of them meanwhile
  }

  template <class Sink>
  bool end(const abi::FrameView& frame, uint32_t channel, bool thorough, Sink& sink) {
    abi::RoundEnd end;
    const abi::Found found = frame.read_end(channel, run_, &end);
    if (found == abi::Found::yes) {
      close(channel, &end, sink);
      return true;
    }
    abi::RoundBegin next_begin;
    abi::RoundEnd next_end;
    if (found == abi::Found::later ||
        (thorough && frame.read_begin(channel, run_ + 1, &next_begin) == abi::Found::yes &&
         frame.read_end(channel, run_ + 1, &next_end) == abi::Found::yes)) {
      close(channel, nullptr, sink);
      return true;
    }
    return false;
  }

  template <class Sink>
  void close(uint32_t channel, const abi::RoundEnd* end, Sink& sink) {
    open_ = false;
    const uint32_t run = run_++;
    if (end == nullptr) {
      sink.run_ended(channel, run, nullptr, nullptr);
      return;
    }
    const uint64_t end_device_ns = begin_device_ns_ + end->duration_ns;
    const bool follows = known_.totals.run + 1 == run;
    const abi::RoundCounts counts = abi::counts_between(known_.totals, end->totals);
    sink.run_ended(channel, run, end, follows ? &counts : nullptr);
    if (follows)
      known_ = {end->totals, end_device_ns};
    else
      know(channel, end->totals, end_device_ns, sink);
  }

  // Tells the sums of all runs since the known one.
  template <class Sink>
  void know(uint32_t channel, const abi::RoundTotals& totals, uint64_t end_device_ns, Sink& sink) {
    const abi::RoundCounts counts = abi::counts_between(known_.totals, totals);
    RunSums sums;
    sums.runs = totals.run - known_.totals.run;
    sums.send_steps = counts.send_steps;
    sums.recv_steps = counts.recv_steps;
    sums.busy_ns = totals.busy_ns - known_.totals.busy_ns;
    // What ran before the first look began at most one rest of the thread ago.
    sums.busy_known = known_.end_device_ns == 0 || end_device_ns - known_.end_device_ns <= UINT32_MAX;
    known_ = {totals, end_device_ns};
    sink.runs_summed(channel, sums);
  }

  uint32_t run_ = 1;
  bool open_ = false;
  uint64_t begin_device_ns_ = 0;  // of `run_`, if it is open
  Known known_;
};

}  // namespace ccld::probe
