#include "decision/import/judge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/import/differences.h"
#include "decision/import/shapes.h"
#include "decision/import/stalls.h"
#include "decision/model/digits.h"

namespace ccld::decision::dumps {
namespace {

// Beyond any timeout in use, a file was copied or touched long after the dump: its time says nothing.
constexpr Nanoseconds written_after_ns_max = 24 * 3600 * ns_per_s;

// How sure a verdict is, by what proves it. These are judgements, not measurements: there is no set of dumps with known
// faults.
constexpr double sure_timed_out = 0.95;  // a watchdog gave the call up
constexpr double sure_shown = 0.85;      // the dumps show that it stood for stall_shown_s
constexpr double sure_behind = 0.6;      // a rank is behind; how long the others waited is not shown
constexpr double sure_lost = 0.4;       // the dump of the rank that may be missing does not reach back, or is not there
constexpr double sure_hardware = 0.35;  // everybody is in it
constexpr double sure_differs = 0.95;   // differing calls of one number are a fault by themselves
constexpr double sure_sides = 0.9;      // ... where no majority says who is wrong
constexpr double sure_circle = 0.6;

constexpr size_t victims_named_max = 16;
constexpr size_t shapes_named_max = 4;
constexpr size_t under_way_named_max = 3;

std::string group_name(const Group& g) {
  if (g.description.empty()) return absl::StrCat("group ", g.name);
  return g.description == g.name ? g.name : absl::StrCat(g.description, " (group ", g.name, ")");
}

class Judge {
 public:
  Judge(const Job& job, const Thresholds& thresholds) : job_(job), thresholds_(thresholds) {}

  Findings run() {
    stalls_ = find_stalls(job_);
    differences_ = find_differences(job_);
    give_to_differences();
    link();
    merge_roots();
    for (size_t d = 0; d < differences_.size(); ++d) report(differences_[d], d);
    for (size_t i = 0; i < stalls_.size(); ++i)
      if (part_of_[i] < 0 && is_root(i) && same_as_[i] == i) report(i);
    for (size_t i = 0; i < stalls_.size(); ++i)
      if (part_of_[i] < 0 && !told_.contains(i)) report_circle(i);
    return finish();
  }

 private:
  bool shown(const Stall& s) const {
    return s.timed_out > 0 || (s.since_ns > 0 && job_.newest_ns - s.since_ns >= thresholds_.stall_shown_ns());
  }
  // By the times of the files, which copies lose.
  bool may_be_shown(const Stall& s) const {
    const Nanoseconds after_ns = job_.written_ns - s.since_ns;
    return s.since_ns > 0 && after_ns >= thresholds_.stall_shown_ns() && after_ns <= written_after_ns_max;
  }

  const Group& group(const Stall& s) const { return job_.groups[s.group]; }
  int job_rank(const Stall& s, int member) const { return group(s).members[static_cast<size_t>(member)].rank; }

  // A hang that begins where calls of its group differ is part of that.
  void give_to_differences() {
    part_of_.assign(stalls_.size(), -1);
    for (size_t i = 0; i < stalls_.size(); ++i)
      for (size_t d = 0; d < differences_.size(); ++d) {
        const Difference& known = differences_[d];
        const Stall& s = stalls_[i];
        if (known.group != s.group || (known.sequence == 0) != s.transfer) continue;
        if (!s.transfer && known.sequence > s.sequence) continue;
        if (s.transfer && !known.hangs) continue;
        part_of_[i] = static_cast<int>(d);
      }
  }

  // Which stalls hold the ranks that a stall misses.
  void link() {
    std::map<int, std::vector<size_t>> waits_in;  // rank of the job
    for (size_t i = 0; i < stalls_.size(); ++i)
      for (const int m : stalls_[i].waiting) waits_in[job_rank(stalls_[i], m)].push_back(i);
    // Who is done with a group's oldest call waits in a later one of it.
    for (size_t i = 0; i < stalls_.size(); ++i)
      for (const int m : stalls_[i].done) {
        const std::vector<Call>& calls = group(stalls_[i]).members[static_cast<size_t>(m)].collectives;
        if (!calls.empty() && calls.back().in_flight()) waits_in[job_rank(stalls_[i], m)].push_back(i);
      }
    depends_.resize(stalls_.size());
    free_.resize(stalls_.size());
    for (size_t i = 0; i < stalls_.size(); ++i)
      for (const int m : stalls_[i].absent) {
        std::vector<size_t> elsewhere;
        for (const size_t j : waits_in[job_rank(stalls_[i], m)])
          if (j != i) elsewhere.push_back(j);
        if (elsewhere.empty()) free_[i].push_back(m);
        for (const size_t j : elsewhere) depends_[i].emplace(j, m);
      }
  }
  // Its cause is not elsewhere.
  bool is_root(size_t i) const { return depends_[i].empty() || !free_[i].empty(); }

