#include "decision/locate/walk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "decision/locate/links.h"

namespace ccld::decision {
namespace {

struct Node {
  int32_t rank;
  int32_t channel;
  int32_t group;
  friend auto operator<=>(const Node&, const Node&) = default;
  template <class H>
  friend H AbslHashValue(H h, const Node& n) {
    return H::combine(std::move(h), n.rank, n.channel, n.group);
  }
};

enum class EndKind { process, gpu, not_begun, ended, unknown_rank, not_watched };

struct End {
  EndKind kind;
  Nanoseconds quiet_ns = 0;  // how long it has neither moved nor polled
  std::set<int32_t> waiters;
};

class Walk {
 public:
  Walk(const Communicator& comm, const HangView& view, const Settings& settings, Nanoseconds now_ns)
      : comm_(comm), view_(view), settings_(settings), now_ns_(now_ns), fresh_(fresh_ns(view, settings)) {}

  Finding run() {
    comm_.visit_ranks([this](const RankModel& r) {
      if (!r.has_last || !progress(r.rank.value).reports() || progress(r.rank.value).progress != Progress::begun)
        return;
      if (!shows_op(r)) return;
      follow_all(r);
      if (view_.p2p && r.waiting_channels == 0) arrive_at_kernel(r);
    });
    return conclude();
  }

 private:
  static constexpr int32_t any_group = -1;

  absl::Span<const LaneState> lanes_of(int32_t rank, int channel) const {
    const RankModel* r = comm_.rank(Rank{rank});
    return r ? r->lanes_of(channel) : absl::Span<const LaneState>();
  }

  const RankProgress& progress(int32_t rank) const { return view_.ranks[rank]; }
  bool valid(int32_t rank) const { return rank >= 0 && static_cast<size_t>(rank) < view_.ranks.size(); }

  // Its lanes belong to the operation that hangs; of Send and Recv, to the kernel that runs.
  bool shows_op(const RankModel& r) const {
    if (view_.p2p) return call_of(r) != nullptr;
    const InFlightOp* o = op_of(r);
    return o && o->begun;
  }
  const P2pCall* call_of(const RankModel& r) const {
    for (const P2pCall& c : r.last.p2p)
      if (c.begun && !c.only_captured() && (r.last.kernel_plan == 0 || c.plan == r.last.kernel_plan)) return &c;
    return nullptr;
  }
  uint8_t signals_of(const RankModel& r) const { return view_.p2p ? call_of(r)->signals : op_of(r)->signals; }
  const InFlightOp* op_of(const RankModel& r) const {
    for (const InFlightOp& o : r.last.operations)
      if (o.key() == view_.key()) return &o;
    return nullptr;
  }
  const ChannelState* channel_of(const RankModel& r, int channel) const {
    const auto at = static_cast<size_t>(channel);
    for (const InFlightOp& o : r.last.operations) {
      if (at < o.channels.size() && o.channels[at].channel == channel) return &o.channels[at];  // as they mostly lie
      for (const ChannelState& c : o.channels)
        if (c.channel == channel) return &c;
    }
    return nullptr;
  }
  Nanoseconds since_sample(const RankModel& r) const { return std::max<Nanoseconds>(0, now_ns_ - r.sampled_ns); }

  bool waits(const LaneState& l) const {
    return l.wait != abi::WaitKind::none && l.poll_age_ms != age_never &&
           static_cast<Nanoseconds>(l.poll_age_ms) * ns_per_ms <= fresh_;
  }

  // The lane at the other end of the same connection: opposite direction, back to me, and nearest in steps.
  const LaneState* other_end(int32_t peer, int32_t me, const LaneState& mine, uint32_t want) const {
    const LaneState* best = nullptr;
    int64_t best_off = 0;
    for (const LaneState& l : lanes_of(peer, mine.channel)) {
      if (l.direction == mine.direction || l.peer != me) continue;
      const int32_t ahead = l.direction == abi::Direction::recv ? steps_in_flight_max : 0;
      const int64_t off = std::abs(static_cast<int64_t>(steps_between(want, l.current_step + ahead)));
      if (!best || off < best_off) best = &l, best_off = off;
    }
    return best;
  }

