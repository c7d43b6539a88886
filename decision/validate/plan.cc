#include "decision/validate/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/validate/verdicts.h"

namespace ccld::decision::validate {
namespace {

// Rings and trees of all channels, each once. `own` is false where a rank's answer leaves one open.
Orders orders_of(const std::vector<Answer>& answers) {
  const size_t ranks = answers.size();
  size_t channels = answers.empty() ? 0 : answers[0].channels.size();
  for (const Answer& a : answers) channels = std::min(channels, a.channels.size());
  const Orders guessed = orders_by_rank(static_cast<int>(ranks));
  if (channels == 0) return guessed;
  Orders out;
  out.own = true;
  std::set<std::vector<int>> rings, trees;
  for (size_t c = 0; c < channels; ++c) {
    std::vector<int> ring, parents;
    std::set<int> seen;
    for (int rank = 0; rank >= 0 && rank < static_cast<int>(ranks) && seen.insert(rank).second;
         rank = answers[static_cast<size_t>(rank)].channels[c].ring_next)
      ring.push_back(rank);
    for (const Answer& a : answers) parents.push_back(a.channels[c].tree_parent);
    if (ring.size() != ranks) return guessed;
    if (rings.insert(ring).second) out.rings.push_back(ring);
    if (trees.insert(parents).second) out.parents.push_back(std::move(parents));
  }
  return out;
}

class Plan {
 public:
  Plan(Group& group, const PlanOptions& options, Outcome& out)
      : group_(group), options_(options), thresholds_(options.thresholds), out_(out) {
    measured_.members = group.members();
    out_.members = measured_.members;
    for (const Member& m : measured_.members) {
      host_of_.push_back(m.host);
      if (m.cpu_device) raise_for_cpu_device(thresholds_);
    }
  }

  void run() {
    measure();
    out_.rows = judged();
    for (Row& row : out_.rows)
      if (is_to_be_tested_alone(row)) {
        row.finding = Finding::not_measured;
        row.why = "slow beside others, and not tested alone";
      }
    out_.incidents = verdicts(out_.rows, out_.hung, out_.members, options_.job, out_.now_ns);
  }

 private:
  // False: it cannot go on, and `failure` says why.
  bool step(const Step& s, const std::string& what, std::vector<Answer>* answers = nullptr, int pass = -1) {
    Answers got = group_.perform(s);
    // Both ends must say it. If one does, the other rank does not answer, or has failed for another reason.
    std::map<std::pair<int, int>, int> said;
    for (const Answer& a : got.all)
      for (const auto& link : a.hung)
        if (++said[link] == 2) out_.hung.push_back(link);
    std::sort(out_.hung.begin(), out_.hung.end());
    if (!got.missing.empty()) {
      out_.failure =
          absl::StrCat(ranks_text(got.missing), " did not end '", what, "' within ", options_.timeout_s, " s");
    } else if (!out_.hung.empty()) {
      out_.failure = absl::StrCat("nothing arrived over a link within ", options_.timeout_s, " s, in '", what, "'");
    }
    for (const Answer& a : got.all)
      if (!a.error.empty() && out_.failure.empty())
        out_.failure = absl::StrCat("rank ", a.rank, " on ", host_of_[static_cast<size_t>(a.rank)], ": ", a.error);
    if (!out_.failure.empty()) return false;
    add_samples(got.all, pass);
    if (answers != nullptr) *answers = std::move(got.all);
    return true;
  }

  std::string ranks_text(const std::vector<int>& ranks) const {
    std::vector<std::string> texts;
    for (const int r : ranks) texts.push_back(absl::StrCat("rank ", r, " (", host_of_[static_cast<size_t>(r)], ")"));
    return absl::StrJoin(texts, ", ");
  }

  void add_samples(const std::vector<Answer>& answers, int pass) {
    for (const Answer& a : answers)
      for (Sample sample : a.samples) {
        sample.pass = pass;
        if (sample.check == Check::link && sample.kind.empty()) {
          const auto host = [this](int rank) { return host_of_[static_cast<size_t>(rank)]; };
          sample.kind = host(sample.rank) == host(sample.peer) ? "within a host" : "between hosts";
        }
        measured_.samples.push_back(std::move(sample));
      }
  }

  std::vector<Row> judged() const { return judge(measured_, options_.past, thresholds_); }

  // Other rows that are not measured have nothing to be compared with.
  static bool is_noisy(const Row& row) { return row.finding == Finding::not_measured && row.usual_ms > 0; }

  // The passes of which rows are worth another run, after so many; of a GPU's check: pass -1.
  std::set<int> doubtful(Check check, int runs) const {
    std::set<int> passes;
    for (const Row& row : judged()) {
      if (row.check != check) continue;
      // Links that are slow are tested alone instead.
      const bool again = row.finding == Finding::suspect && check != Check::link && runs < confirming_runs;
      if (is_noisy(row) || again) passes.insert(row.pass);
    }
    return passes;
  }