  // A rank that calls nothing any more is missed by several groups: the oldest call that misses it is the place of the
  // cause, and the later ones wait for the same.
  void merge_roots() {
    same_as_.resize(stalls_.size());
    std::vector<size_t> roots;
    for (size_t i = 0; i < stalls_.size(); ++i) {
      same_as_[i] = i;
      if (part_of_[i] < 0 && is_root(i) && !free_[i].empty()) roots.push_back(i);
    }
    std::stable_sort(roots.begin(), roots.end(),
                     [this](size_t a, size_t b) { return stalls_[a].since_ns < stalls_[b].since_ns; });
    std::map<int, size_t> missed_by;  // rank of the job: the oldest stall that misses it
    for (const size_t i : roots) {
      std::set<size_t> older;
      for (const int m : free_[i]) older.insert(missed_by.try_emplace(job_rank(stalls_[i], m), i).first->second);
      if (older.size() == 1) same_as_[i] = *older.begin();
    }
  }

  // Stalls that wait for one of `roots`, over others.
  std::vector<size_t> victims_of(const std::set<size_t>& roots) {
    std::set<size_t> reached = roots;
    for (bool grows = true; grows;) {
      grows = false;
      for (size_t i = 0; i < stalls_.size(); ++i) {
        if (reached.contains(i) || part_of_[i] >= 0 || is_root(i)) continue;
        if (std::none_of(depends_[i].begin(), depends_[i].end(),
                         [&](const auto& d) { return reached.contains(d.first); }))
          continue;
        reached.insert(i);
        grows = true;
      }
    }
    std::vector<size_t> out;
    for (const size_t i : reached)
      if (!roots.contains(i)) out.push_back(i);
    return out;
  }

  Incident begin(size_t group_number, uint64_t sequence, uint32_t shape, Nanoseconds since_ns) {
    const Group& g = job_.groups[group_number];
    Incident i;
    i.revision = 1;
    i.comm = CommUid{g.id};
    i.comm_name = group_name(g);
    i.rank_count = static_cast<int>(g.members.size());
    i.op = OpSeq{sequence};
    if (shape < job_.shapes.size()) i.signature = signature_of(job_.shapes[shape]);
    i.onset_ns = since_ns;
    return i;
  }

  Culprit culprit(size_t group_number, int member, Condition condition, Component component, std::string reason) const {
    Culprit c;
    c.rank = Rank{member};
    c.job_rank = Rank{job_.groups[group_number].members[static_cast<size_t>(member)].rank};
    c.condition = condition;
    c.component = component;
    c.reason = std::move(reason);
    return c;
  }

  void add_victims(Incident& i, std::vector<int> waiting, const std::set<size_t>& roots) {
    std::sort(waiting.begin(), waiting.end());
    waiting.erase(std::unique(waiting.begin(), waiting.end()), waiting.end());
    i.victim_count = static_cast<uint32_t>(waiting.size());
    for (size_t v = 0; v < std::min(waiting.size(), victims_named_max); ++v)
      i.victim_sample.push_back(Rank{waiting[v]});
    std::set<size_t> causes = roots;
    std::vector<size_t> victims;
    for (size_t s = 0; s < same_as_.size(); ++s)
      if (!roots.contains(s) && roots.contains(same_as_[s])) {
        victims.push_back(s);
        causes.insert(s);
      }
    const std::vector<size_t> further = victims_of(causes);
    victims.insert(victims.end(), further.begin(), further.end());
    for (const size_t victim : victims) {
      told_.insert(victim);
      const Stall& s = stalls_[victim];
      ++i.victim_comm_count;
      if (i.victim_comms.size() < victim_comms_max)
        i.victim_comms.push_back(
            {CommUid{group(s).id}, group_name(group(s)), static_cast<int>(group(s).members.size()), OpSeq{s.sequence}});
    }
  }