  void follow_all(const RankModel& r) {
    // Groups in which a receive loop polls without saying for which lane: the lane whose peer has posted too little is
    // the one.
    std::map<std::pair<int, int>, std::vector<const LaneState*>> uncertain;
    for (uint64_t left = r.waiting_channels; left != 0; left &= left - 1)
      for (const LaneState& l : r.lanes_of(std::countr_zero(left))) {
        if (!waits(l)) continue;
        if (l.wait_certain)
          follow(r, l);
        else
          uncertain[{l.channel, l.group}].push_back(&l);
      }
    for (const auto& [place, lanes] : uncertain) {
      std::vector<const LaneState*> starved, underway;
      for (const LaneState* l : lanes) {
        const LaneState* other = other_end(l->peer, r.rank.value, *l, l->want_step);
        if (!other || steps_between(l->want_step, other->current_step) < 0)
          starved.push_back(l);
        else if (!delivered(comm_, {Rank{l->peer}, r.rank, l->channel, l->want_step, other->current_step}))
          underway.push_back(l);
      }
      // What lies ready in front of its GPU it does not poll for.
      for (const LaneState* l : !starved.empty() ? starved : !underway.empty() ? underway : lanes) follow(r, *l);
    }
  }

  // For how long the edge has had what the lane waits for: not before the peer gave it, however long the lane has
  // waited for that. `other` is the peer's lane; nullptr: it has ended.
  Nanoseconds stuck_for(const RankModel& r, const LaneState& l, int32_t peer, const LaneState* other) const {
    const RankModel& p = *comm_.rank(Rank{peer});
    const Nanoseconds waited = static_cast<Nanoseconds>(l.wait_age_ms) * ns_per_ms + since_sample(r);
    const Nanoseconds given = other ? static_cast<Nanoseconds>(other->moved_age_ms) * ns_per_ms + since_sample(p)
                                    : std::max<Nanoseconds>(0, now_ns_ - p.moved_ns);
    return std::min(waited, given);
  }

  void follow(const RankModel& r, const LaneState& l) {
    const int32_t peer = l.peer;
    if (!valid(peer)) return;
    if (view_.p2p && alive(peer) && l.wait == abi::WaitKind::data && !same_node(comm_, r.rank, Rank{peer}) &&
        ended_at(peer, r, l)) {
      // It sent everything, and what does not arrive is on its way.
      ++waits_;
      stops_.push_back(
          {StuckEdge{Rank{peer}, r.rank, l.channel, l.want_step, l.want_step}, stuck_for(r, l, peer, nullptr)});
      return;
    }
    // Who waits for a call that was not made waits for a process, not for a step: followed elsewhere.
    if (view_.p2p && alive(peer) && !shows_op(*comm_.rank(Rank{peer}))) return;
    ++waits_;
    const LaneState* other = other_end(peer, r.rank.value, l, l.want_step);
    const bool data = l.wait == abi::WaitKind::data;
    if (other) {
      const uint32_t available = data ? other->current_step : other->current_step + steps_in_flight_max;
      if (steps_between(l.want_step, available) >= 0 && alive(peer)) {
        const Rank me = r.rank, them{peer};
        StuckEdge e{data ? them : me,
                    data ? me : them,
                    l.channel,
                    l.want_step,
                    data ? other->current_step : l.current_step,
                    !data};
        stops_.push_back({e, stuck_for(r, l, peer, other)});
        return;
      }
    }
    // Finished, so it sent everything: what does not arrive from another node is on its way. (Within a node nothing is
    // on its way.)
    if (!other && data && alive(peer) && progress(peer).progress == Progress::done &&
        !same_node(comm_, r.rank, Rank{peer})) {
      stops_.push_back(
          {StuckEdge{Rank{peer}, r.rank, l.channel, l.want_step, l.want_step}, stuck_for(r, l, peer, nullptr)});
      return;
    }
    if (data) note_wait(r.rank.value, l, other);
    arrive(r.rank.value, {peer, l.channel, other ? other->group : view_.p2p ? any_group : 0});
  }

