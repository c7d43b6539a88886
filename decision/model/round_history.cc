#include "decision/model/round_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ccld::decision {
namespace {

// Many small communicators: a vector of twice the size that is needed would be most of their memory.
template <class T>
void make_room(std::vector<T>& v) {
  if (v.size() == v.capacity()) v.reserve(v.size() + v.size() / 8 + 4);
}

}  // namespace

// ---- rows
// ------------------------------------------------------------------------------------------------------------

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

const RoundHistory::Settled* RoundHistory::settled_at(OpSeq op) const {
  if (settled_.empty() || op > settled_.back().op) return nullptr;
  const auto it =
      std::lower_bound(settled_.begin(), settled_.end(), op, [](const Settled& s, OpSeq o) { return s.op < o; });
  return it != settled_.end() && it->op == op ? &*it : nullptr;
}

void RoundHistory::release(Row& row) {
  row.cells = nullptr;
  cells_.close(row.op);
}

RoundHistory::Row* RoundHistory::touch(OpSeq op, Rank rank) {
  if (op.value == 0 || op.value <= floor_ || rank.value < 0) return nullptr;
  const auto index = static_cast<size_t>(rank.value);
  ranks_ = std::max(ranks_, index + 1);
  if (cells_.pages().slot(index) == RankPages::none && cells_.grow(index, static_cast<size_t>(rank_count_)))
    for (Row& row : rows_) row.cells = cells_.at(row.op);
  size_t i = row_index(op);
  if (i == rows_.size() || rows_[i].op != op) {
    if (settled_at(op)) return nullptr;
    Row row;
    row.op = op;
    row.cells = cells_.open(op);
    make_room(rows_);
    rows_.insert(rows_.begin() + static_cast<std::ptrdiff_t>(i), std::move(row));
    trim();
    if (op.value <= floor_) return nullptr;  // it was itself the oldest of too many
    i = row_index(op);
  }
  return rows_[i].taken ? nullptr : &rows_[i];
}

void RoundHistory::fill(const Row& row, bool with_cells, RoundEntry& e) const {
  e.op = row.op;
  e.replay = 0;
  e.reported = row.reported;
  e.mismatch_ns = row.extra ? row.extra->mismatch_ns : 0;
  e.groups.clear();
  for (size_t g = 0; g < group_count(row); ++g) e.groups.push_back(group(row, g));
  const size_t ranks = with_cells ? std::max(ranks_, static_cast<size_t>(rank_count_)) : 0;
  if (cells_.pages().slots() < ranks) e.cells.clear();  // so that who has no slot has nothing
  e.cells.resize(ranks);
  if (!with_cells) return;
  cells_.pages().visit([&](size_t rank, size_t slot, size_t n) {
    for (size_t i = 0; i < n && rank + i < ranks; ++i)
      RoundCells::unpack(RoundCells::of(row.cells, slot + i), e.cells[rank + i]);
  });
}

// ---- signatures
// ------------------------------------------------------------------------------------------------------

RoundHistory::Extra& RoundHistory::extra(Row& row) {
  if (!row.extra) row.extra = std::make_unique<Extra>();
  return *row.extra;
}

size_t RoundHistory::group_count(const Row& row) const {
  return row.has_groups() ? row.extra->groups.size() : row.signature != SignatureTable::none ? 1 : 0;
}

SignatureGroup RoundHistory::group(const Row& row, size_t g) const {
  return row.has_groups() ? row.extra->groups[g] : SignatureGroup{signatures_[row.signature], row.ranks};
}

void RoundHistory::set_group(Row& row, size_t g, const SignatureGroup& to) {
  if (row.has_groups()) {
    row.extra->groups[g] = to;
    return;
  }
  if (row.signature == SignatureTable::none || !(signatures_[row.signature] == to.signature))
    row.signature = signatures_.number_of(to.signature);
  row.ranks = to.ranks;
}

const Signature* RoundHistory::main_signature(const Row& row) const {
  if (!row.has_groups()) return row.signature == SignatureTable::none ? nullptr : &signatures_[row.signature];
  const SignatureGroup* best = nullptr;
  for (const SignatureGroup& other : row.extra->groups)
    if (!best || other.ranks > best->ranks) best = &other;
  return &best->signature;
}