  void add_evidence(Incident& i, EvidenceKind kind, double value, std::string subject = "", std::string unit = "",
                    int rank = -1) {
    i.evidence.push_back({.kind = kind,
                          .rank = rank,
                          .op = i.op,
                          .subject = std::move(subject),
                          .value = value,
                          .unit = std::move(unit)});
  }
  void add_frame(Incident& i, uint32_t frame, const char* who) {
    if (frame != 0)
      i.next_step =
          absl::StrCat(i.next_step, i.next_step.empty() ? "" : " ", who, " called it at ", job_.frames[frame], ".");
  }
  void publish(Incident i) { findings_.incidents.push_back(std::move(i)); }

  // ---- H2 ----

  void report(const Difference& d, size_t number) {
    Incident i = begin(d.group, d.sequence, d.shape, d.since_ns);
    i.fault = FaultClass::h2_inconsistent;
    i.state = VerdictState::confirmed;
    i.confidence = d.differing.empty() ? sure_sides : sure_differs;
    for (const Difference::Rank& r : d.differing)
      i.culprits.push_back(culprit(d.group, r.member, r.condition, Component::application, r.reason));
    for (const int m : d.candidates) i.candidates.push_back(Rank{m});
    i.title = d.title;
    for (size_t s = 0; s < std::min(d.sides.size(), shapes_named_max); ++s)
      add_evidence(i, EvidenceKind::ranks_calling, static_cast<double>(d.sides[s].second),
                   shape_text(job_.shapes[d.sides[s].first]));
    std::set<size_t> own;
    std::vector<int> waiting;
    for (size_t s = 0; s < stalls_.size(); ++s) {
      if (part_of_[s] != static_cast<int>(number)) continue;
      own.insert(s);
      waiting.insert(waiting.end(), stalls_[s].waiting.begin(), stalls_[s].waiting.end());
      if (!stalls_[s].transfer) i.hangs_since = OpSeq{stalls_[s].sequence};
    }
    if (i.hangs_since.value != 0) add_evidence(i, EvidenceKind::hangs_since, static_cast<double>(i.hangs_since.value));
    add_victims(i, std::move(waiting), own);
    i.next_step = i.culprits.empty() ? "Compare the code that made these calls on the candidates."
                                     : "Look at the code that made this call on the ranks that differ.";
    if (!d.differing.empty()) add_frame(i, d.differing[0].frame, absl::StrCat("Rank ", d.differing[0].member).c_str());
    publish(std::move(i));
  }

  // ---- H1 and H3 ----

  std::string call_of(const Stall& s) const {
    return s.transfer ? s.missing_call : absl::StrCat(job_.shapes[s.shape].type, " #", s.sequence);
  }

  void report(size_t number) {
    told_.insert(number);
    const Stall& s = stalls_[number];
    if (!s.absent.empty()) return report_absent(number);
    if (!s.no_dump.empty() || !s.unsure.empty()) return report_unknown(number);
    report_nobody_absent(number);
  }

  // How sure, and the words for it.
  void judge_time(Incident& i, const Stall& s) {
    i.confidence = s.timed_out > 0 ? sure_timed_out : shown(s) ? sure_shown : sure_behind;
    i.state = shown(s) ? VerdictState::confirmed : VerdictState::suspected;
    add_evidence(i, EvidenceKind::ranks_waiting, static_cast<double>(s.waiting.size()));
    if (s.timed_out > 0)
      add_evidence(i, EvidenceKind::also_seen, static_cast<double>(s.timed_out),
                   "calls that the watchdog has given up");
  }

  std::string behind_text(const Stall& s, int member) const {
    const Member& m = group(s).members[static_cast<size_t>(member)];
    if (s.transfer) return absl::StrCat("did not call ", s.missing_call);
    if (m.collectives.empty())
      return absl::StrCat("did not call ", call_of(s), ", nor any collective of this group that its dump has");
    const Call& last = m.collectives.back();
    if (last.sequence == s.sequence) return absl::StrCat("coalesced fewer calls as ", call_of(s));
    return absl::StrCat("did not call ", call_of(s), ": its last is ", job_.shapes[last.shape].type, " #",
                        last.sequence, last.frame != 0 ? absl::StrCat(" at ", job_.frames[last.frame]) : "");
  }

