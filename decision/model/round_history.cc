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

void RoundHistory::set_rank_count(int rank_count) {
  if (rank_count == rank_count_) return;
  rank_count_ = rank_count;
  for (auto& [op, entry] : entries_) check_complete(entry);
}

RoundEntry* RoundHistory::touch(OpSeq op, Rank rank) {
  if (op.value == 0 || op.value <= floor_ || rank.value < 0) return nullptr;
  auto [it, added] = entries_.try_emplace(op.value);
  RoundEntry& e = it->second;
  if (added) {
    e.op = op;
    trim();
    if (op.value <= floor_) return nullptr;  // it was itself the oldest of too many
  }
  if (!e.taken && e.cells.size() <= static_cast<size_t>(rank.value))
    e.cells.resize(std::max<size_t>(rank.value + 1, rank_count_));
  return &e;
}

void RoundHistory::assign(RoundEntry& e, Rank rank, const Signature& s, Nanoseconds now_ns) {
  if (e.taken || s.function == abi::Function::unknown) return;
  RoundCell& cell = e.cells[rank.value];
  // A later report knows more (algorithm, protocol, channels): it may complete its group or leave it.
  if (cell.group != RoundCell::no_group) {
    SignatureGroup& own = e.groups[cell.group];
    if (difference(own.signature, s) != SignatureField::none) {
      --own.ranks;
      cell.group = RoundCell::no_group;
    }
  }
  size_t g = 0;
  if (cell.group != RoundCell::no_group) {
    g = cell.group;
  } else {
    while (g < e.groups.size() && difference(e.groups[g].signature, s) != SignatureField::none) ++g;
    if (g == e.groups.size()) {
      if (g >= RoundCell::no_group) return;
      e.groups.push_back({s, 0});
    }
    ++e.groups[g].ranks;
    cell.group = static_cast<uint8_t>(g);
  }
  Signature& known = e.groups[g].signature;
  if (known.algorithm == abi::Algorithm::unknown) known.algorithm = s.algorithm;
  if (known.protocol == abi::Protocol::unknown) known.protocol = s.protocol;
  if (known.channels == 0) known.channels = s.channels;
  size_t used = 0;
  for (const SignatureGroup& group : e.groups) used += group.ranks > 0;
  if (used > 1 && e.mismatch_ns == 0) {
    e.mismatch_ns = now_ns;
    mismatched_.insert(std::lower_bound(mismatched_.begin(), mismatched_.end(), e.op), e.op);
  }
}

void RoundHistory::signature(OpSeq op, Rank rank, const Signature& s, Nanoseconds now_ns) {
  if (RoundEntry* e = touch(op, rank)) assign(*e, rank, s, now_ns);
}

void RoundHistory::round(OpSeq op, Rank rank, const Signature& s, const RoundCell& cell, Nanoseconds now_ns) {
  RoundEntry* e = touch(op, rank);
  if (!e || e->taken) return;
  if (e->cells[rank.value].reported) return;
  assign(*e, rank, s, now_ns);
  RoundCell& own = e->cells[rank.value];
  const uint8_t group = own.group;
  own = cell;
  own.group = group;
  own.reported = true;
  ++e->reported;
  check_complete(*e);
}

void RoundHistory::link(Rank rank, const LinkStages& stages) {
  auto it = entries_.find(stages.op.value);
  if (it == entries_.end() || it->second.taken) return;
  RoundEntry& e = it->second;
  if (e.links.size() < 64 * std::max<size_t>(e.cells.size(), 1)) e.links.emplace_back(rank, stages);
}

void RoundHistory::check_complete(RoundEntry& e) {
  if (e.taken || rank_count_ == 0 || e.reported < static_cast<uint32_t>(rank_count_)) return;
  if (std::find(complete_.begin(), complete_.end(), e.op) == complete_.end()) complete_.push_back(e.op);
}

std::vector<RoundEntry> RoundHistory::take_complete() {
  std::vector<RoundEntry> out;
  std::sort(complete_.begin(), complete_.end());
  for (OpSeq op : complete_) {
    auto it = entries_.find(op.value);
    if (it == entries_.end()) continue;
    RoundEntry& e = it->second;
    RoundEntry copy;
    copy.op = e.op;
    copy.groups = e.groups;
    copy.reported = e.reported;
    copy.mismatch_ns = e.mismatch_ns;
    copy.links = std::move(e.links);
    e.links.clear();
    if (e.mismatch_ns != 0) {
      copy.cells = e.cells;
    } else {
      copy.cells = std::move(e.cells);
      e.cells.clear();
      e.cells.shrink_to_fit();
    }
    e.taken = true;
    ++taken_;
    ++rounds_;
    out.push_back(std::move(copy));
  }
  complete_.clear();
  trim();
  return out;
}

void RoundHistory::trim() {
  const size_t ranks = std::max(rank_count_, 1);
  const size_t limit =
      std::max<size_t>(8, std::min<size_t>(settings_.rounds_kept_max, settings_.round_cells_max / ranks));
  while (!entries_.empty()) {
    auto it = entries_.begin();
    const bool over = entries_.size() > limit;
    if (!over && !(it->second.taken && taken_ > settled_kept)) break;
    if (it->second.taken)
      --taken_;
    else
      ++evicted_;
    floor_ = it->first;
    std::erase(mismatched_, it->second.op);
    entries_.erase(it);
  }
}

void RoundHistory::settle(OpSeq op) { std::erase(mismatched_, op); }

const RoundEntry* RoundHistory::find(OpSeq op) const {
  auto it = entries_.find(op.value);
  return it == entries_.end() ? nullptr : &it->second;
}

const Signature* RoundHistory::signature_of(OpSeq op, Rank rank) const {
  const RoundEntry* e = find(op);
  if (!e) return nullptr;
  if (e->taken && e->cells.empty()) return e->signature();  // all ranks agreed
  if (rank.value < 0 || static_cast<size_t>(rank.value) >= e->cells.size()) return nullptr;
  const uint8_t group = e->cells[rank.value].group;
  return group == RoundCell::no_group ? nullptr : &e->groups[group].signature;
}

}  // namespace ccld::decision
