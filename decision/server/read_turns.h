// Who reads the history keeps a thread of the query API for as long as the disk takes. A disk that hangs would keep
// them all, and nothing would be answered any more. So few read at a time; others wait for their turn a moment, and not
// at all while one has read for longer.
//
// Contract: take() comes back after `patience` at the latest. Threads: any.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "decision/model/types.h"

namespace ccld::decision::server {

class ReadTurns {
 public:
  // One less than the threads that each client address may hold: the fourth answers what is no matter of the disk.
  static constexpr size_t readers_max = 3;

  // A read takes milliseconds; commands wait some seconds for an answer.
  explicit ReadTurns(absl::Duration patience = absl::Seconds(2)) : patience_(patience) {}
  ReadTurns(const ReadTurns&) = delete;

  // Lasts as long as the read.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)), place_(other.place_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->end(place_);
    }

   private:
    friend class ReadTurns;
    Turn(ReadTurns* turns, size_t place) : turns_(turns), place_(place) {}
    ReadTurns* turns_;
    size_t place_;
  };

  // Nothing: the disk hangs.
  std::optional<Turn> take();

 private:
  bool hangs(Nanoseconds now_ns) const;
  std::optional<size_t> free_place() const;
  void end(size_t place);

  const absl::Duration patience_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::array<std::optional<Nanoseconds>, readers_max> since_ns_;  // those who read
};

}  // namespace ccld::decision::server