  void report_absent(size_t number) {
    const Stall& s = stalls_[number];
    Incident i = begin(s.group, s.sequence, s.shape, s.since_ns);
    i.fault = FaultClass::h1_not_entered;
    judge_time(i, s);
    for (const int m : free_[number])
      i.culprits.push_back(culprit(s.group, m, Condition::not_called, Component::process, behind_text(s, m)));
    if (s.absent.size() > free_[number].size())
      add_evidence(i, EvidenceKind::ranks_absent_elsewhere,
                   static_cast<double>(s.absent.size() - free_[number].size()));
    for (const int m : s.no_dump) i.candidates.push_back(Rank{m});
    for (const int m : s.unsure) i.candidates.push_back(Rank{m});
    if (!s.no_dump.empty())
      add_evidence(i, EvidenceKind::not_measured, static_cast<double>(s.no_dump.size()),
                   "ranks without a dump, which may be absent too");
    add_victims(i, s.waiting, {number});
    i.next_step = shown(s) ? "Look at what these ranks did instead (py-spy dump), and whether their processes live."
                           : "The dumps do not show how long the others waited: if the job went on, this is no fault.";
    add_frame(i, s.frame, "The others");
    publish(std::move(i));
  }

  // Whoever may be absent left no dump, or one that does not reach back.
  void report_unknown(size_t number) {
    const Stall& s = stalls_[number];
    Incident i = begin(s.group, s.sequence, s.shape, s.since_ns);
    i.fault = FaultClass::h1_not_entered;
    judge_time(i, s);
    i.confidence = std::min(i.confidence, sure_lost);
    i.state = VerdictState::suspected;
    for (const int m : s.no_dump) i.candidates.push_back(Rank{m});
    for (const int m : s.unsure) i.candidates.push_back(Rank{m});
    i.title = absl::StrCat(s.transfer ? "a send or receive" : call_of(s), " does not end: ", i.candidates.size(),
                           i.candidates.size() == 1 ? " rank is" : " ranks are", " not known to be in it");
    add_evidence(
        i, EvidenceKind::not_measured, static_cast<double>(i.candidates.size()),
        s.no_dump.empty() ? "ranks whose dumps do not reach back to it" : "ranks without a dump that shows it");
    add_victims(i, s.waiting, {number});
    i.next_step = "Find the dumps of these ranks; a process that has left none may have died.";
    add_frame(i, s.frame, "The others");
    publish(std::move(i));
  }

  void report_nobody_absent(size_t number) {
    const Stall& s = stalls_[number];
    const std::string call =
        s.transfer ? absl::StrCat("send and receive of ranks ", absl::StrJoin(s.waiting, " and ")) : call_of(s);
    if (!shown(s) && !may_be_shown(s) && victims_of({number}).empty()) {
      if (under_way_++ < under_way_named_max)
        findings_.notes.push_back(absl::StrCat(group_name(group(s)), ": ", call, " was under way on ", s.waiting.size(),
                                               " of ", group(s).members.size(),
                                               " ranks; nothing shows that it stands"));
      return;
    }
    Incident i = begin(s.group, s.sequence, s.shape, s.since_ns);
    i.fault = FaultClass::h3_hardware;
    i.state = VerdictState::suspected;
    i.confidence = sure_hardware;
    add_evidence(i, EvidenceKind::ranks_waiting, static_cast<double>(s.waiting.size()));
    std::vector<int> suspects = s.waiting;
    if (!s.transfer && !s.unstarted.empty() && s.unstarted.size() < s.waiting.size()) {
      suspects = s.unstarted;
      add_evidence(i, EvidenceKind::also_seen, static_cast<double>(s.unstarted.size()),
                   "ranks that called it and whose kernels had not started", "ranks");
      i.next_step = "On the candidates something earlier keeps the GPU: look at its streams.";
    } else if (!s.done.empty()) {
      add_evidence(i, EvidenceKind::also_seen, static_cast<double>(s.done.size()), "ranks on which it has ended",
                   "ranks");
      i.next_step = "Look at GPUs and links of the ranks on which it has not ended.";
    } else {
      i.next_step =
          "All ranks called it: look for a lost link, a GPU error (XID) or a dead process. Only counts of channels "
          "would say where.";
    }
    std::sort(suspects.begin(), suspects.end());
    for (const int m : suspects) i.candidates.push_back(Rank{m});
    add_victims(i, s.waiting, {number});
    publish(std::move(i));
  }

