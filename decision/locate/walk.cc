#include "decision/locate/walk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "decision/locate/links.h"
#include "decision/locate/walk_verdict.h"

namespace ccld::decision {
namespace {

class Walk {
 public:
  Walk(const Communicator& comm, const HangView& view, const Settings& settings, Nanoseconds now_ns)
      : comm_(comm), view_(view), settings_(settings), now_ns_(now_ns), fresh_(fresh_ns(view, settings)) {}

  WalkResult run() {
    comm_.visit_ranks([this](const RankModel& r) {
      if (!r.has_last || !progress(r.rank.value).reports() || progress(r.rank.value).progress != Progress::begun)
        return;
      if (!shows_op(r)) return;
      follow_all(r);
      if (view_.p2p && r.waiting_channels == 0) arrive_at_kernel(r);
    });
    if (result_.ends.empty() && result_.stops.empty() && !view_.p2p) look_at_those_inside();
    return std::move(result_);
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
    if (valid(peer) && result_.edges.size() < WalkResult::edges_max)
      result_.edges.push_back({r.rank.value, peer, l.channel});
    if (is_nvlink_switch(comm_, peer)) return follow_to_node(r, l);
    if (is_collective_network(comm_, peer)) return follow_to_all(r, l);
    if (!valid(peer)) return;
    if (view_.p2p && alive(peer) && l.wait == abi::WaitKind::data && !same_node(comm_, r.rank, Rank{peer}) &&
        ended_at(peer, r, l)) {
      // It sent everything, and what does not arrive is on its way.
      ++result_.waits;
      result_.stops.push_back(
          {StuckEdge{Rank{peer}, r.rank, l.channel, l.want_step, l.want_step}, stuck_for(r, l, peer, nullptr)});
      return;
    }
    // Who waits for a call that was not made waits for a process, not for a step: followed elsewhere.
    if (view_.p2p && alive(peer) && !shows_op(*comm_.rank(Rank{peer}))) return;
    ++result_.waits;
    const LaneState* other = other_end(peer, r.rank.value, l, l.want_step);
    const bool data = l.wait == abi::WaitKind::data;
    if (other && !beyond_operation(peer, *other, l.want_step)) {
      const uint32_t available = data ? other->current_step : other->current_step + steps_in_flight_max;
      if (steps_between(l.want_step, available) >= 0 && alive(peer)) {
        const Rank me = r.rank, them{peer};
        StuckEdge e{data ? them : me,
                    data ? me : them,
                    l.channel,
                    l.want_step,
                    data ? other->current_step : l.current_step,
                    !data};
        result_.stops.push_back({e, stuck_for(r, l, peer, other)});
        return;
      }
    }
    // Finished, so it sent everything, also what its last snapshot does not show yet: what does not arrive from another
    // node is on its way. (Within a node nothing is on its way.)
    if ((!other || is_outdated(peer)) && data && alive(peer) && progress(peer).progress == Progress::done &&
        !same_node(comm_, r.rank, Rank{peer})) {
      result_.stops.push_back(
          {StuckEdge{Rank{peer}, r.rank, l.channel, l.want_step, l.want_step}, stuck_for(r, l, peer, nullptr)});
      return;
    }
    arrive(r.rank.value, {peer, l.channel, other ? other->group : view_.p2p ? any_group : 0});
  }

  // The switch adds up what all GPUs of the node have given: any of them may be the one that is missing. One that waits
  // itself is not, on whatever endpoint of the channel.
  void follow_to_node(const RankModel& r, const LaneState& l) {
    ++result_.waits;
    // The endpoints of a channel all lead to the same GPUs.
    const std::pair<int32_t, int32_t> place{r.rank.value, l.channel};
    if (place == followed_to_node_) return;
    followed_to_node_ = place;
    for (const int32_t rank : ranks_of_node(r.node)) follow_unless_through(r.rank.value, rank, l.channel);
  }

  // The same, with the heads of all nodes, and behind each of them the GPUs of its node.
  void follow_to_all(const RankModel& r, const LaneState& l) {
    ++result_.waits;
    if (!followed_to_all_.insert(l.channel).second) return;
    for (size_t rank = 0; rank < view_.ranks.size(); ++rank)
      follow_unless_through(r.rank.value, static_cast<int32_t>(rank), l.channel);
  }

  void follow_unless_through(int32_t from, int32_t to, int channel) {
    if (to == from || !valid(to)) return;
    if (result_.edges.size() < WalkResult::edges_max) result_.edges.push_back({from, to, channel});
    const RankModel* r = comm_.rank(Rank{to});
    const ChannelState* c = r ? channel_of(*r, channel) : nullptr;
    const bool through = progress(to).progress == Progress::done || (c && c->ended);
    if (!alive(to) || !through) arrive(from, {to, channel, any_group});
  }

  const std::vector<int32_t>& ranks_of_node(int node) {
    if (by_node_.empty()) comm_.visit_ranks([this](const RankModel& r) { by_node_[r.node].push_back(r.rank.value); });
    return by_node_[node];
  }