  bool check_gpus() {
    for (const Check check : gpu_checks) {
      Step s;
      s.kind = StepKind::gpu_check;
      s.check = check;
      s.repetitions = options_.repetitions;
      for (int run = 0; run < runs_max; ++run) {
        if (!step(s, title(check))) return false;
        if (doubtful(check, run + 1).empty()) break;
      }
    }
    return true;
  }

  bool test(const std::vector<Pass>& passes, size_t p, const char* what) {
    Step s;
    s.kind = StepKind::pass;
    s.pairs = passes[p];
    s.repetitions = std::max(3, options_.repetitions / 2);  // a slow link takes long
    const int number = first_pass_ + static_cast<int>(p);
    return step(s, absl::StrCat(what, " ", p + 1, " of ", passes.size()), nullptr, number);
  }

  // All passes once, then those again that leave doubts.
  bool test_links(const std::vector<Pass>& passes) {
    for (int run = 0; run < runs_max; ++run) {
      const std::set<int> again = run == 0 ? std::set<int>() : doubtful(Check::link, run);
      if (run > 0 && again.empty()) break;
      for (size_t p = 0; p < passes.size(); ++p)
        if ((run == 0 || again.count(static_cast<int>(p))) && !test(passes, p, "pass")) return false;
    }
    first_pass_ = static_cast<int>(passes.size());
    return true;
  }

  bool test_slow(const std::vector<Pass>& passes, const char* what) {
    for (size_t p = 0; p < passes.size(); ++p)
      if (!test(passes, p, what)) return false;
    first_pass_ += static_cast<int>(passes.size());
    out_.extra_passes += passes.size();
    return true;
  }

  bool is_to_be_tested_alone(const Row& row) const {
    return row.check == Check::link && row.finding == Finding::suspect && !alone_.count({row.rank, row.peer});
  }

  bool test_lone(const std::vector<Pass>& passes, const char* what) {
    for (const Pass& pass : passes)
      for (const Pair& p : pass) alone_.insert({p.from, p.to});
    for (int run = 1; run < confirming_runs; ++run)
      if (!test_slow(passes, what)) return false;
    return true;
  }

  // What is slow beside others is slow only if it is slow alone, too. Links that were faster alone become the measure
  // for the rest, so others may turn out slow: these are tested alone in the next round. What was too noisy beside
  // others to be told may be told alone.
  bool test_alone() {
    for (int round = 0; round < lone_rounds_max; ++round) {
      std::vector<std::pair<int, int>> links, noisy;
      for (const Row& row : judged()) {
        if (is_to_be_tested_alone(row)) links.emplace_back(row.rank, row.peer);
        if (is_noisy(row) && row.check == Check::link && !alone_.count({row.rank, row.peer}))
          noisy.emplace_back(row.rank, row.peer);
      }
      links.insert(links.end(), noisy.begin(), noisy.end());
      const std::vector<Pass> passes = lone_passes(links, host_of_);
      if (passes.empty()) return true;
      if (!test_lone(passes, "lone pass")) return false;
    }
    return true;
  }

  bool test_across() {
    return test_lone(cross_passes(slow_between_hosts(judged(), measured_.members), host_of_), "pass across");
  }

  void measure() {
    Step connect;
    connect.kind = StepKind::connect;
    connect.id = options_.id;
    std::vector<Answer> answers;
    if (!step(connect, "communicator initialization", &answers)) return;
    const Orders orders = orders_of(answers);
    if (!check_gpus()) return;
    const std::vector<Pass> passes = passes_of(orders, host_of_);
    out_.own_orders = orders.own;
    out_.ring_and_tree_passes = passes.size();
    if (!test_links(passes)) return;
    if (test_alone()) test_across();
  }

  Group& group_;
  const PlanOptions& options_;
  Thresholds thresholds_;
  Outcome& out_;
  Measured measured_;
  std::vector<std::string> host_of_;
  std::set<std::pair<int, int>> alone_;  // links
  int first_pass_ = 0;                   // number of the first of the passes that are being tested
};

}  // namespace

void run_plan(Group& group, const PlanOptions& options, Outcome& out) { Plan(group, options, out).run(); }

Past past_of(const Outcome& o) {
  Past past;
  for (const Row& row : o.rows) {
    const bool known_bad = row.finding == Finding::suspect || row.finding == Finding::explained;
    if (known_bad || (row.finding == Finding::not_measured && row.usual_ms > 0)) continue;
    const Member* peer = row.peer >= 0 ? &o.members[static_cast<size_t>(row.peer)] : nullptr;
    past[past_key(row.check, o.members[static_cast<size_t>(row.rank)], peer, row.kind, row.bytes)] = row.ms;
  }
  return past;
}

}  // namespace ccld::decision::validate