  // The peer has ended the call in which this lane waits.
  bool ended_at(int32_t peer, const RankModel& r, const LaneState& l) const {
    const RankModel& other = *comm_.rank(Rank{peer});
    const abi::Direction theirs = l.direction == abi::Direction::send ? abi::Direction::recv : abi::Direction::send;
    return std::any_of(r.last.p2p.begin(), r.last.p2p.end(), [&](const P2pCall& c) {
      return c.begun && c.plan == r.last.kernel_plan && !c.only_captured() && c.peer.value == peer &&
             c.direction == l.direction && other.has_ended(r.rank, theirs, c.pair_seq, c.replay);
    });
  }

  // A kernel that waits for nobody may be what nobody inside waits for either.
  void arrive_at_kernel(const RankModel& r) {
    std::set<int> channels;
    for (const LaneState& l : r.last.lanes) channels.insert(l.channel);
    for (int c : channels) arrive(r.rank.value, {r.rank.value, c, any_group});
  }

  // A stopped process holds what its snapshot showed; nobody can tell what it would see now.
  bool alive(int32_t rank) const { return progress(rank).reports(); }

  void arrive(int32_t from, const Node& node) {
    if (!visit(node)) {
      if (auto it = ends_.find(node); it != ends_.end()) it->second.waiters.insert(from);
      return;
    }
    const std::optional<End> end = end_at(node);
    if (end) {
      ends_[node] = *end;
      ends_[node].waiters.insert(from);
    }
  }

  // Whether this is the first visit. One bit for each rank, channel and group; groups beyond those apart.
  bool visit(const Node& node) {
    constexpr int32_t groups = 31;
    if (node.channel < 0 || node.channel >= static_cast<int32_t>(abi::channels_max) || node.group >= groups)
      return visited_apart_.insert(node).second;
    std::vector<uint32_t>& of_channel = visited_[node.channel];
    if (of_channel.empty()) of_channel.resize(view_.ranks.size());
    uint32_t& groups_visited = of_channel[node.rank];
    const uint32_t bit = uint32_t{1} << (node.group + 1);
    const bool first = (groups_visited & bit) == 0;
    groups_visited |= bit;
    return first;
  }

  // nullopt: it waits for somebody else, or it moves.
  std::optional<End> end_at(const Node& node) const {
    const RankProgress& p = progress(node.rank);
    const RankModel* r = comm_.rank(Rank{node.rank});
    if (p.life == Life::unknown || !r) return End{EndKind::unknown_rank};
    if (p.life == Life::not_watched) return End{EndKind::not_watched};
    if (!p.reports()) return End{EndKind::process, now_ns_ - r->process->heard_ns};
    if (p.progress == Progress::done) return End{EndKind::ended};
    if (p.progress != Progress::begun || !shows_op(*r)) return End{EndKind::not_begun};
    const ChannelState* c = channel_of(*r, node.channel);
    if (c && c->ended) return End{EndKind::ended};
    // What it waits for and whether it moves was not measured: no sign of life is no sign of death.
    constexpr uint8_t needed = abi::signal_steps | abi::signal_waits;
    if ((signals_of(*r) & needed) != needed) return std::nullopt;
    if (view_.p2p) return end_of_calls(*r, node);
    if (c && !c->begun) return End{EndKind::not_begun, static_cast<Nanoseconds>(c->running_age_ms) * ns_per_ms};
    Nanoseconds quiet = c ? static_cast<Nanoseconds>(c->running_age_ms) * ns_per_ms : view_.stall_ns;
    for (const LaneState& l : r->lanes_of(node.channel)) {
      if (l.group != node.group) continue;
      if (waits(l)) return std::nullopt;
      quiet = std::min(quiet, static_cast<Nanoseconds>(l.moved_age_ms) * ns_per_ms);
      if (l.poll_age_ms != age_never) quiet = std::min(quiet, static_cast<Nanoseconds>(l.poll_age_ms) * ns_per_ms);
    }
    if (quiet < fresh_) return std::nullopt;
    return End{EndKind::gpu, quiet + since_sample(*r)};
  }

