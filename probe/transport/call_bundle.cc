#include "probe/transport/call_bundle.h"

#include <algorithm>
#include <cstring>

#include "schemas/wire/packed_links.h"

namespace ccld::probe {
namespace {

// More than they take mostly.
constexpr size_t bytes_per_row = 16;
// So many kinds are looked through in less time than the one that is known is found among all.
constexpr size_t kinds_compared_max = 8;

// What finished rounds and finished calls of Send and Recv have in common.
template <class Finished>
wire::CallRow row_of(const Finished& f) {
  wire::CallRow r;
  r.replay = f.replay;
  r.enter_monotonic_ns = f.enter_monotonic_ns, r.launch_monotonic_ns = f.launch_monotonic_ns;
  r.begin_device_ns = f.begin_device_ns, r.end_device_ns = f.end_device_ns;
  r.send_steps = f.send_steps, r.recv_steps = f.recv_steps;
  r.flags = f.flags;
  return r;
}

}  // namespace

void CallBundle::begin_group(uint64_t comm_uid, int rank) {
  wire::CallGroup& group = calls_.groups.emplace_back();
  group.comm_uid = comm_uid;
  group.rank = rank;
  first_kind_ = calls_.kind_words.size();
  kinds_.clear();
}

// Kinds of a group in the order in which they appear.
uint32_t CallBundle::kind_of(const void* kind) {
  const size_t bytes = words_ * sizeof(uint32_t);
  std::vector<uint32_t>& all = calls_.kind_words;
  const auto number_at = [this](size_t at) { return static_cast<uint32_t>((at - first_kind_) / words_); };
  // Newest first: a training loop repeats the last few. Who sends to every rank has as many kinds as ranks.
  const size_t near = std::max(first_kind_, all.size() - std::min(all.size(), kinds_compared_max * words_));
  for (size_t at = all.size(); at > near; at -= words_)
    if (std::memcmp(&all[at - words_], kind, bytes) == 0) return number_at(at - words_);
  const auto [known, is_new] = kinds_.try_emplace(std::string(static_cast<const char*>(kind), bytes), all.size());
  if (!is_new) return number_at(known->second);
  all.resize(all.size() + words_);
  std::memcpy(&all[all.size() - words_], kind, bytes);
  ++calls_.groups.back().kinds;
  return number_at(known->second);
}

void CallBundle::add(const RoundsMessage& m) {
  begin_group(m.comm_uid, m.rank);
  for (const FinishedRound& f : m.rounds) {
    const uint32_t kind = kind_of(&f.signature);
    wire::CallRow& r = calls_.rows.emplace_back(row_of(f));
    r.number = f.op_seq;
    r.kind = kind;
    r.send_changes = f.send_changes, r.recv_changes = f.recv_changes;
    r.samples = f.samples;
    r.signals = f.signals;
  }
  calls_.groups.back().rows = static_cast<uint32_t>(m.rounds.size());
  add_links(m);
}

void CallBundle::add(const P2pRoundsMessage& m) {
  begin_group(m.comm_uid, m.rank);
  for (const FinishedP2p& f : m.rounds) {
    const wire::P2pKind kind(f.bytes, f.peer, f.direction);
    const uint32_t number = kind_of(&kind);
    wire::CallRow& r = calls_.rows.emplace_back(row_of(f));
    r.number = f.pair_seq;
    r.kind = number;
    r.plan = f.plan;
  }
  calls_.groups.back().rows = static_cast<uint32_t>(m.rounds.size());
  add_links(m);
}

void CallBundle::add_links(const LinkColumns& m) {
  if (m.links.empty()) return;
  std::vector<wire::LinkRow> rows;
  for (size_t i = 0; i < m.links.size(); ++i) {
    const wire::LinkStages& l = m.links[i];
    wire::LinkRow& r = rows.emplace_back();
    r.op_seq = l.op_seq();
    r.gpu_mean_realtime_ns = l.gpu_mean_realtime_ns(), r.ready_mean_realtime_ns = l.ready_mean_realtime_ns();
    r.wire_mean_realtime_ns = l.wire_mean_realtime_ns(), r.done_mean_realtime_ns = l.done_mean_realtime_ns();
    r.peer = l.peer(), r.net_device = l.net_device();
    r.steps = l.steps();
    if (!m.link_first_step.empty()) r.first_step = m.link_first_step[i];
    if (!m.link_proxy_away_us.empty()) r.proxy_away_us = m.link_proxy_away_us[i];
    r.channel = l.channel(), r.direction = l.direction(), r.group = l.group();
  }
  wire::CallGroup& group = calls_.groups.back();
  group.link_rows = static_cast<uint32_t>(rows.size());
  const std::vector<uint8_t> packed = wire::pack(std::move(rows));
  group.link_bytes = static_cast<uint32_t>(packed.size());
  links_.insert(links_.end(), packed.begin(), packed.end());
}

size_t CallBundle::bytes() const {
  return calls_.groups.size() * sizeof(wire::CallGroup) + calls_.kind_words.size() * sizeof(uint32_t) +
         calls_.rows.size() * bytes_per_row + links_.size();
}

CallBundle::Packed CallBundle::take() {
  Packed packed{wire::pack(std::exchange(calls_, {}), words_, numbering_), std::exchange(links_, {})};
  first_kind_ = 0;
  return packed;
}

}  // namespace ccld::probe