  void report_circle(size_t start) {
    // Every stall that is left depends on another one that is left.
    std::vector<size_t> path;
    size_t at = start;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      const auto next = std::find_if(depends_[at].begin(), depends_[at].end(),
                                     [&](const auto& d) { return !told_.contains(d.first) && part_of_[d.first] < 0; });
      if (next == depends_[at].end()) return;  // it waits for what is told already
      at = next->first;
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    const Stall& first = stalls_[path[0]];
    Incident i = begin(first.group, first.sequence, first.shape, first.since_ns);
    i.fault = FaultClass::h2_inconsistent;
    i.state = VerdictState::suspected;
    i.confidence = sure_circle;
    std::set<size_t> own(path.begin(), path.end());
    // A row says: this rank waits in its call for the rank that is in the call of the next row.
    for (size_t p = 0; p < path.size(); ++p) {
      const Stall& s = stalls_[path[p]];
      const size_t before = path[(p + path.size() - 1) % path.size()];
      const int awaited = depends_[path[p]].at(path[(p + 1) % path.size()]);
      // The rank that the stall before misses is the one that waits here.
      const int global = job_rank(stalls_[before], depends_[before].at(path[p]));
      int own_rank = s.waiting.empty() ? 0 : s.waiting[0];
      for (const int m : s.waiting)
        if (job_rank(s, m) == global) own_rank = m;
      i.cycle.push_back({.comm = CommUid{group(s).id},
                         .comm_name = group_name(group(s)),
                         .op = OpSeq{s.sequence},
                         .rank = Rank{own_rank},
                         .waits_for = Rank{awaited}});
      i.candidates.push_back(Rank{own_rank});
    }
    for (const size_t p : path) told_.insert(p);
    std::sort(i.candidates.begin(), i.candidates.end());
    i.candidates.erase(std::unique(i.candidates.begin(), i.candidates.end()), i.candidates.end());
    add_evidence(i, EvidenceKind::ranks_waiting, static_cast<double>(first.waiting.size()));
    add_victims(i, first.waiting, own);
    i.next_step = "Ranks call the groups in different orders: give all ranks one order.";
    publish(std::move(i));
  }

  Findings finish() {
    std::stable_sort(findings_.incidents.begin(), findings_.incidents.end(),
                     [](const Incident& a, const Incident& b) { return a.onset_ns < b.onset_ns; });
    uint64_t id = 0;
    for (Incident& i : findings_.incidents) i.id = ++id;
    findings_.newest_ns = job_.newest_ns;
    findings_.source = "flight-recorder";
    std::set<int> ranks;
    size_t calls = 0;
    for (const Group& g : job_.groups)
      for (const Member& m : g.members) {
        if (m.has_dump) ranks.insert(m.rank);
        calls += m.collectives.size() + m.transfers.size();
      }
    findings_.summary =
        absl::StrCat("dumps of ", ranks.size(), ranks.size() == 1 ? " rank, " : " ranks, ", job_.groups.size(),
                     job_.groups.size() == 1 ? " process group, " : " process groups, ", grouped(calls), " calls");
    if (under_way_ > under_way_named_max)
      findings_.notes.push_back(absl::StrCat("the same of ", under_way_ - under_way_named_max, " further calls"));
    if (!job_.no_dump.empty()) {
      constexpr size_t named_max = 16;
      const size_t named = std::min(job_.no_dump.size(), named_max);
      findings_.notes.push_back(absl::StrCat(
          "there is no dump of ", job_.no_dump.size() == 1 ? "rank " : "ranks ",
          absl::StrJoin(job_.no_dump.begin(), job_.no_dump.begin() + static_cast<std::ptrdiff_t>(named), ", "),
          job_.no_dump.size() > named ? absl::StrCat(" and ", job_.no_dump.size() - named, " more") : ""));
    }
    findings_.not_shown = {"which GPU, NIC or link keeps a call that all ranks have entered", "hosts and process ids",
                           "roots and reduction operations", "calls older than the recorder's buffer", "slow calls"};
    return std::move(findings_);
  }

  const Job& job_;
  const Thresholds thresholds_;
  std::vector<Stall> stalls_;
  std::vector<Difference> differences_;
  std::vector<int> part_of_;                    // of a stall: the difference that it belongs to; -1: none
  std::vector<std::map<size_t, int>> depends_;  // of a stall: those that hold ranks that it misses, and such a rank
  std::vector<std::vector<int>> free_;          // of a stall: ranks that it misses and that wait nowhere
  std::vector<size_t> same_as_;  // of a stall: an older one that misses the same ranks; itself: there is none
  std::set<size_t> told_;        // in an incident already
  size_t under_way_ = 0;         // calls that everybody is in, and that nothing shows to stand
  Findings findings_;
};

}  // namespace

Findings judge(const Job& job, const Thresholds& thresholds) { return Judge(job, thresholds).run(); }

}  // namespace ccld::decision::dumps