  // Kernels of Send and Recv serve their peers side by side, and those that find no room one after the other: a peer
  // for which nothing is set up yet waits behind the others of the channel.
  std::optional<End> end_of_calls(const RankModel& r, const Node& node) const {
    if (progress(node.rank).waits_outside) return std::nullopt;
    const absl::Span<const LaneState> lanes = r.lanes_of(node.channel);
    if (lanes.empty()) return End{EndKind::not_begun, view_.stall_ns};
    Nanoseconds quiet = view_.stall_ns;
    for (const LaneState& l : lanes) {
      if (node.group != any_group && l.group != node.group) continue;
      if (waits(l)) return std::nullopt;
      quiet = std::min(quiet, static_cast<Nanoseconds>(l.moved_age_ms) * ns_per_ms);
      if (l.poll_age_ms != age_never) quiet = std::min(quiet, static_cast<Nanoseconds>(l.poll_age_ms) * ns_per_ms);
    }
    if (quiet < fresh_) return std::nullopt;
    return End{EndKind::gpu, quiet + since_sample(r)};
  }

  void note_wait(int32_t rank, const LaneState& l, const LaneState* other) {
    if (facts_.size() >= evidence_max / 2) return;
    facts_.push_back({rank,
                      absl::StrCat("channel ", l.channel, " group ", l.group, " waits for step ", l.want_step,
                                   " of rank ", l.peer, ", which posted"),
                      other ? static_cast<double>(other->current_step) : -1, "steps"});
  }

  bool several_channels() const {
    uint64_t used = 0;
    for (const RankModel& r : comm_.ranks()) {
      if (view_.p2p)
        for (const LaneState& l : r.last.lanes) used |= uint64_t{1} << l.channel % abi::channels_max;
      else if (const InFlightOp* o = op_of(r))
        for (const ChannelState& c : o->channels) used |= uint64_t{1} << c.channel % abi::channels_max;
      if (std::popcount(used) > 1) return true;
    }
    return false;
  }

  static int priority(EndKind k) {
    switch (k) {
      case EndKind::process: return 0;
      case EndKind::gpu: return 1;
      case EndKind::not_begun: return 2;
      case EndKind::unknown_rank: return 4;
      case EndKind::not_watched: return 5;
      case EndKind::ended: return 6;
    }
    return 9;
  }
  static constexpr int priority_of_edge = 3;

  Finding conclude() {
    Finding f;
    f.fault = FaultClass::h3_hardware;
    f.op = view_.op;
    f.replay = view_.replay;
    f.signature = view_.signature;
    int best = 9;
    for (const auto& [node, end] : ends_) best = std::min(best, priority(end.kind));
    if (!stops_.empty()) best = std::min(best, priority_of_edge);
    if (best == 9 && !view_.p2p) {
      look_at_those_inside();
      for (const auto& [node, end] : ends_) best = std::min(best, priority(end.kind));
    }
    if (best == 9) return nobody(f);
    if (best == priority_of_edge)
      name_edges(f);
    else
      name_ends(f, best);
    for (const Evidence& e : facts_) add_evidence(f, e.rank, e.what, e.value, e.unit);
    add_evidence(f, -1, "waits followed", static_cast<double>(waits_), "lanes");
    return f;
  }

