#include "decision/model/round_history.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "decision/model/names.h"

namespace ccld::decision {

const char* name(SignatureField f) {
  switch (f) {
    case SignatureField::none: return "none";
    case SignatureField::function: return "function";
    case SignatureField::count: return "count";
    case SignatureField::datatype: return "datatype";
    case SignatureField::reduction: return "reduction";
    case SignatureField::root: return "root";
    case SignatureField::algorithm: return "algorithm";
    case SignatureField::protocol: return "protocol";
    case SignatureField::channels: return "channels";
  }
  return "?";
}

SignatureField difference(const Signature& a, const Signature& b) {
  if (a.function != b.function) return SignatureField::function;
  switch (a.function) {
    case abi::Function::send:
    case abi::Function::recv:
    case abi::Function::all_gather_v:
    case abi::Function::other: return SignatureField::none;
    default: break;
  }
  if (a.count != b.count) return SignatureField::count;
  if (a.datatype != b.datatype) return SignatureField::datatype;
  if (a.reduction != b.reduction) return SignatureField::reduction;
  if (a.root != b.root) return SignatureField::root;
  if (a.algorithm != b.algorithm && a.algorithm != abi::Algorithm::unknown && b.algorithm != abi::Algorithm::unknown)
    return SignatureField::algorithm;
  if (a.protocol != b.protocol && a.protocol != abi::Protocol::unknown && b.protocol != abi::Protocol::unknown)
    return SignatureField::protocol;
  if (a.channels != b.channels && a.channels != 0 && b.channels != 0) return SignatureField::channels;
  return SignatureField::none;
}

std::string field_text(const Signature& s, SignatureField f) {
  switch (f) {
    case SignatureField::none: return "";
    case SignatureField::function: return name(s.function);
    case SignatureField::count: return absl::StrCat(s.count);
    case SignatureField::datatype: return name(s.datatype);
    case SignatureField::reduction: return name(s.reduction);
    case SignatureField::root: return absl::StrCat(s.root);
    case SignatureField::algorithm: return name(s.algorithm);
    case SignatureField::protocol: return name(s.protocol);
    case SignatureField::channels: return absl::StrCat(s.channels);
  }
  return "";
}

const SignatureGroup* RoundEntry::majority() const {
  const SignatureGroup* best = nullptr;
  bool tie = false;
  for (const SignatureGroup& g : groups) {
    if (best && g.ranks == best->ranks) tie = true;
    if (!best || g.ranks > best->ranks) best = &g, tie = false;
  }
  return tie ? nullptr : best;
}

const Signature* RoundEntry::signature() const {
  const SignatureGroup* best = nullptr;
  for (const SignatureGroup& g : groups)
    if (!best || g.ranks > best->ranks) best = &g;
  return best ? &best->signature : nullptr;
}

uint32_t RoundEntry::signed_ranks() const {
  uint32_t n = 0;
  for (const SignatureGroup& g : groups) n += g.ranks;
  return n;
}

namespace {

enum CellFlag : uint8_t { cell_reported = 1, cell_timed = 2, cell_has_queued = 4 };

// Many small communicators: a vector of twice the size that is needed would be most of their memory.
template <class T>
void make_room(std::vector<T>& v) {
  if (v.size() == v.capacity()) v.reserve(v.size() + v.size() / 8 + 4);
}

uint16_t bounded(uint32_t n) { return static_cast<uint16_t>(std::min<uint32_t>(n, UINT16_MAX)); }

}  // namespace

// ---- rows, blocks and cells ------------------------------------------------------------------------------------------

size_t RoundHistory::row_index(OpSeq op) const {
  const size_t n = rows_.size();
  for (size_t guess : {hint_, hint_ + 1})
    if (guess < n && rows_[guess].op == op) return hint_ = guess;
  if (n == 0 || op <= rows_.front().op) return 0;
  if (op > rows_.back().op) return n;
  // Numbers are hardly ever left out.
  const uint64_t dense = op.value - rows_.front().op.value;
  if (dense < n && rows_[dense].op == op) return hint_ = dense;
  const auto it = std::lower_bound(rows_.begin(), rows_.end(), op, [](const Row& r, OpSeq o) { return r.op < o; });
  return hint_ = static_cast<size_t>(it - rows_.begin());
}

RoundHistory::Row* RoundHistory::row_at(OpSeq op) const {
  const size_t i = row_index(op);
  return i < rows_.size() && rows_[i].op == op ? const_cast<Row*>(&rows_[i]) : nullptr;
}

RoundHistory::Cell& RoundHistory::cell(const Row& row, Rank rank) const {
  return row.block->cells[static_cast<size_t>(rank.value) * block_rounds + row.op.value % block_rounds];
}

const RoundHistory::Settled* RoundHistory::settled_at(OpSeq op) const {
  if (settled_.empty() || op > settled_.back().op) return nullptr;
  const auto it =
      std::lower_bound(settled_.begin(), settled_.end(), op, [](const Settled& s, OpSeq o) { return s.op < o; });
  return it != settled_.end() && it->op == op ? &*it : nullptr;
}

RoundHistory::Block* RoundHistory::new_block() {
  if (free_blocks_.empty()) {
    blocks_.push_back(std::make_unique<Block>());
  } else {
    blocks_.push_back(std::move(free_blocks_.back()));
    free_blocks_.pop_back();
    blocks_.back()->cells.clear();  // so that what is resized is zero
  }
  return blocks_.back().get();
}

void RoundHistory::release(Row& row) {
  Block* const block = row.block;
  row.block = nullptr;
  if (!block || --block->rows > 0) return;
  const auto it = std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& b) { return b.get() == block; });
  if (free_blocks_.size() < blocks_free_max) free_blocks_.push_back(std::move(*it));
  blocks_.erase(it);
}

