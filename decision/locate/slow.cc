#include "decision/locate/slow.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/locate/paper.h"

namespace ccld::decision {
namespace {

// A rank is the same cause over the window if it is among the last in this part of the slow rounds; imbalance that
// moves between two ranks reaches a half.
constexpr double late_part_min = 0.6;
// A stage explains a loss if, on average, at least half a step sat in it during the lost time.
constexpr double waiting_steps_min = 0.5;

struct LateRanks {
  std::vector<Rank> ranks;
  double lost_ns = 0;  // of these ranks
};

LateRanks find_late_ranks(const SlowWindow& w) {
  LateRanks late;
  for (size_t r = 0; r < w.rank_late.size(); ++r) {
    if (w.rank_late[r] < late_part_min * static_cast<double>(w.slow_rounds)) continue;
    late.ranks.push_back(Rank{static_cast<int32_t>(r)});
    late.lost_ns += w.rank_lost_ns[r];
  }
  return late;
}

struct SlowStage {
  Edge edge;
  Stage stage = Stage::wire;
  double waiting_steps = 0;
  int net_device = -1;
};

bool in_receiving_gpu(Stage s) { return s == Stage::receiver_gpu || s == Stage::gpu_to_gpu; }

// Steps queue up in front of the slow stage, so of the stages of an edge that grew the last one is slow; and of the
// edges that grew, one whose receiver does not in turn wait for its own slow edge.
class StageSearch {
 public:
  // `network_only`: a late rank keeps its neighbours' steps waiting for its GPU; then only proxies and wires are
  // evidence.
  StageSearch(const SlowWindow& w, bool network_only) : network_only_(network_only) {
    if (w.staged_ns <= 0) return;
    for (const auto& [edge, loss] : w.edges)
      if (std::optional<SlowStage> s = last_grown(edge, loss, w.staged_ns)) grown_.push_back(*s);
    std::sort(grown_.begin(), grown_.end(), [](const SlowStage& a, const SlowStage& b) {
      return a.waiting_steps != b.waiting_steps ? a.waiting_steps > b.waiting_steps : a.edge < b.edge;
    });
  }

  std::optional<SlowStage> find() const {
    if (grown_.empty()) return std::nullopt;
    SlowStage at = grown_[0];
    std::set<int32_t> visited;
    while (in_receiving_gpu(at.stage) && visited.insert(at.edge.receiver).second) {
      auto next = std::find_if(grown_.begin(), grown_.end(), [&](const SlowStage& s) {
        return s.edge.sender == at.edge.receiver && s.edge.receiver != at.edge.sender &&
               s.edge.channel == at.edge.channel;
      });
      if (next == grown_.end()) break;
      at = *next;
    }
    return at;
  }
  const std::vector<SlowStage>& grown() const { return grown_; }

