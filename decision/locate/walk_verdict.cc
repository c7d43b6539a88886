#include "decision/locate/walk_verdict.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/locate/busy_host.h"
#include "decision/locate/wait_chain.h"
#include "decision/model/signature.h"

namespace ccld::decision {
namespace {

class Verdict {
 public:
  Verdict(const Communicator& comm, const HangView& view, const Settings& settings, Nanoseconds now_ns,
          const WalkResult& result)
      : comm_(comm),
        view_(view),
        settings_(settings),
        now_ns_(now_ns),
        fresh_(fresh_ns(view, settings)),
        result_(result) {}

  Finding conclude() const {
    Finding f;
    f.fault = FaultClass::h3_hardware;
    f.op = view_.op;
    f.replay = view_.replay;
    f.signature = view_.signature;
    int best = 9;
    for (const auto& [node, end] : result_.ends) best = std::min(best, priority(end.kind));
    if (!result_.stops.empty()) best = std::min(best, priority_of_edge);
    if (best == 9) return nobody(f);
    if (best == priority_of_edge)
      name_edges(f);
    else
      name_ends(f, best);
    add_evidence(f, {.kind = EvidenceKind::waits_followed, .value = static_cast<double>(result_.waits)});
    f.waits = waits_towards(comm_, f, result_, now_ns_);
    return f;
  }

 private:
  const RankProgress& progress(int32_t rank) const { return view_.ranks[rank]; }

  // What it has done since its last word is not known.
  Nanoseconds unseen_ns(Rank r) const {
    const RankModel* m = comm_.rank(r);
    return m ? std::max<Nanoseconds>(0, now_ns_ - m->sampled_ns) : 0;
  }

  bool several_channels() const {
    uint64_t used = 0;
    for (const RankModel& r : comm_.ranks()) {
      if (view_.p2p)
        for (const LaneState& l : r.last.lanes) used |= uint64_t{1} << l.channel % abi::channels_max;
      else if (const InFlightOp* o = find_op(r, view_.key()))
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
      case EndKind::left: return 5;
      case EndKind::not_watched: return 6;
      case EndKind::ended: return 7;
    }
    return 9;
  }
  static constexpr int priority_of_edge = 3;

