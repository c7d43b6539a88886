#include "test/support/workload/rounds.h"

#include <chrono>
#include <thread>

namespace ccld::workload {
namespace {

// How far other ranks may be ahead of rank 0. Small roots of broadcasts run ahead a little; nobody waits in practice.
constexpr uint64_t release_ahead_rounds = 16;
constexpr auto board_poll_interval = std::chrono::microseconds(200);

}  // namespace

bool Rounds::released(uint64_t round) {
  wait_while_held(round);
  auto& word = board_.header().released_rounds;
  if (options_.seconds <= 0) return round <= planned_;
  const bool over = seconds() >= options_.seconds || board_.header().enough.load() != 0;
  if (options_.rank == 0 && (!over || word.load() == 0)) word.store(round + release_ahead_rounds);
  while (round > word.load()) {
    if (options_.rank == 0 || no_more_is_released()) return false;
    std::this_thread::sleep_for(board_poll_interval);
  }
  return true;
}

void Rounds::wait_while_held(uint64_t round) {
  const auto& held = board_.header().held_round;
  for (uint64_t first = held.load(); first != 0 && round >= first; first = held.load())
    std::this_thread::sleep_for(board_poll_interval);
}

// Rank 0 releases rounds ahead of its own, so it has completed all that it released only when it wants no more. The
// order matters: its progress is read before its word, which may have moved on in between.
bool Rounds::no_more_is_released() {
  BoardSlot& first = board_.slot(0);
  if (first.state.load() >= uint64_t(RankState::finished)) return true;
  const uint64_t completed = first.completed_round.load();
  return completed != 0 && completed == board_.header().released_rounds.load();
}

}  // namespace ccld::workload