  void name_ends(Finding& f, int best) {
    std::map<int32_t, std::vector<std::pair<Node, const End*>>> by_rank;
    for (const auto& [node, end] : ends_)
      if (priority(end.kind) == best) by_rank[node.rank].push_back({node, &end});
    const bool several = several_channels();
    Nanoseconds quiet_min = INT64_MAX;
    for (const auto& [rank, nodes] : by_rank) {
      const Rank r{rank};
      const EndKind kind = nodes[0].second->kind;
      std::set<int> channels;
      Nanoseconds quiet = INT64_MAX;
      size_t waiters = 0;
      for (const auto& [node, end] : nodes) {
        channels.insert(node.channel);
        quiet = std::min(quiet, end->quiet_ns);
        waiters += end->waiters.size();
      }
      quiet_min = std::min(quiet_min, quiet);
      const int channel = channels.size() == 1 && several ? *channels.begin() : -1;
      const std::string where = channel >= 0 ? absl::StrCat(" on channel ", channel) : "";
      Culprit c;
      switch (kind) {
        case EndKind::process: {
          const Life life = progress(rank).life;
          c = make_culprit(comm_, r, life == Life::host_silent ? Component::host : Component::process,
                           life == Life::stopped       ? "its process is stopped inside the operation"
                           : life == Life::gone        ? "its process is gone"
                           : life == Life::host_silent ? "its host is silent"
                           : life == Life::aborted     ? "it aborted the communicator"
                                                       : "its process is silent");
          if (cannot_return(life) && lost_for_ns(*comm_.rank(r), comm_.moved_ns() + view_.stall_ns) >=
                                         seconds_to_ns(settings_.hard_evidence_s))
            f.hard = true;
          f.wanted.push_back(r);
          break;
        }
        case EndKind::gpu:
          c = make_culprit(comm_, r, Component::gpu, absl::StrCat("its kernel neither moves nor waits", where));
          c.channel = channel;
          break;
        case EndKind::not_begun:
          c = make_culprit(comm_, r, Component::gpu, absl::StrCat("its kernel has not begun", where));
          c.channel = channel;
          if (channel < 0 && !view_.p2p) f.wanted.push_back(r);
          break;
        case EndKind::unknown_rank:
          c = make_culprit(comm_, r, Component::process, "it was never heard of, and others wait for it");
          f.wanted.push_back(r);
          break;
        case EndKind::not_watched:
        case EndKind::ended: f.candidates.push_back(r); break;
      }
      add_evidence(f, rank, absl::StrCat("ends the walk", where, "; direct waiters"), static_cast<double>(waiters),
                   "lanes");
      if (kind != EndKind::ended && kind != EndKind::unknown_rank && kind != EndKind::not_watched)
        add_evidence(f, rank, absl::StrCat("has not moved", where, " for"), quiet / 1e6, "ms");
      if (kind == EndKind::not_watched) continue;
      if (kind == EndKind::ended) {
        for (const auto& [node, end] : nodes)
          for (int32_t w : end->waiters) f.candidates.push_back(Rank{w});
        continue;
      }
      if (f.culprits.size() < culprits_max) f.culprits.push_back(std::move(c));
    }
    std::sort(f.candidates.begin(), f.candidates.end());
    f.candidates.erase(std::unique(f.candidates.begin(), f.candidates.end()), f.candidates.end());
    switch (ends_kind(best)) {
      case EndKind::process:
        f.confidence = 0.95;
        f.next_step =
            "Look at the process: who stopped it, its exit status, the kernel log; restart the job without this rank's "
            "host if it recurs.";
        break;
      case EndKind::gpu:
        f.confidence = f.culprits.size() == 1 ? 0.95 : 0.6;
        f.hard = quiet_min >= seconds_to_ns(settings_.frozen_s);
        f.next_step =
            "Check the GPU: XID errors, ECC, NVLink state; a kernel that neither polls nor moves is stuck on the "
            "device.";
        break;
      case EndKind::not_begun:
        f.confidence = 0.7;
        f.hard = view_.stall_ns >= seconds_to_ns(settings_.frozen_s);
        f.next_step =
            "The kernel runs on other channels only: look for other kernels that hold this GPU's multiprocessors.";
        break;
      case EndKind::unknown_rank:
        f.fault = FaultClass::h1_not_entered;
        f.confidence = 0.4;
        f.next_step = "Check that the process runs this library and can reach the service.";
        break;
      case EndKind::not_watched:
        f.confidence = 0.2;
        f.next_step =
            "The waits lead to a rank whose probe an operator has stopped: start it again (ccld tune running=1) to see "
            "on.";
        break;
      case EndKind::ended:
        f.fault = FaultClass::h2_inconsistent;
        f.confidence = 0.4;
        f.next_step =
            "A rank ended without sending what another expects: compare sizes and order of operations of the "
            "candidates.";
        break;
    }
  }

  static EndKind ends_kind(int best) {
    for (EndKind k : {EndKind::process, EndKind::gpu, EndKind::not_begun, EndKind::unknown_rank, EndKind::not_watched,
                      EndKind::ended})
      if (priority(k) == best) return k;
    return EndKind::ended;
  }