void RoundHistory::assign(Row& row, Cell& own, const Signature& s, Nanoseconds now_ns) {
  if (s.function == abi::Function::unknown) return;
  const bool only_group = row.signature != SignatureTable::none && !row.has_groups();
  if (!only_group || !(signatures_[row.signature] == s)) return assign_slowly(row, own, s, now_ns);
  row.ranks += own.group == 0 ? 1 : 0;
  own.group = 1;
}

void RoundHistory::assign_slowly(Row& row, Cell& own, const Signature& s, Nanoseconds now_ns) {
  // A later report knows more (algorithm, protocol, channels): it may complete its group or leave it.
  if (own.group != 0) {
    SignatureGroup known = group(row, own.group - 1u);
    if (difference(known.signature, s) != SignatureField::none) {
      --known.ranks;
      set_group(row, own.group - 1u, known);
      own.group = 0;
    }
  }
  size_t g = 0;
  if (own.group != 0) {
    g = own.group - 1u;
  } else {
    const size_t count = group_count(row);
    while (g < count && difference(group(row, g).signature, s) != SignatureField::none) ++g;
    if (g == count) {
      if (g + 1 >= RoundCell::no_group) return;
      if (count == 0) {
        set_group(row, 0, {s, 0});
      } else {
        std::vector<SignatureGroup>& groups = extra(row).groups;
        if (groups.empty()) groups.push_back({signatures_[row.signature], row.ranks});
        groups.push_back({s, 0});
      }
    }
    own.group = static_cast<uint8_t>(g + 1);
    SignatureGroup joined = group(row, g);
    ++joined.ranks;
    set_group(row, g, joined);
  }
  SignatureGroup known = group(row, g);
  known.signature = completed(known.signature, s);
  set_group(row, g, known);
  size_t used = 0;
  for (size_t i = 0; i < group_count(row); ++i) used += group(row, i).ranks > 0;
  if (used > 1 && extra(row).mismatch_ns == 0) {
    row.extra->mismatch_ns = now_ns;
    mismatched_.insert(std::lower_bound(mismatched_.begin(), mismatched_.end(), row.op), row.op);
  }
}

void RoundHistory::signature(OpSeq op, Rank rank, const Signature& s, Nanoseconds now_ns) {
  if (Row* row = touch(op, rank)) assign(*row, cell_of(*row, rank), s, now_ns);
}

// ---- rounds
// ----------------------------------------------------------------------------------------------------------

void RoundHistory::set_rank_count(int rank_count) {
  if (rank_count == rank_count_) return;
  rank_count_ = rank_count;
  for (Row& row : rows_) check_complete(row);
}

void RoundHistory::round(OpSeq op, Rank rank, const Signature& s, const RoundCell& reported, Nanoseconds now_ns) {
  Row* row = touch(op, rank);
  if (!row) return;
  Cell& own = cell_of(*row, rank);
  if (own.reported()) return;
  assign(*row, own, s, now_ns);
  RoundCells::pack(reported, own);
  ++row->reported;
  check_complete(*row);
}

void RoundHistory::check_complete(Row& row) {
  if (row.complete || rank_count_ == 0 || row.reported < static_cast<uint32_t>(rank_count_)) return;
  row.complete = true;
  complete_.push_back(row.op);
}

void RoundHistory::visit(Row& row, absl::FunctionRef<void(const RoundEntry&)> visit) {
  // As large as the largest communicator: one for all of them.
  static thread_local RoundEntry entry;
  fill(row, true, entry);
  visit(entry);
}

void RoundHistory::visit_complete(absl::FunctionRef<void(const RoundEntry&)> to) {
  if (complete_.empty()) return;
  std::sort(complete_.begin(), complete_.end());
  for (OpSeq op : complete_) {
    Row* row = row_at(op);
    if (!row || row->taken) continue;
    if (!row->visited) visit(*row, to);
    row->taken = true;
    ++taken_rows_;
    ++rounds_;
  }
  complete_.clear();
  settle_taken();
  trim();
}