 private:
  std::optional<SlowStage> last_grown(const Edge& edge, const EdgeLoss& loss, double lost_ns) const {
    constexpr Stage order[] = {Stage::gpu_to_gpu, Stage::receiver_gpu, Stage::receiver_proxy,
                               Stage::wire,       Stage::sender_nic,   Stage::sender_proxy};
    for (Stage s : order) {
      if (network_only_ && in_receiving_gpu(s)) continue;
      const double steps = loss.waited_ns[static_cast<size_t>(s)] / lost_ns;
      if (steps >= waiting_steps_min) return SlowStage{edge, s, steps, loss.net_device};
    }
    return std::nullopt;
  }
  bool network_only_;
  std::vector<SlowStage> grown_;
};

Culprit culprit_of(const Communicator& comm, const SlowStage& s, int channel) {
  const Rank sender{s.edge.sender}, receiver{s.edge.receiver};
  const std::string steps = absl::StrFormat("%.1f more steps on average", s.waiting_steps);
  Culprit c;
  switch (s.stage) {
    case Stage::sender_proxy:
      c = make_culprit(comm, sender, Component::proxy,
                       absl::StrCat(steps, " wait in its proxy towards rank ", receiver.value));
      c.peer = receiver;
      break;
    case Stage::sender_nic:
      c = make_culprit(comm, sender, Component::nic,
                       absl::StrCat(steps, " wait in its network device towards rank ", receiver.value));
      c.peer = receiver;
      break;
    case Stage::wire:
      c = make_culprit(comm, sender, Component::link, absl::StrCat(steps, " on the wire to rank ", receiver.value));
      c.peer = receiver;
      break;
    case Stage::receiver_proxy:
      c = make_culprit(comm, receiver, Component::proxy,
                       absl::StrCat(steps, " wait in its proxy from rank ", sender.value));
      c.peer = sender;
      break;
    case Stage::receiver_gpu:
    case Stage::gpu_to_gpu:
      c = make_culprit(comm, receiver, Component::gpu,
                       absl::StrCat(steps, " from rank ", sender.value, " wait for its GPU"));
      break;
  }
  c.channel = channel;
  if (c.component == Component::nic || c.component == Component::link)
    c.net_name = net_name_of(comm, sender, abi::Direction::send, receiver, channel);
  return c;
}

// The slow stage of every channel that shares the pair and the stage is one culprit.
struct SlowEdge {
  SlowStage stage;
  int channel;
};

std::optional<SlowEdge> find_slow_edge(const SlowWindow& w, bool network_only, Finding& f) {
  const StageSearch search(w, network_only);
  const std::optional<SlowStage> found = search.find();
  size_t rows = 0;
  for (const SlowStage& s : search.grown()) {
    if (rows++ == 6) break;
    add_evidence(f, s.edge.sender,
                 absl::StrCat("to rank ", s.edge.receiver, ", channel ", s.edge.channel, ": more steps than usual ",
                              name(s.stage)),
                 s.waiting_steps, "steps");
  }
  if (!found) return std::nullopt;
  int channels = 0;
  for (const SlowStage& s : search.grown())
    channels +=
        s.edge.sender == found->edge.sender && s.edge.receiver == found->edge.receiver && s.stage == found->stage;
  return SlowEdge{*found, channels > 1 ? -1 : found->edge.channel};
}

void describe_window(Finding& f, const SlowWindow& w) {
  const double rounds = static_cast<double>(std::max<uint64_t>(w.slow_rounds, 1));
  add_evidence(f, -1, "slow rounds", static_cast<double>(w.slow_rounds), "rounds");
  add_evidence(f, -1, "of rounds", static_cast<double>(w.rounds), "rounds");
  add_evidence(f, -1, "T_base", w.base_ns / rounds / 1e6, "ms");
  add_evidence(f, -1, "lost in a slow round", w.lost_ns / rounds / 1e6, "ms");
  add_evidence(f, -1, "of it between operations (computation)", w.computation_ns / rounds / 1e6, "ms");
  add_evidence(f, -1, "of it since the last start (communication)", w.communication_ns / rounds / 1e6, "ms");
  if (w.elsewhere_ns > 0) add_evidence(f, -1, "of it in other communicators", w.elsewhere_ns / rounds / 1e6, "ms");
  add_evidence(f, -1, "R of the worst round", w.worst.ratio(), "");
  add_evidence(f, -1, "P of the worst round", w.worst.p(), "");
}

void collect_victims(const Communicator& comm, Finding& f) {
  for (int r = 0; r < comm.rank_count(); ++r)
    if (std::none_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return c.rank.value == r; }))
      f.victims.push_back(Rank{r});
}

}  // namespace

std::optional<Finding> locate_slow(const Communicator& comm, const SlowWindow& w, const Settings& settings) {
  Finding f;
  f.op = w.first_slow_op;
  f.signature = w.signature;
  describe_window(f, w);
  const double total = w.computation_ns + w.communication_ns + w.elsewhere_ns;
  if (total <= 0) return std::nullopt;
  const LateRanks late = find_late_ranks(w);
  const bool computation = !late.ranks.empty() && w.computation_ns >= settings.slow_component_share_min * total;
  const bool communication = w.communication_ns >= settings.slow_component_share_min * total;
  // Late because another communicator was slow: that one has the finding.
  if (!computation && w.elsewhere_ns > w.communication_ns) return std::nullopt;
  // Lateness that moves from rank to rank is no fault, however much it takes.
  if (!computation && w.computation_ns > w.communication_ns) return std::nullopt;
  if (!computation && !communication) return std::nullopt;

  std::optional<SlowEdge> edge;
  if (communication) edge = find_slow_edge(w, computation, f);

  if (computation) {
    for (Rank r : late.ranks) {
      const double lost_ns = w.rank_lost_ns[r.value], rounds = static_cast<double>(w.rank_late[r.value]);
      const bool queued = w.rank_queued_ns[r.value] >= lost_ns / 2;
      Culprit c = make_culprit(
          comm, r, queued ? Component::gpu : Component::process,
          absl::StrFormat("%.1f ms later than its peers in %.0f of %u slow rounds: %s", lost_ns / rounds / 1e6, rounds,
                          w.slow_rounds, queued ? "its GPU was busy before the kernel began" : "it launches late"));
      c.lost_time_share = late.lost_ns > 0 ? w.computation_ns / total * lost_ns / late.lost_ns : 0;
      if (f.culprits.size() < culprits_max) f.culprits.push_back(std::move(c));
      add_evidence(f, r.value, "gap between operations beyond its peers'", lost_ns / rounds / 1e6, "ms");
      add_evidence(f, r.value, "of it from launch to begin of the kernel", w.rank_queued_ns[r.value] / rounds / 1e6,
                   "ms");
    }
  }
  if (edge) {
    Culprit c = culprit_of(comm, edge->stage, edge->channel);
    c.lost_time_share = w.communication_ns / total;
    f.culprits.push_back(std::move(c));
  }
  if (computation && edge) {
    f.fault = FaultClass::s3_mixed_slow;
    f.confidence = 0.85;
    f.next_step = "Two causes: look at the late rank (GPU clocks, data loading, host) and at the named link.";
  } else if (computation) {
    f.fault = FaultClass::s1_computation_slow;
    f.confidence = communication ? 0.75 : 0.9;
    f.next_step =
        "Compare GPU clocks, temperature and power, CPU load and data loading of the named rank with its peers'.";
  } else {
    f.fault = FaultClass::s2_communication_slow;
    f.confidence = edge ? 0.9 : 0.3;
    f.next_step = edge ? "Check the named device or link: negotiated rate, errors, congestion, other traffic."
                       : "No link stands out: compare link rates of all nodes, and check whether the whole fabric or "
                         "machine is busy.";
  }
  collect_victims(comm, f);
  return f;
}