RoundHistory::Row* RoundHistory::touch(OpSeq op, Rank rank) {
  if (op.value == 0 || op.value <= floor_ || rank.value < 0) return nullptr;
  size_t i = row_index(op);
  if (i == rows_.size() || rows_[i].op != op) {
    if (settled_at(op)) return nullptr;
    Row row;
    row.op = op;
    const auto same_block = [&](size_t at) {
      return at < rows_.size() && rows_[at].op.value / block_rounds == op.value / block_rounds;
    };
    row.block = same_block(i) ? rows_[i].block : i > 0 && same_block(i - 1) ? rows_[i - 1].block : new_block();
    ++row.block->rows;
    make_room(rows_);
    rows_.insert(rows_.begin() + static_cast<std::ptrdiff_t>(i), std::move(row));
    trim();
    if (op.value <= floor_) return nullptr;  // it was itself the oldest of too many
    i = row_index(op);
  }
  Row& row = rows_[i];
  if (row.taken) return nullptr;
  const size_t cells = block_rounds * (static_cast<size_t>(rank.value) + 1);
  if (row.block->cells.size() < cells)
    row.block->cells.resize(std::max(cells, block_rounds * static_cast<size_t>(rank_count_)));
  return &row;
}

RoundHistory::Cell RoundHistory::pack(const RoundCell& c, Rank rank) {
  const size_t r = static_cast<size_t>(rank.value);
  if (queued_origin_.size() <= r) queued_origin_.resize(std::max<size_t>(r + 1, static_cast<size_t>(rank_count_)));
  if (c.has_queued && queued_origin_[r] == 0) queued_origin_[r] = c.queued_ns;
  Cell p{};
  p.begin_low = static_cast<uint32_t>(c.begin_device_ns);
  p.begin_high = static_cast<uint32_t>(c.begin_device_ns >> 32);
  p.duration_ns = static_cast<float>(c.duration_ns());
  p.gap_ns = static_cast<float>(c.gap_ns);
  p.queued_ns = c.has_queued ? static_cast<float>(c.queued_ns - queued_origin_[r]) : 0;
  p.send_changes = bounded(c.send_changes);
  p.recv_changes = bounded(c.recv_changes);
  p.kernel_operations = bounded(c.kernel_operations);
  p.flags = static_cast<uint8_t>(cell_reported | (c.timed ? cell_timed : 0) | (c.has_queued ? cell_has_queued : 0));
  return p;
}

void RoundHistory::unpack(const Cell& p, size_t rank, RoundCell& c) const {
  c.begin_device_ns = uint64_t{p.begin_high} << 32 | p.begin_low;
  c.end_device_ns = c.begin_device_ns + static_cast<uint64_t>(p.duration_ns);
  c.gap_ns = static_cast<Nanoseconds>(p.gap_ns);
  c.has_queued = (p.flags & cell_has_queued) != 0;
  c.queued_ns = c.has_queued ? queued_origin_[rank] + static_cast<Nanoseconds>(p.queued_ns) : 0;
  c.send_changes = p.send_changes;
  c.recv_changes = p.recv_changes;
  c.kernel_operations = p.kernel_operations;
  c.group = p.group == 0 ? RoundCell::no_group : static_cast<uint8_t>(p.group - 1);
  c.reported = (p.flags & cell_reported) != 0;
  c.timed = (p.flags & cell_timed) != 0;
}

void RoundHistory::fill(const Row& row, bool with_cells, RoundEntry& e) const {
  e.op = row.op;
  e.replay = 0;
  e.reported = row.reported;
  e.mismatch_ns = row.extra ? row.extra->mismatch_ns : 0;
  e.groups.clear();
  for (size_t g = 0; g < group_count(row); ++g) e.groups.push_back(group(const_cast<Row&>(row), g));
  e.cells.resize(with_cells ? row.block->cells.size() / block_rounds : 0);
  const Cell* from = row.block->cells.data() + row.op.value % block_rounds;
  for (size_t r = 0; r < e.cells.size(); ++r, from += block_rounds) unpack(*from, r, e.cells[r]);
}

