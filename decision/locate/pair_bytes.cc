#include "decision/locate/pair_bytes.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ccld::decision {
namespace {

// Both ends of a call are reported within a second or two; so many calls for each rank fit into that.
constexpr size_t ends_per_rank = 64, ends_min = 4096;
constexpr size_t differences_max = 256;
constexpr size_t pairs_shown_max = 6;

}  // namespace

PairBytes::Call PairBytes::call_of(Rank own, Rank peer, abi::Direction d, uint64_t pair_seq, uint32_t replay) {
  const bool sends = d == abi::Direction::send;
  return {sends ? own.value : peer.value, sends ? peer.value : own.value, pair_seq, replay};
}

PairBytes::End* PairBytes::find(const Call& call) {
  if (const auto it = ends_.find(call); it != ends_.end()) return &it->second;
  const auto it = ends_before_.find(call);
  return it == ends_before_.end() ? nullptr : &it->second;
}

size_t PairBytes::ends_max(const Communicator& comm) const {
  return std::max(ends_min, ends_per_rank * static_cast<size_t>(comm.rank_count()));
}

void PairBytes::compare(const Call& call, uint64_t sent, uint64_t received, Nanoseconds now_ns) {
  if (sent == received) return;
  const std::pair<int32_t, int32_t> pair{call.sender, call.receiver};
  if (!differences_.contains(pair) && differences_.size() >= differences_max) return;
  Difference& d = differences_[pair];
  if (d.calls == 0 || call.pair_seq < d.pair_seq) {
    d.pair_seq = call.pair_seq;
    d.replay = call.replay;
    d.sent = sent;
    d.received = received;
  }
  ++d.calls;
  d.last_ns = now_ns;
  news_ = true;
}

void PairBytes::ended(const Communicator& comm, const P2pRounds& m, const ProcessModel& process, Nanoseconds now_ns) {
  const RankModel* own = comm.rank(m.rank);
  if (!own || own->process != &process) return;
  for (const P2pRound& round : m.rounds) {
    if (!comm.rank(round.peer)) continue;
    const bool sends = round.direction == abi::Direction::send;
    const Call call = call_of(m.rank, round.peer, round.direction, round.pair_seq, round.replay);
    if (const End* other = find(call); other && other->of_sender != sends) {
      if (!other->judged) compare(call, sends ? round.bytes : other->bytes, sends ? other->bytes : round.bytes, now_ns);
      ends_.erase(call);
      ends_before_.erase(call);
      continue;
    }
    if (ends_.size() >= ends_max(comm)) ends_before_ = std::exchange(ends_, {});
    ends_.insert_or_assign(call, End{round.bytes, sends, false});
  }
}

void PairBytes::in_flight(const Communicator& comm, const InFlight& m, const ProcessModel& process,
                          Nanoseconds now_ns) {
  const RankModel* own = comm.rank(m.rank);
  // Only what does not move: the others will soon be over.
  if (!m.late || m.p2p.empty() || !own || own->process != &process) return;
  const auto [looked, never] = looked_.try_emplace(m.rank.value, m.movement);
  const bool first_look = never || std::exchange(looked->second, m.movement) != m.movement;
  for (const P2pCall& c : m.p2p) {
    const RankModel* peer = comm.rank(c.peer);
    if (!peer || c.only_captured()) continue;
    const bool sends = c.direction == abi::Direction::send;
    const Call call = call_of(m.rank, c.peer, c.direction, c.pair_seq, c.replay);
    if (End* other = find(call); other && other->of_sender != sends && !other->judged) {
      other->judged = true;
      compare(call, sends ? c.bytes : other->bytes, sends ? other->bytes : c.bytes, now_ns);
    }
    if (!first_look) continue;
    // Both ends may hang. Whichever speaks last sees both.
    for (const P2pCall& theirs : peer->last.p2p)
      if (theirs.peer == m.rank && theirs.direction != c.direction && theirs.pair_seq == c.pair_seq &&
          theirs.replay == c.replay && !theirs.only_captured())
        compare(call, sends ? c.bytes : theirs.bytes, sends ? theirs.bytes : c.bytes, now_ns);
  }
}

std::optional<Finding> PairBytes::next(const Communicator& comm, Nanoseconds now_ns) {
  if (!std::exchange(news_, false)) return std::nullopt;
  std::erase_if(differences_,
                [&](const auto& d) { return now_ns - d.second.last_ns > seconds_to_ns(settings_.mismatch_clean_s); });
  if (differences_.empty()) return std::nullopt;
  Finding f;
  f.fault = FaultClass::h2_inconsistent;
  f.title = "byte counts of Send and Recv differ";
  f.hard = true;
  std::map<int32_t, std::set<int32_t>> peers;  // by rank: with whom it differs
  for (const auto& [pair, d] : differences_) {
    peers[pair.first].insert(pair.second);
    peers[pair.second].insert(pair.first);
    if (f.evidence.size() < 2 * pairs_shown_max) {
      const std::string replay = d.replay != 0 ? absl::StrCat(", replay ", d.replay) : "";
      add_evidence(f, {.kind = EvidenceKind::bytes_sent,
                       .rank = pair.first,
                       .peer = pair.second,
                       .subject = absl::StrCat("Send ", d.pair_seq, replay),
                       .value = static_cast<double>(d.sent)});
      add_evidence(f, {.kind = EvidenceKind::bytes_received,
                       .rank = pair.second,
                       .peer = pair.first,
                       .subject = absl::StrCat("Recv ", d.pair_seq, replay),
                       .value = static_cast<double>(d.received)});
    }
  }
  const Difference& first = differences_.begin()->second;
  f.signature.function = abi::Function::send;
  f.signature.datatype = abi::Datatype::uint8;
  f.signature.count = first.sent;
  f.replay = first.replay;
  // Without it all would agree; of two that differ from each other alone nobody can tell.
  for (const auto& [rank, with] : peers) {
    const bool in_all = std::all_of(differences_.begin(), differences_.end(),
                                    [&](const auto& d) { return d.first.first == rank || d.first.second == rank; });
    const bool alone = with.contains(rank);  // it sends to itself
    if (!in_all || (with.size() < 2 && !alone)) continue;
    f.culprits.push_back(make_culprit(
        comm, Rank{rank}, Component::application, Condition::bytes_differ,
        alone ? "its Send and Recv to itself differ in bytes"
              : absl::StrCat("bytes of its Send and Recv calls differ from those of ", with.size(), " peers")));
  }
  if (f.culprits.size() > 1) f.culprits.clear();
  if (f.culprits.empty()) {
    for (const auto& [rank, with] : peers) f.candidates.push_back(Rank{rank});
    f.confidence = 0.5;
  } else {
    f.confidence = 0.8;
  }
  add_evidence(f, {.kind = EvidenceKind::pairs_differing, .value = static_cast<double>(differences_.size())});
  f.next_step =
      "NCCL wants equal counts on both sides and does not check them: compare how both programs compute the size of "
      "this call. What the receiver asks for and is not sent makes it wait or take the next call's data; what it does "
      "not ask for is left behind.";
  return f;
}

}  // namespace ccld::decision