  void name_edges(Finding& f) {
    // One culprit per pair and component; several channels of the same pair are one link.
    std::map<std::tuple<int32_t, int32_t, int>, std::pair<EdgeVerdict, std::set<int>>> merged;
    Nanoseconds age_min = INT64_MAX;
    for (const auto& [edge, age] : stops_) {
      EdgeVerdict v = judge_edge(comm_, view_, edge, fresh_);
      age_min = std::min(age_min, age);
      const auto key = std::make_tuple(v.culprit.rank.value, v.culprit.peer ? v.culprit.peer->value : -1,
                                       static_cast<int>(v.culprit.component));
      auto [it, added] = merged.try_emplace(key, std::move(v), std::set<int>{});
      it->second.second.insert(edge.channel);
    }
    const bool several = several_channels();
    // An edge that is known to be at fault explains those of which both ends are left.
    const bool single = std::any_of(merged.begin(), merged.end(), [](const auto& m) { return m.second.first.single; });
    f.confidence = 1;
    bool given = true;
    for (auto& [key, value] : merged) {
      auto& [verdict, channels] = value;
      if (single && !verdict.single) continue;
      if (channels.size() > 1 || !several) verdict.culprit.channel = -1;
      f.confidence = std::min(f.confidence, verdict.confidence);
      given &= verdict.given;
      for (const Evidence& e : verdict.evidence) add_evidence(f, e.rank, e.what, e.value, e.unit);
      if (verdict.single) {
        if (f.culprits.size() < culprits_max) f.culprits.push_back(verdict.culprit);
      } else {
        f.candidates.push_back(verdict.culprit.rank);
        if (verdict.culprit.peer) f.candidates.push_back(*verdict.culprit.peer);
      }
    }
    std::sort(f.candidates.begin(), f.candidates.end());
    f.candidates.erase(std::unique(f.candidates.begin(), f.candidates.end()), f.candidates.end());
    f.hard = given && age_min >= seconds_to_ns(settings_.frozen_s);
    f.next_step = single ? "Check the link between the two ranks: port counters, cable, switch, routing, firewall."
                         : "Two GPUs of one node disagree about what was sent: compare the sizes of their operations, "
                           "then check NVLink and PCIe.";
  }

  // Nobody waits for them, because all others were through before.
  void look_at_those_inside() {
    for (const RankModel& r : comm_.ranks()) {
      if (!r.has_last || !alive(r.rank.value) || progress(r.rank.value).progress != Progress::begun) continue;
      if (!shows_op(r) || r.waiting_channels != 0) continue;
      for (const LaneState& l : r.last.lanes)
        if (const ChannelState* c = channel_of(r, l.channel); c && !c->ended)
          arrive(r.rank.value, {r.rank.value, l.channel, l.group});
    }
  }

  Finding nobody(Finding& f) {
    // A cycle of waits without an end: the ranks that stopped first are what is left.
    Nanoseconds oldest = INT64_MAX;
    for (const RankModel& r : comm_.ranks())
      if (progress(r.rank.value).progress == Progress::begun) oldest = std::min(oldest, r.moved_ns);
    for (const RankModel& r : comm_.ranks())
      if (progress(r.rank.value).progress == Progress::begun && r.moved_ns <= oldest + ns_per_ms)
        f.candidates.push_back(r.rank);
    f.confidence = 0.2;
    add_evidence(f, -1, "waits followed without coming to an end", static_cast<double>(waits_), "lanes");
    f.next_step =
        "The waits form a cycle or are not visible: take device stacks of the candidates, which stopped first.";
    return f;
  }

  const Communicator& comm_;
  const HangView& view_;
  const Settings& settings_;
  const Nanoseconds now_ns_;
  const Nanoseconds fresh_;
  std::array<std::vector<uint32_t>, abi::channels_max> visited_;  // by rank
  absl::flat_hash_set<Node> visited_apart_;
  std::map<Node, End> ends_;
  std::vector<std::pair<StuckEdge, Nanoseconds>> stops_;
  std::vector<Evidence> facts_;
  size_t waits_ = 0;
};

}  // namespace

Finding locate_inside(const Communicator& comm, const HangView& view, const Settings& settings, Nanoseconds now_ns) {
  return Walk(comm, view, settings, now_ns).run();
}

}  // namespace ccld::decision