  void name_ends(Finding& f, int best) const {
    std::map<int32_t, std::vector<std::pair<WalkNode, const WalkEnd*>>> by_rank;
    for (const auto& [node, end] : result_.ends)
      if (priority(end.kind) == best) by_rank[node.rank].push_back({node, &end});
    const bool several = several_channels();
    // Who cannot come back explains those who may have fallen silent because of him.
    const bool certain = std::any_of(by_rank.begin(), by_rank.end(),
                                     [&](const auto& r) { return cannot_return(progress(r.first).life); });
    Nanoseconds seen_min = INT64_MAX;  // for how long all were seen to stand
    bool known = true;                 // whether they got a processor
    for (const auto& [rank, nodes] : by_rank) {
      if (certain && !cannot_return(progress(rank).life)) {
        f.candidates.push_back(Rank{rank});
        continue;
      }
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
      const Nanoseconds stands_ns = kind == EndKind::not_begun ? view_.stall_ns : quiet;
      seen_min = std::min(seen_min, stands_ns - unseen_ns(r));
      known &= starved_is_known(comm_, r, stands_ns, now_ns_);
      const int channel = channels.size() == 1 && several ? *channels.begin() : -1;
      const std::string where = channel >= 0 ? absl::StrCat(" on channel ", channel) : "";
      Culprit c;
      switch (kind) {
        case EndKind::process: {
          const Life life = progress(rank).life;
          c = make_culprit(comm_, r, life == Life::host_silent ? Component::host : Component::process,
                           condition_of(life),
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
          if (auto lack = lacks_processor(f, r, Mover::gpu, stands_ns)) {
            c = *std::move(lack);
            break;
          }
          c = make_culprit(comm_, r, Component::gpu, Condition::kernel_stuck,
                           absl::StrCat("its kernel neither moves nor waits", where));
          c.channel = channel;
          break;
        case EndKind::not_begun:
          if (auto lack = lacks_processor(f, r, Mover::gpu, stands_ns)) {
            c = *std::move(lack);
            break;
          }
          c = make_culprit(comm_, r, Component::gpu, Condition::kernel_not_begun,
                           absl::StrCat("its kernel has not begun", where));
          c.channel = channel;
          if (channel < 0 && !view_.p2p) f.wanted.push_back(r);
          break;
        case EndKind::unknown_rank:
          c = make_culprit(comm_, r, Component::process, Condition::never_heard,
                           "it was never heard of, and others wait for it");
          f.wanted.push_back(r);
          break;
        case EndKind::left: f.wanted.push_back(r); break;
        case EndKind::not_watched:
        case EndKind::ended: f.candidates.push_back(r); break;
      }
      add_evidence(
          f, {.kind = EvidenceKind::waiters, .rank = rank, .channel = channel, .value = static_cast<double>(waiters)});
      if (kind != EndKind::ended && kind != EndKind::unknown_rank && kind != EndKind::left &&
          kind != EndKind::not_watched)
        add_evidence(f, {.kind = EvidenceKind::not_moved,
                         .rank = rank,
                         .channel = channel,
                         .value = static_cast<double>(quiet) / 1e6});
      if (kind == EndKind::left || kind == EndKind::not_watched) continue;
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
        f.hard = known && seen_min >= seconds_to_ns(settings_.frozen_s);
        f.next_step =
            "Check the GPU: XID errors, ECC, NVLink state; a kernel that neither polls nor moves is stuck on the "
            "device.";
        break;
      case EndKind::not_begun:
        f.confidence = 0.7;
        // While connections are set up and modules loaded, channels of a kernel may begin seconds apart.
        f.hard = known && !view_.warmup && seen_min >= seconds_to_ns(settings_.frozen_s);
        f.next_step = "The kernel runs on other channels only: look for other kernels that hold this GPU's SMs.";
        break;
      case EndKind::unknown_rank:
        f.fault = FaultClass::h1_not_entered;
        f.confidence = 0.4;
        f.next_step = "Check that the process runs this library and can reach the service.";
        break;
      case EndKind::left:
        f.confidence = 0.2;
        f.next_step = "The waits lead to a process that left because of another: look for what happened first.";
        break;
      case EndKind::not_watched:
        f.confidence = 0.2;
        f.next_step =
            "The waits lead to a rank whose probe an operator has stopped: start it again (ccld tune --job JOB "
            "running=1) to see on.";
        break;
      case EndKind::ended:
        f.fault = FaultClass::h2_inconsistent;
        f.confidence = 0.4;
        f.next_step =
            "A rank ended without sending what another expects: compare sizes and order of operations of the "
            "candidates.";
        name_odd_one(f);
        break;
    }
    weigh_starved(f);
  }

  // Of an operation that nobody can end before all have given their part, either all ranks end or none: the only one
  // that did, or did not, differs from the others.
  void name_odd_one(Finding& f) const {
    if (view_.p2p || !needs_everybody(view_.signature.function)) return;
    const auto only = [&](Progress progress) {
      std::optional<Rank> first;
      view_.ranks.visit([&](Rank rank, const RankProgress& p) {
        if (p.progress == progress && !first) first = rank;
      });
      const size_t all = view_.ranks.count([&](const RankProgress& p) { return p.progress == progress; });
      return std::pair(all, first.value_or(Rank{-1}));
    };
    const auto [done, first_done] = only(Progress::done);
    const auto [inside, first_inside] = only(Progress::begun);
    const bool early = done == 1 && inside > 1;
    if (!early && !(inside == 1 && done > 1)) return;
    const Rank odd = early ? first_done : first_inside;
    f.culprits = {make_culprit(comm_, odd, Component::application,
                               early ? Condition::ended_early : Condition::ended_late,
                               absl::StrCat(early ? "ended operation " : "is alone in operation ", view_.op.value,
                                            early ? ", of which all others expect more steps"
                                                  : " and expects more steps than all others had"))};
    f.candidates.clear();
    f.confidence = 0.7;
  }

  static EndKind ends_kind(int best) {
    for (EndKind k : {EndKind::process, EndKind::gpu, EndKind::not_begun, EndKind::unknown_rank, EndKind::left,
                      EndKind::not_watched, EndKind::ended})
      if (priority(k) == best) return k;
    return EndKind::ended;
  }

  void name_edges(Finding& f) const {
    // One culprit per pair and component; several channels of the same pair are one link.
    struct Merged {
      EdgeVerdict verdict;
      std::set<int> channels;
      std::set<std::pair<Rank, Mover>> movers;  // who may be the reason by not running
    };
    std::map<std::tuple<int32_t, int32_t, int>, Merged> merged;
    Nanoseconds age_min = INT64_MAX, seen_min = INT64_MAX;
    for (const auto& [edge, age] : result_.stops) {
      EdgeVerdict v = judge_edge(comm_, view_, edge, fresh_);
      age_min = std::min(age_min, age);
      seen_min = std::min(seen_min, age - std::max(unseen_ns(edge.sender), unseen_ns(edge.receiver)));
      const auto key = std::make_tuple(v.culprit.rank.value, v.culprit.peer ? v.culprit.peer->value : -1,
                                       static_cast<int>(v.culprit.component));
      Merged& m = merged.try_emplace(key, Merged{v, {}, {}}).first->second;
      m.channels.insert(edge.channel);
      switch (v.culprit.component) {
        case Component::gpu: m.movers.insert({v.culprit.rank, Mover::gpu}); break;
        case Component::proxy: m.movers.insert({v.culprit.rank, Mover::proxies}); break;
        default:
          if (v.sender_may_starve) m.movers.insert({edge.sender, Mover::proxies});
          if (v.receiver_may_starve) m.movers.insert({edge.receiver, Mover::proxies});
          break;
      }
    }
    const bool several = several_channels();
    // An edge that is known to be at fault explains those of which both ends are left.
    const bool single =
        std::any_of(merged.begin(), merged.end(), [](const auto& m) { return m.second.verdict.single; });
    f.confidence = 1;
    bool given = true, known = true;
    std::map<std::pair<Rank, Mover>, bool> lacks;
    // Names those of them that lack one.
    const auto any_lacks_processor = [&](const std::set<std::pair<Rank, Mover>>& movers) {
      bool any = false;
      for (const auto& mover : movers) {
        const auto [at, added] = lacks.try_emplace(mover);
        if (added)
          if (auto lack = lacks_processor(f, mover.first, mover.second, age_min)) {
            at->second = true;
            if (f.culprits.size() < culprits_max) f.culprits.push_back(*std::move(lack));
          }
        any |= at->second;
        known &= starved_is_known(comm_, mover.first, age_min, now_ns_);
      }
      return any;
    };
    for (auto& [key, value] : merged) {
      auto& [verdict, channels, movers] = value;
      if (single && !verdict.single) continue;
      if (channels.size() > 1 || !several) verdict.culprit.channel = -1;
      f.confidence = std::min(f.confidence, verdict.confidence);
      given &= verdict.given;
      for (const Evidence& e : verdict.evidence) add_evidence(f, e);
      if (any_lacks_processor(movers)) continue;
      if (verdict.single) {
        if (f.culprits.size() < culprits_max) f.culprits.push_back(verdict.culprit);
      } else {
        f.candidates.push_back(verdict.culprit.rank);
        if (verdict.culprit.peer) f.candidates.push_back(*verdict.culprit.peer);
      }
    }
    std::sort(f.candidates.begin(), f.candidates.end());
    f.candidates.erase(std::unique(f.candidates.begin(), f.candidates.end()), f.candidates.end());
    f.hard = given && known && seen_min >= seconds_to_ns(settings_.frozen_s) && nobody_starves(age_min);
    const bool other_proxy =
        std::any_of(merged.begin(), merged.end(), [](const auto& m) { return m.second.verdict.other_proxy; });
    f.next_step =
        single ? "Check the link between the two ranks: port counters, cable, switch, routing, firewall."
        : other_proxy
            ? "A proxy of another rank sends here (PXN) and is not measured: look at the ranks of the sender's node "
              "that are next to its network devices, then at the link."
            : "Two GPUs of one node disagree about what was sent: compare the sizes of their operations, "
              "then check NVLink and PCIe.";
    weigh_starved(f);
  }

  // Where an end of an edge does, nothing about the edge is certain.
  bool nobody_starves(Nanoseconds quiet_ns) const {
    std::set<Rank> ends;
    for (const auto& [edge, age] : result_.stops) ends.insert({edge.sender, edge.receiver});
    return std::none_of(ends.begin(), ends.end(), [&](Rank r) {
      return starved(comm_, r, Mover::gpu, quiet_ns, now_ns_, settings_) ||
             starved(comm_, r, Mover::proxies, quiet_ns, now_ns_, settings_);
    });
  }

  // Who cannot run for want of a processor moves nothing, and is not stuck: what keeps it from one is the cause.
  std::optional<Culprit> lacks_processor(Finding& f, Rank r, Mover mover, Nanoseconds quiet_ns) const {
    return starved(comm_, r, mover, quiet_ns, now_ns_, settings_, f);
  }

  Finding nobody(Finding& f) const {
    // A cycle of waits without an end: the ranks that stopped first are what is left.
    Nanoseconds oldest = INT64_MAX;
    for (const RankModel& r : comm_.ranks())
      if (progress(r.rank.value).progress == Progress::begun) oldest = std::min(oldest, r.moved_ns);
    for (const RankModel& r : comm_.ranks())
      if (progress(r.rank.value).progress == Progress::begun && r.moved_ns <= oldest + ns_per_ms)
        f.candidates.push_back(r.rank);
    f.confidence = 0.2;
    add_evidence(f, {.kind = EvidenceKind::waits_without_end, .value = static_cast<double>(result_.waits)});
    f.waits = waits_towards(comm_, f, result_, now_ns_);
    f.next_step =
        "The waits form a cycle or are not visible: take device stacks of the candidates, which stopped first.";
    return f;
  }

  const Communicator& comm_;
  const HangView& view_;
  const Settings& settings_;
  const Nanoseconds now_ns_;
  const Nanoseconds fresh_;
  const WalkResult& result_;
};

}  // namespace

Finding conclude(const Communicator& comm, const HangView& view, const Settings& settings, Nanoseconds now_ns,
                 const WalkResult& result) {
  return Verdict(comm, view, settings, now_ns, result).conclude();
}

}  // namespace ccld::decision