std::optional<Finding> locate_slow_paper(const Communicator& comm, const SlowWindow& w, const Settings& settings) {
  const SlowWindow::Worst& worst = w.worst;
  Finding f;
  f.op = worst.op;
  f.signature = worst.signature;
  const double p = worst.p();
  add_evidence(f, -1, "T_max", worst.t_max_ns / 1e6, "ms");
  add_evidence(f, -1, "T_min", worst.t_min_ns / 1e6, "ms");
  add_evidence(f, -1, worst.base_is_fixed ? "T_base of the first rounds" : "T_base as configured (slow at start)",
               worst.t_base_ns / 1e6, "ms");
  add_evidence(f, -1, "R", worst.ratio(), "");
  add_evidence(f, -1, "P", p, "");
  f.fault = p > settings.slow_beta    ? FaultClass::s1_computation_slow
            : p < settings.slow_alpha ? FaultClass::s2_communication_slow
                                      : FaultClass::s3_mixed_slow;
  // The layer with the largest range: where the least duration and the least rate are looked for.
  std::vector<Rank> layer;
  for (const auto& group : comparable_groups(comm, worst.signature.algorithm)) {
    Nanoseconds high = 0, low = INT64_MAX;
    for (Rank r : group) {
      high = std::max(high, worst.durations_ns[r.value]);
      low = std::min(low, worst.durations_ns[r.value]);
    }
    if (layer.empty() || static_cast<double>(high - low) == worst.range_ns) layer = group;
  }
  if (f.fault != FaultClass::s2_communication_slow) {
    const Rank r = *std::min_element(layer.begin(), layer.end(), [&](Rank a, Rank b) {
      return worst.durations_ns[a.value] < worst.durations_ns[b.value];
    });
    f.culprits.push_back(make_culprit(comm, r, Component::unknown, "least communication time"));
    f.culprits.back().lost_time_share = std::min(1.0, p);
  }
  if (f.fault != FaultClass::s1_computation_slow) {
    // A rate is the reciprocal of the number of changes: the most changes are the least rate.
    const auto changes = [&](Rank r) { return worst.send_changes[r.value] + worst.recv_changes[r.value]; };
    const Rank r =
        *std::max_element(layer.begin(), layer.end(), [&](Rank a, Rank b) { return changes(a) < changes(b); });
    const bool tie = std::count_if(layer.begin(), layer.end(), [&](Rank x) { return changes(x) == changes(r); }) > 1;
    if (tie) {
      for (Rank x : layer)
        if (changes(x) == changes(r)) f.candidates.push_back(x);
    } else {
      f.culprits.push_back(make_culprit(comm, r, Component::unknown, "least SendRate and RecvRate"));
      f.culprits.back().lost_time_share = std::clamp(1 - p, 0.0, 1.0);
      add_evidence(f, r.value, "changes of SendCount and RecvCount", changes(r), "samples");
    }
  }
  f.confidence = 0.5;
  f.next_step = "Rules of the paper: run with rules=measured for shares of lost time and stages of links.";
  collect_victims(comm, f);
  return f;
}

bool same_cause(const std::vector<Culprit>& a, const std::vector<Culprit>& b) {
  if (a.empty() || b.empty()) return a.empty() && b.empty();
  for (const Culprit& x : a)
    for (const Culprit& y : b)
      if (x.rank == y.rank && x.peer == y.peer) return true;
  return false;
}

bool same_cause(const Finding& a, const Finding& b) { return same_cause(a.culprits, b.culprits); }

}  // namespace ccld::decision
