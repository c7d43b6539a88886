// What ranks measured of the rounds that wait for further ranks, in little memory and few cache lines: 28 bytes for a
// rank and round; times are kept in 32-bit floats, exact to less than a ten-millionth. Cells of one rank and 8
// consecutive rounds lie side by side, as they arrive.
//
// Contract: plain state, not thread-safe. Pointers to cells are valid until grow() returns true or the round is closed.
#pragma once

#include <vector>

#include "decision/model/rank_pages.h"
#include "decision/model/round_entry.h"

namespace ccld::decision {

class RoundCells {
 public:
  static constexpr size_t block_rounds = 8;

  struct Cell {
    uint32_t begin_low, begin_high;        // RoundCell::begin_device_ns
    float duration_ns, gap_ns;
    uint16_t send_changes, recv_changes, kernel_operations;
    uint8_t group;  // of RoundEntry::groups, plus 1; 0: none
    uint8_t flags;
    bool reported() const { return (flags & reported_flag) != 0; }
  };
  static_assert(sizeof(Cell) == 24);
  static Cell& of(Cell* round, size_t slot) { return round[slot * block_rounds]; }

  // A round is to be kept; its cells, of slot 0 first, are nothing yet.
  Cell* open(OpSeq);
  void close(OpSeq);
  Cell* at(OpSeq);                         // of a round that is open
  // Which ranks have a slot: those that have spoken, and their neighbours.
  const RankPages& pages() const { return pages_; }
  // A slot for this rank, of so many in all as far as known; true: all cells have moved.
  bool grow(size_t rank, size_t ranks);

  // The cell keeps its group.
  static void pack(const RoundCell&, Cell&);
  static void unpack(const Cell&, RoundCell&);

  // The rank is about to report this round and those around it.
  void prefetch(OpSeq, size_t rank) const;

 private:
  static constexpr uint8_t reported_flag = 1, timed_flag = 2;
  // Of all slots, for block_rounds consecutive operations; by slot, then by operation.
  struct Block {
    uint64_t number;
    uint32_t rounds;  // that are open
    std::vector<Cell> cells;
  };
  std::vector<Block>::iterator find(uint64_t number);

  RankPages pages_;
  std::vector<Block> blocks_;           // by number
  std::vector<Cell> spare_;             // of a block that is over
};

}  // namespace ccld::decision