// ---- signatures ------------------------------------------------------------------------------------------------------

RoundHistory::Extra& RoundHistory::extra(Row& row) {
  if (!row.extra) row.extra = std::make_unique<Extra>();
  return *row.extra;
}

size_t RoundHistory::group_count(const Row& row) {
  return row.extra && !row.extra->groups.empty() ? row.extra->groups.size() : row.signed_ ? 1 : 0;
}

SignatureGroup& RoundHistory::group(Row& row, size_t g) {
  return row.extra && !row.extra->groups.empty() ? row.extra->groups[g] : row.first;
}

const Signature* RoundHistory::main_signature(const Row& row) {
  const SignatureGroup* best = nullptr;
  for (size_t g = 0; g < group_count(row); ++g) {
    const SignatureGroup& other = group(const_cast<Row&>(row), g);
    if (!best || other.ranks > best->ranks) best = &other;
  }
  return best ? &best->signature : nullptr;
}

void RoundHistory::assign(Row& row, Rank rank, const Signature& s, Nanoseconds now_ns) {
  if (s.function == abi::Function::unknown) return;
  Cell& own = cell(row, rank);
  const bool only_group = row.signed_ && (!row.extra || row.extra->groups.empty());
  if (!only_group || !(row.first.signature == s)) return assign_slowly(row, own, s, now_ns);
  row.first.ranks += own.group == 0 ? 1 : 0;
  own.group = 1;
}

void RoundHistory::assign_slowly(Row& row, Cell& own, const Signature& s, Nanoseconds now_ns) {
  // A later report knows more (algorithm, protocol, channels): it may complete its group or leave it.
  if (own.group != 0) {
    SignatureGroup& known = group(row, own.group - 1);
    if (difference(known.signature, s) != SignatureField::none) {
      --known.ranks;
      own.group = 0;
    }
  }
  size_t g = 0;
  if (own.group != 0) {
    g = own.group - 1;
  } else {
    const size_t count = group_count(row);
    while (g < count && difference(group(row, g).signature, s) != SignatureField::none) ++g;
    if (g == count) {
      if (g + 1 >= RoundCell::no_group) return;
      if (count == 0) {
        row.first = {s, 0};
        row.signed_ = true;
      } else {
        std::vector<SignatureGroup>& groups = extra(row).groups;
        if (groups.empty()) groups.push_back(row.first);
        groups.push_back({s, 0});
      }
    }
    ++group(row, g).ranks;
    own.group = static_cast<uint8_t>(g + 1);
  }
  Signature& known = group(row, g).signature;
  if (known.algorithm == abi::Algorithm::unknown) known.algorithm = s.algorithm;
  if (known.protocol == abi::Protocol::unknown) known.protocol = s.protocol;
  if (known.channels == 0) known.channels = s.channels;
  size_t used = 0;
  for (size_t i = 0; i < group_count(row); ++i) used += group(row, i).ranks > 0;
  if (used > 1 && extra(row).mismatch_ns == 0) {
    row.extra->mismatch_ns = now_ns;
    mismatched_.insert(std::lower_bound(mismatched_.begin(), mismatched_.end(), row.op), row.op);
  }
}

void RoundHistory::signature(OpSeq op, Rank rank, const Signature& s, Nanoseconds now_ns) {
  if (Row* row = touch(op, rank)) assign(*row, rank, s, now_ns);
}

// ---- rounds ----------------------------------------------------------------------------------------------------------

void RoundHistory::set_rank_count(int rank_count) {
  if (rank_count == rank_count_) return;
  rank_count_ = rank_count;
  for (Row& row : rows_) check_complete(row);
}

void RoundHistory::round(OpSeq op, Rank rank, const Signature& s, const RoundCell& reported, Nanoseconds now_ns) {
  Row* row = touch(op, rank);
  if (!row) return;
  if ((cell(*row, rank).flags & cell_reported) != 0) return;
  assign(*row, rank, s, now_ns);
  Cell& own = cell(*row, rank);
  const uint8_t group = own.group;
  own = pack(reported, rank);
  own.group = group;
  ++row->reported;
  check_complete(*row);
}

void RoundHistory::link(Rank rank, const LinkStages& stages) {
  Row* row = row_at(stages.op);
  if (!row || row->taken) return;
  std::vector<std::pair<Rank, LinkStages>>& links = extra(*row).links;
  const size_t ranks = row->block->cells.size() / block_rounds;
  if (links.size() < std::min<size_t>(64 * std::max<size_t>(ranks, 1), settings_.round_cells_max))
    links.emplace_back(rank, stages);
}