  // The lane belongs to what its rank did after the operation, and so does the step: the two ends disagree about how
  // many steps the operation has.
  bool beyond_operation(int32_t rank, const LaneState& l, uint32_t step) const {
    if (view_.p2p || view_.replay != 0 || steps_between(l.base_step, step) <= 0) return false;
    const std::vector<InFlightOp>& operations = comm_.rank(Rank{rank})->last.operations;
    return std::any_of(operations.begin(), operations.end(), [&](const InFlightOp& o) {
      return o.plan == l.token && o.begun && o.replay == 0 && o.op > view_.op;
    });
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

  void arrive(int32_t from, const WalkNode& node) {
    if (!visit(node)) {
      if (auto it = result_.ends.find(node); it != result_.ends.end()) it->second.waiters.insert(from);
      return;
    }
    const std::optional<WalkEnd> end = end_at(node);
    if (end) {
      result_.ends[node] = *end;
      result_.ends[node].waiters.insert(from);
    }
  }

  // Whether this is the first visit. One bit for each rank, channel and group; those beyond apart.
  bool visit(const WalkNode& node) {
    constexpr int32_t groups = 31;
    const size_t slot = view_.ranks.slot(static_cast<size_t>(node.rank));
    if (node.channel < 0 || node.channel >= static_cast<int32_t>(abi::channels_max) || node.group >= groups ||
        slot == RankPages::none)
      return visited_apart_.insert(node).second;
    std::vector<uint32_t>& of_channel = visited_[node.channel];
    if (of_channel.empty()) of_channel.resize(view_.ranks.slots());
    uint32_t& groups_visited = of_channel[slot];
    const uint32_t bit = uint32_t{1} << (node.group + 1);
    const bool first = (groups_visited & bit) == 0;
    groups_visited |= bit;
    return first;
  }

  // It has ended the operation after its last snapshot, which still shows it inside.
  bool is_outdated(int32_t rank) const {
    const RankModel& r = *comm_.rank(Rank{rank});
    return progress(rank).progress == Progress::done && r.has_last && shows_op(r);
  }

  // nullopt: it waits for somebody else, or it moves.
  std::optional<WalkEnd> end_at(const WalkNode& node) const {
    const RankProgress& p = progress(node.rank);
    const RankModel* r = comm_.rank(Rank{node.rank});
    if (p.life == Life::unknown || !r) return WalkEnd{EndKind::unknown_rank};
    if (p.life == Life::not_watched) return WalkEnd{EndKind::not_watched};
    if (p.life == Life::left) return WalkEnd{EndKind::left};
    if (!p.reports()) return WalkEnd{EndKind::process, now_ns_ - r->process->heard_ns};
    if (p.progress == Progress::done)  // what it sent is not known before it shows something newer
      return is_outdated(node.rank) ? std::nullopt : std::optional<WalkEnd>(WalkEnd{EndKind::ended});
    if (p.progress != Progress::begun) return WalkEnd{EndKind::not_begun};
    // That it has begun others have proved: what it showed last is older than that.
    if (!shows_op(*r)) return view_.p2p ? std::optional<WalkEnd>(WalkEnd{EndKind::not_begun}) : std::nullopt;
    const ChannelState* c = channel_of(*r, node.channel);
    if (c && c->ended) return WalkEnd{EndKind::ended};
    // What it waits for and whether it moves was not measured: no sign of life is no sign of death.
    constexpr uint8_t needed = abi::signal_steps | abi::signal_waits;
    if ((signals_of(*r) & needed) != needed) return std::nullopt;
    if (view_.p2p) return end_of_calls(*r, node);
    if (c && !c->begun) return WalkEnd{EndKind::not_begun, static_cast<Nanoseconds>(c->running_age_ms) * ns_per_ms};
    Nanoseconds quiet = c ? static_cast<Nanoseconds>(c->running_age_ms) * ns_per_ms : view_.stall_ns;
    for (const LaneState& l : r->lanes_of(node.channel)) {
      if (node.group != any_group && l.group != node.group) continue;
      if (waits(l)) return std::nullopt;
      quiet = std::min(quiet, static_cast<Nanoseconds>(l.moved_age_ms) * ns_per_ms);
      if (l.poll_age_ms != age_never) quiet = std::min(quiet, static_cast<Nanoseconds>(l.poll_age_ms) * ns_per_ms);
    }
    if (quiet < fresh_) return std::nullopt;
    return WalkEnd{EndKind::gpu, quiet + since_sample(*r)};
  }

  // Kernels of Send and Recv serve their peers side by side, and those that find no room one after the other: a peer
  // for which nothing is set up yet waits behind the others of the channel.
  std::optional<WalkEnd> end_of_calls(const RankModel& r, const WalkNode& node) const {
    if (progress(node.rank).waits_outside) return std::nullopt;
    const absl::Span<const LaneState> lanes = r.lanes_of(node.channel);
    if (lanes.empty()) return WalkEnd{EndKind::not_begun, view_.stall_ns};
    Nanoseconds quiet = view_.stall_ns;
    for (const LaneState& l : lanes) {
      if (node.group != any_group && l.group != node.group) continue;
      if (waits(l)) return std::nullopt;
      quiet = std::min(quiet, static_cast<Nanoseconds>(l.moved_age_ms) * ns_per_ms);
      if (l.poll_age_ms != age_never) quiet = std::min(quiet, static_cast<Nanoseconds>(l.poll_age_ms) * ns_per_ms);
    }
    if (quiet < fresh_) return std::nullopt;
    return WalkEnd{EndKind::gpu, quiet + since_sample(r)};
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

  const Communicator& comm_;
  const HangView& view_;
  const Settings& settings_;
  const Nanoseconds now_ns_;
  const Nanoseconds fresh_;
  std::array<std::vector<uint32_t>, abi::channels_max> visited_;  // by slot of RankViews
  absl::flat_hash_set<WalkNode> visited_apart_;
  absl::flat_hash_map<int, std::vector<int32_t>> by_node_;  // filled when it is first wanted
  std::pair<int32_t, int32_t> followed_to_node_{-1, -1};    // the last rank and channel
  std::set<int> followed_to_all_;                           // channels
  WalkResult result_;
};

}  // namespace

Finding locate_inside(const Communicator& comm, const HangView& view, const Settings& settings, Nanoseconds now_ns) {
  return conclude(comm, view, settings, now_ns, Walk(comm, view, settings, now_ns).run());
}

}  // namespace ccld::decision
