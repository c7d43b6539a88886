// What a running workload tells its launcher: one mapped file with a line per rank, readable at any time by anyone.
//
// Contract
//   The file is created by whoever comes first (all write the same size; zero means "not yet"). A 128-byte header is
//   followed by one 128-byte slot per rank. Each slot has one writer, its rank; each word of the header has one, rank 0
//   or the launcher. All words are 64 bit, little-endian, relaxed: every word is meaningful alone.
//   test/support/run/board.py has the same layout.
// Units: rounds from 1; times are CLOCK_MONOTONIC nanoseconds.
// Errors: the constructor throws std::runtime_error with one line.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace ccld::workload {

enum class RankState : uint64_t { absent = 0, starting = 1, ready = 2, finished = 3, failed = 4 };

struct alignas(128) BoardHeader {
  // Rounds that rank 0 has released. No rank starts a later one: when rank 0 stops releasing, all ranks end with the
  // same round, however far some of them ran ahead.
  std::atomic<uint64_t> released_rounds;
  // The launcher's word: no rank starts this round or a later one while it stands here; 0: none is held. What is
  // planted meanwhile is there from the first moment of this round on.
  std::atomic<uint64_t> held_round;
  // The launcher's word: not 0: rank 0 releases no more, so a job without an end of its own ends well.
  std::atomic<uint64_t> enough;
};

struct alignas(128) BoardSlot {
  std::atomic<uint64_t> state;  // RankState
  std::atomic<uint64_t> pid;
  std::atomic<uint64_t> entered_round;    // the round whose operation was about to be called last
  std::atomic<uint64_t> completed_round;  // the round whose operation completed last
  std::atomic<uint64_t> wrong_results;    // rounds whose result was checked and wrong
  std::atomic<uint64_t> checked_results;
  std::atomic<uint64_t> fault_text_version;  // how many texts of the fault file were read
  std::atomic<uint64_t> fault_applications;  // how often a fault of the file changed what this rank does
  std::atomic<uint64_t> fault_first_ns;      // when that happened first
  std::atomic<uint64_t> longest_round_ns;
};
static_assert(sizeof(BoardHeader) == 128 && sizeof(BoardSlot) == 128);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class StatusBoard {
 public:
  StatusBoard(const std::string& path, int rank_count);
  ~StatusBoard();
  StatusBoard(const StatusBoard&) = delete;
  StatusBoard& operator=(const StatusBoard&) = delete;

  BoardHeader& header() { return *static_cast<BoardHeader*>(memory_); }
  BoardSlot& slot(int rank) {
    return reinterpret_cast<BoardSlot*>(static_cast<char*>(memory_) + sizeof(BoardHeader))[rank];
  }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

uint64_t monotonic_ns();

}  // namespace ccld::workload
