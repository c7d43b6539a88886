// Follows the stream of runs of one channel: every kernel that ran there is told once and in order, with its exact
// times and counts, however short it was; what was overwritten before it could be read is told as a number.
//
// Contract
//   follow() reads until nothing more has happened. The sink's functions:
//     run_begun(channel, RoundBegin)
//     run_ended(channel, run, const RoundEnd*, const RoundCounts*)   null: overwritten, or never written
//     runs_lost(channel, count)                                      runs of which nothing is known
//   Every run_begun is followed by one run_ended. With `thorough`, a run without an end is given up if its successor
//   has ended: kernels of one communicator run one after the other. Rows of one run become visible in any order: an end
//   whose counts are not to be seen yet is told in a later call.
//
// Threads: one at a time.
#pragma once

#include <cstdint>

#include "schemas/abi/frame_reader.h"

namespace ccld::probe {

// Calls in which the counts of a run that has ended are looked for in vain: they take microseconds, so they were never
// written.
constexpr unsigned counts_looks_max = 8;

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
  // False: nothing new.
  template <class Sink>
  bool begin(const abi::FrameView& frame, uint32_t channel, Sink& sink) {
    abi::RoundBegin begin;
    switch (frame.read_begin(channel, run_, &begin)) {
      case abi::Found::yes:
        open_ = true;
        sink.run_begun(channel, begin);
        return true;
      case abi::Found::later: {
        // Its place holds a run that many later: the oldest that may still be there is the one behind it.
        const uint32_t oldest = begin.run - abi::rounds_max + 1;
        sink.runs_lost(channel, oldest - run_);
        run_ = oldest;
        return true;
      }
      case abi::Found::earlier:
      case abi::Found::busy: break;
    }
    return false;
  }

  template <class Sink>
  bool end(const abi::FrameView& frame, uint32_t channel, bool thorough, Sink& sink) {
    abi::RoundEnd end;
    const abi::Found found = frame.read_end(channel, run_, &end);
    if (found == abi::Found::yes) {
      abi::RoundCounts counts;
      const bool counted = read_counts(frame, channel, &counts);
      if (!counted && await_counts(frame, channel)) return false;
      close(channel, &end, counted || read_counts(frame, channel, &counts) ? &counts : nullptr, sink);
      return true;
    }
    abi::RoundBegin next_begin;
    abi::RoundEnd next_end;
    if (found == abi::Found::later ||
        (thorough && frame.read_begin(channel, run_ + 1, &next_begin) == abi::Found::yes &&
         frame.read_end(channel, run_ + 1, &next_end) == abi::Found::yes)) {
      close(channel, nullptr, nullptr, sink);
      return true;
    }
    return false;
  }

  bool read_counts(const abi::FrameView& frame, uint32_t channel, abi::RoundCounts* counts) const {
    return frame.read_counts(channel, run_, counts) == abi::Found::yes;
  }

  // Whether the counts, which are not to be seen, may still come. What a kernel has stored is visible before its
  // successor begins.
  bool await_counts(const abi::FrameView& frame, uint32_t channel) {
    abi::RoundBegin next;
    const abi::Found found = frame.read_begin(channel, run_ + 1, &next);
    return found != abi::Found::yes && found != abi::Found::later && ++counts_looks_ < counts_looks_max;
  }

  template <class Sink>
  void close(uint32_t channel, const abi::RoundEnd* end, const abi::RoundCounts* counts, Sink& sink) {
    open_ = false;
    counts_looks_ = 0;
    const uint32_t run = run_++;
    sink.run_ended(channel, run, end, counts);
  }

  uint32_t run_ = 1;
  bool open_ = false;
  unsigned counts_looks_ = 0;  // in vain, after the end of `run_` was seen
};

}  // namespace ccld::probe
