#include "decision/model/round_cells.h"

#include <algorithm>

namespace ccld::decision {
namespace {

uint64_t block_of(OpSeq op) { return op.value / RoundCells::block_rounds; }
size_t place_of(OpSeq op) { return op.value % RoundCells::block_rounds; }
uint16_t bounded(uint32_t n) { return static_cast<uint16_t>(std::min<uint32_t>(n, UINT16_MAX)); }

}  // namespace

std::vector<RoundCells::Block>::iterator RoundCells::find(uint64_t number) {
  // Mostly one of the newest.
  auto it = blocks_.end();
  while (it != blocks_.begin() && (it - 1)->number >= number) --it;
  return it;
}

RoundCells::Cell* RoundCells::open(OpSeq op) {
  auto it = find(block_of(op));
  if (it == blocks_.end() || it->number != block_of(op)) {
    if (blocks_.size() == blocks_.capacity()) {  // many communicators are small: no room to spare
      const auto at = it - blocks_.begin();
      blocks_.reserve(blocks_.size() + blocks_.size() / 4 + 2);
      it = blocks_.begin() + at;
    }
    it = blocks_.insert(it, Block{block_of(op), 0, std::move(spare_)});
    spare_ = {};
    it->cells.clear();  // so that what is resized is zero
    it->cells.resize(pages_.slots() * block_rounds);
  }
  ++it->rounds;
  return it->cells.data() + place_of(op);
}

void RoundCells::close(OpSeq op) {
  const auto it = find(block_of(op));
  if (--it->rounds > 0) return;
  if (it->cells.size() > spare_.size()) std::swap(spare_, it->cells);
  blocks_.erase(it);
}

RoundCells::Cell* RoundCells::at(OpSeq op) { return find(block_of(op))->cells.data() + place_of(op); }

bool RoundCells::grow(size_t rank, size_t ranks) {
  if (!pages_.add(rank, ranks)) return false;
  for (Block& b : blocks_) b.cells.resize(pages_.slots() * block_rounds);
  return true;
}

void RoundCells::pack(const RoundCell& c, Cell& p) {
  p.begin_low = static_cast<uint32_t>(c.begin_device_ns);
  p.begin_high = static_cast<uint32_t>(c.begin_device_ns >> 32);
  p.duration_ns = static_cast<float>(c.duration_ns());
  p.gap_ns = static_cast<float>(c.gap_ns);
  p.send_changes = bounded(c.send_changes);
  p.recv_changes = bounded(c.recv_changes);
  p.kernel_operations = bounded(c.kernel_operations);
  p.flags = static_cast<uint8_t>(reported_flag | (c.timed ? timed_flag : 0));
}

void RoundCells::unpack(const Cell& p, RoundCell& c) {
  c.begin_device_ns = uint64_t{p.begin_high} << 32 | p.begin_low;
  c.end_device_ns = c.begin_device_ns + static_cast<uint64_t>(p.duration_ns);
  c.gap_ns = static_cast<Nanoseconds>(p.gap_ns);
  c.send_changes = p.send_changes;
  c.recv_changes = p.recv_changes;
  c.kernel_operations = p.kernel_operations;
  c.group = p.group == 0 ? RoundCell::no_group : static_cast<uint8_t>(p.group - 1);
  c.reported = p.reported();
  c.timed = (p.flags & timed_flag) != 0;
}

void RoundCells::prefetch(OpSeq op, size_t rank) const {
  const size_t slot = pages_.slot(rank);
  if (slot == RankPages::none) return;
  for (size_t i = blocks_.size(); i-- > 0 && blocks_[i].number >= block_of(op);) {
    if (blocks_[i].number != block_of(op)) continue;
    const char* const from = reinterpret_cast<const char*>(blocks_[i].cells.data() + slot * block_rounds);
    constexpr size_t line = 64;
    for (size_t at = 0; at < block_rounds * sizeof(Cell) + line; at += line) __builtin_prefetch(from + at, 1);
  }
}

}  // namespace ccld::decision