void RoundHistory::check_complete(Row& row) {
  if (row.complete || rank_count_ == 0 || row.reported < static_cast<uint32_t>(rank_count_)) return;
  row.complete = true;
  complete_.push_back(row.op);
}

void RoundHistory::visit_complete(absl::FunctionRef<void(const RoundEntry&)> visit) {
  if (complete_.empty()) return;
  // As large as the largest communicator: one for all of them.
  static thread_local RoundEntry entry;
  std::sort(complete_.begin(), complete_.end());
  for (OpSeq op : complete_) {
    Row* row = row_at(op);
    if (!row || row->taken) continue;
    fill(*row, true, entry);
    if (row->extra) entry.links = std::move(row->extra->links);
    visit(entry);
    entry.links = {};
    row->taken = true;
    ++taken_rows_;
    ++rounds_;
  }
  complete_.clear();
  // Where all agree, the signature is all that stays.
  for (Row& row : rows_) {
    if (!row.taken || (row.extra && row.extra->mismatch_ns != 0) || !row.signed_) continue;
    const Settled settled{row.op, row.first.signature};
    make_room(settled_);
    if (settled_.empty() || settled_.back().op < row.op)
      settled_.push_back(settled);
    else
      settled_.insert(std::lower_bound(settled_.begin(), settled_.end(), row.op,
                                       [](const Settled& s, OpSeq o) { return s.op < o; }),
                      settled);
    release(row);
    --taken_rows_;
  }
  std::erase_if(rows_, [](const Row& row) { return row.block == nullptr; });
  trim();
}

std::vector<RoundEntry> RoundHistory::take_complete() {
  std::vector<RoundEntry> out;
  visit_complete([&](const RoundEntry& e) { out.push_back(e); });
  return out;
}

// ---- bounds ----------------------------------------------------------------------------------------------------------

void RoundHistory::drop_oldest_row() {
  Row& row = rows_.front();
  floor_ = row.op.value;
  if (row.taken)
    --taken_rows_;
  else
    ++evicted_;
  std::erase(mismatched_, row.op);
  release(row);
  rows_.erase(rows_.begin());
  hint_ = 0;
}

void RoundHistory::trim() {
  const size_t ranks = std::max(rank_count_, 1);
  const size_t kept_max = std::max<size_t>(8, settings_.rounds_kept_max);
  const size_t rows_max = std::max<size_t>(8, std::min<size_t>(kept_max, settings_.round_cells_max / ranks));
  size_t settled = settled_.size();  // of them, the newest stay
  while (!rows_.empty() || settled > 0) {
    const OpSeq oldest_settled = settled > 0 ? settled_[settled_.size() - settled].op : OpSeq{};
    const bool is_row = !rows_.empty() && (settled == 0 || rows_.front().op < oldest_settled);
    const bool over = rows_.size() > rows_max || rows_.size() + settled > kept_max;
    const bool is_taken = !is_row || rows_.front().taken;
    if (!over && !(is_taken && settled + taken_rows_ > settled_kept)) break;
    if (is_row) {
      drop_oldest_row();
    } else {
      floor_ = oldest_settled.value;
      --settled;
    }
  }
  settled_.erase(settled_.begin(), settled_.end() - static_cast<std::ptrdiff_t>(settled));
}

void RoundHistory::settle(OpSeq op) { std::erase(mismatched_, op); }

// ---- questions -------------------------------------------------------------------------------------------------------

OpSeq RoundHistory::oldest() const {
  if (rows_.empty()) return settled_.empty() ? OpSeq{} : settled_.front().op;
  return settled_.empty() ? rows_.front().op : std::min(rows_.front().op, settled_.front().op);
}

const RoundEntry* RoundHistory::find(OpSeq op) const {
  const Row* row = row_at(op);
  if (!row) return nullptr;
  fill(*row, row->extra && row->extra->mismatch_ns != 0, found_);
  return &found_;
}

const Signature* RoundHistory::signature_at(OpSeq op) const {
  if (const Row* row = row_at(op)) return main_signature(*row);
  const Settled* settled = settled_at(op);
  return settled ? &settled->signature : nullptr;
}

const Signature* RoundHistory::signature_of(OpSeq op, Rank rank) const {
  Row* row = row_at(op);
  if (!row) {
    const Settled* settled = settled_at(op);  // all ranks agreed
    return settled ? &settled->signature : nullptr;
  }
  if (rank.value < 0 || static_cast<size_t>(rank.value) >= row->block->cells.size() / block_rounds) return nullptr;
  const uint8_t g = cell(*row, rank).group;
  return g == 0 ? nullptr : &group(*row, g - 1).signature;
}

}  // namespace ccld::decision