void RoundHistory::visit_overdue(Nanoseconds now_ns, absl::FunctionRef<void(const RoundEntry&)> to) {
  constexpr Nanoseconds marks_per_wait = 4;
  const Nanoseconds wait_ns = seconds_to_ns(settings_.rounds_overdue_s);
  if (wait_ns == 0 || rank_count_ == 0 || rows_.empty()) return;
  if (marks_.empty() || now_ns - marks_.back().at_ns >= wait_ns / marks_per_wait)
    marks_.push_back({now_ns, rows_.back().op});
  auto due = marks_.begin();
  while (due != marks_.end() && now_ns - due->at_ns >= wait_ns) ++due;
  if (due == marks_.begin()) return;
  const OpSeq until = std::prev(due)->newest;
  marks_.erase(marks_.begin(), due);
  for (size_t i = row_index(OpSeq{overdue_.value + 1}); i < rows_.size() && rows_[i].op <= until; ++i) {
    Row& row = rows_[i];
    if (row.complete || 2 * row.reported < static_cast<uint32_t>(rank_count_)) continue;
    row.visited = true;
    visit(row, to);
  }
  overdue_ = std::max(overdue_, until);
}

// Where all agree, the signature is all that stays.
void RoundHistory::settle_taken() {
  for (Row& row : rows_) {
    if (!row.taken || (row.extra && row.extra->mismatch_ns != 0) || row.signature == SignatureTable::none) continue;
    const Settled settled{row.op, row.signature};
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
  std::erase_if(rows_, [](const Row& row) { return row.cells == nullptr; });
  if (!signatures_.worth_tidying(rows_.size() + settled_.size())) return;
  signatures_.tidy([&](auto renumber) {
    for (Row& row : rows_) renumber(row.signature);
    for (Settled& settled : settled_) renumber(settled.signature);
  });
}

std::vector<RoundEntry> RoundHistory::take_complete() {
  std::vector<RoundEntry> out;
  visit_complete([&](const RoundEntry& e) { out.push_back(e); });
  return out;
}

// ---- bounds
// ----------------------------------------------------------------------------------------------------------

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
  const size_t ranks = std::max({size_t{1}, static_cast<size_t>(rank_count_), cells_.pages().slots()});
  const size_t kept_max = std::max<size_t>(8, settings_.rounds_kept_max);
  const size_t rows_max = std::max<size_t>(8, std::min<size_t>(kept_max, settings_.round_cells_max / ranks));
  size_t settled = settled_.size();  // of them, the newest stay
  while (!rows_.empty() || settled > 0) {
    const OpSeq oldest_settled = settled > 0 ? settled_[settled_.size() - settled].op : OpSeq{};
    const bool is_row = !rows_.empty() && (settled == 0 || rows_.front().op < oldest_settled);
    const bool over = rows_.size() > rows_max || rows_.size() + settled > kept_max;
    // One whose signatures differ waits until it was judged: of a backlog more may arrive at once than is kept.
    const bool judged = mismatched_.empty() || !is_row || rows_.front().op < mismatched_.front();
    const bool is_taken = !is_row || (rows_.front().taken && judged);
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

// ---- questions
// -------------------------------------------------------------------------------------------------------

OpSeq RoundHistory::oldest() const {
  if (rows_.empty()) return settled_.empty() ? OpSeq{} : settled_.front().op;
  return settled_.empty() ? rows_.front().op : std::min(rows_.front().op, settled_.front().op);
}

const RoundEntry* RoundHistory::find(OpSeq op) const {
  const Row* row = row_at(op);
  if (!row) return nullptr;
  static thread_local RoundEntry found;  // as large as the largest communicator: one for all of them
  fill(*row, row->extra && row->extra->mismatch_ns != 0, found);
  return &found;
}

const Signature* RoundHistory::signature_at(OpSeq op) const {
  if (const Row* row = row_at(op)) return main_signature(*row);
  const Settled* settled = settled_at(op);
  return settled ? &signatures_[settled->signature] : nullptr;
}

const Signature* RoundHistory::signature_of(OpSeq op, Rank rank) const {
  const Row* row = row_at(op);
  if (!row) {
    const Settled* settled = settled_at(op);  // all ranks agreed
    return settled ? &signatures_[settled->signature] : nullptr;
  }
  if (rank.value < 0 || cells_.pages().slot(static_cast<size_t>(rank.value)) == RankPages::none) return nullptr;
  const uint8_t g = cell_of(*row, rank).group;
  if (g == 0) return nullptr;
  return row->has_groups() ? &row->extra->groups[g - 1u].signature : &signatures_[row->signature];
}

}  // namespace ccld::decision
