// ccld_sim: runs seeds and says which of them the decision got wrong.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "decision/workers.h"
#include "test/sim/judge/reliability.h"
#include "test/sim/simulation.h"

using namespace ccld::sim;

namespace {

std::optional<FaultKind> kind_named(const std::string& text) {
  for (int k = 0; k < static_cast<int>(FaultKind::count); ++k)
    if (text == name(static_cast<FaultKind>(k))) return static_cast<FaultKind>(k);
  return std::nullopt;
}

void print_seed(const Result& r, const char* mark) {
  absl::PrintF("%s seed %d: %s; planted %s%s at %.3f s; said %s\n", mark, r.scenario.seed, name(r.judgement.mistake),
               name(r.scenario.planted.kind), r.scenario.planted.text,
               r.scenario.planted.at < never ? static_cast<double>(r.scenario.planted.at) / 1e9 : -1, r.judgement.said);
}

void print_details(const Result& r) {
  const auto seconds = [](Instant t) { return t < never ? static_cast<double>(t) / 1e9 : -1; };
  absl::PrintF("seed %d: %s\n", r.scenario.seed, r.scenario.summary());
  absl::PrintF("  planted: %s%s\n", name(r.scenario.planted.kind), r.scenario.planted.text);
  absl::PrintF("  last event %.3f s, suspicion due %.3f s, simulated %.1f s, operations %.1f times as long\n",
               seconds(r.truth.standstill), seconds(r.truth.suspect_by), seconds(r.simulated), r.truth.slowdown);
  for (const auto& comm : r.status.communicators) {
    if (!comm.in_flight && comm.p2p_in_flight == 0) continue;
    absl::PrintF("  in flight: %s %x op %d, %d of %d ranks seen, %d calls:", comm.name, comm.comm.value,
                 comm.oldest_op.value, comm.ranks_seen, comm.rank_count, comm.p2p_in_flight);
    for (const auto& rank : comm.ranks)
      absl::PrintF(" %d/%d/%d moved %.1fs", rank.entered.value, rank.launched.value, rank.completed.value,
                   static_cast<double>(rank.moved_age_ns) / 1e9);
    absl::PrintF("\n");
  }
}

struct Tally {
  struct Count {
    uint64_t seeds = 0, wrong = 0;
  };
  std::set<uint64_t> known_wrong;  // still to be repaired: printed and counted as wrong, but no reason to fail
  uint64_t unexpected = 0;
  std::map<FaultKind, Count> by_kind;
  std::map<Mistake, uint64_t> by_mistake;
  Reliability reliability;
  uint64_t wrong = 0;
  double simulated_s = 0;

  void add(const Result& r, bool verbose) {
    reliability.add(r.judgement.words);
    Count& c = by_kind[r.scenario.planted.kind];
    ++c.seeds;
    simulated_s += static_cast<double>(r.simulated) / 1e9;
    const bool known = known_wrong.count(r.scenario.seed) != 0;
    if (!r.judgement.right()) {
      ++wrong, ++c.wrong, ++by_mistake[r.judgement.mistake];
      unexpected += known ? 0 : 1;
      print_seed(r, known ? "KNOWN" : "WRONG");
    } else if (known) {
      ++unexpected;
      print_seed(r, "RIGHT, so take it off the list of known ones:");
    } else if (verbose) {
      print_seed(r, "RIGHT");
    }
  }
  void print() const {
    for (const auto& [kind, c] : by_kind) absl::PrintF("  %-26s %6d seeds %6d wrong\n", name(kind), c.seeds, c.wrong);
    for (const auto& [mistake, n] : by_mistake) absl::PrintF("  %-26s %6d\n", name(mistake), n);
    absl::PrintF("%s", reliability.text());
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Simulated clusters against the detection and location of ccld: the verdict must equal the planted fault"};
  uint64_t seeds = 100, first = 1;
  std::optional<uint64_t> one;
  bool restart = false, ends = false, mild = false;
  bool verbose = false, from_start = false, pipeline_links = false, nvls = false, calibrate = false, layers = false;
  std::optional<double> share;
  int ranks = 0;
  unsigned jobs = 1;
  std::string fault, canary = "none";
  std::vector<std::string> set;
  std::vector<uint64_t> known_wrong;
  RunOptions options;
  app.add_option("--seeds", seeds, "how many seeds")->capture_default_str();
  app.add_option("--first-seed", first, "the first of them")->capture_default_str();
  app.add_option("--seed", one, "this seed only");
  app.add_flag("--verbose", verbose, "show the scenario and every word of the analyzer");
  app.add_option("--ranks", ranks, "a job of about so many ranks, 2 to 131072 (default: drawn)")->check(CLI::Range(2, 131072));
  app.add_option("--fault", fault, "plant this kind of fault (default: drawn)");
  app.add_flag("--from-start", from_start, "a quarter of the slow faults is there before the first iteration");
  app.add_flag("--pipeline-links", pipeline_links, "a third of the S2 faults slows what only Send and Recv use");
  app.add_flag("--mild", mild, "slow faults make iterations at most half as long again");
  app.add_flag("--restart", restart,
               "the service starts again, before a hang, within it or when it is known; healthy jobs too");
  app.add_flag("--end", ends, "the processes of a job that hangs leave, by an error or because they are ended");
  app.add_flag("--nvls", nvls, "tensor groups that lie within a node reduce by NVLS");
  app.add_flag(
      "--layers", layers,
      "stages of pipelines have many equal calls, and the last and the first one compute more than the others");
  app.add_flag("--calibrate", calibrate, "slow faults only, every second seed as with the two above: for the table of confidences");
  app.add_option("--share", share, "another share than a quarter and a third, 0 to 1")->check(CLI::Range(0.0, 1.0));
  app.add_option("--canary", canary, "spoil what was planted; the check must then fail")
      ->check(CLI::IsMember({"none", "suppressed", "unrecorded", "other-rank"}));
  app.add_option("--set", set, "a setting of the decision, name=value");
  app.add_option("--known-wrong", known_wrong, "seeds that do not make the run fail; one that is right does")->delimiter(',');
  app.add_option("--threads", options.threads, "give what arrives within a tick together, to so many threads; 0: each batch as it arrives")
      ->check(CLI::Range(size_t{0}, ccld::decision::threads_max));
  app.add_option("--jobs", jobs, "seeds at a time")->capture_default_str()->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);

  constexpr double starts = 1.0 / 4, links = 1.0 / 3;
  if (from_start) options.wishes.from_start = share.value_or(starts);
  if (pipeline_links) options.wishes.pipeline_links = share.value_or(links);
  options.wishes.nvls = nvls ? 1 : 0;
  options.wishes.mild = mild ? 1 : 0;
  options.wishes.layers = layers ? 1 : 0;
  options.wishes.restart = restart ? 1 : 0;
  options.wishes.ends = ends ? 1 : 0;
  if (ranks > 0) {
    options.wishes.ranks = ranks;
    options.settings.ranks_max = options.settings.processes_max = 1u << 18;
    options.settings.communicators_max = 1u << 18;
  }
  options.wishes.slow = calibrate;
  if (!fault.empty()) {
    options.wishes.fault = kind_named(fault);
    if (!options.wishes.fault) return absl::FPrintF(stderr, "--fault %s: no such kind of fault\n", fault), 2;
  }
  for (const std::string& text : set)
    if (const absl::Status status = ccld::decision::parse_setting(options.settings, text); !status.ok())
      return absl::FPrintF(stderr, "--set: %s\n", std::string(status.message())), 2;
  if (canary == "suppressed") options.canary = Canary::suppressed;
  if (canary == "unrecorded") options.canary = Canary::unrecorded;
  if (canary == "other-rank") options.canary = Canary::other_rank;
  if (one) first = *one, seeds = 1;
  if (verbose) {
    jobs = 1;
    options.on_report = [](const ccld::decision::Incident& i, const Layout& layout) {
      absl::PrintF("  %s; confidence %.2f; %s\n", describe(i, layout), i.confidence, i.title);
      for (const auto& e : i.evidence) absl::PrintF("      rank %d: %s %.10g %s\n", e.rank, words(e), e.value, unit_of(e));
    };
  }

  const auto started = std::chrono::steady_clock::now();
  Tally tally;
  tally.known_wrong.insert(known_wrong.begin(), known_wrong.end());
  // In portions, so that what is printed keeps its order however many work on it.
  constexpr uint64_t portion = 64;
  for (uint64_t done = 0; done < seeds; done += portion) {
    std::vector<std::optional<Result>> results(std::min(portion, seeds - done));
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i; (i = next++) < results.size();) {
        const uint64_t seed = first + done + i;
        RunOptions own = options;
        if (calibrate && seed % 2 == 1)
          own.wishes.from_start = share.value_or(starts), own.wishes.pipeline_links = share.value_or(links);
        results[i] = run_seed(seed, own);
      }
    };
    std::vector<std::thread> others;
    for (unsigned j = 1; j < jobs; ++j) others.emplace_back(work);
    work();
    for (std::thread& t : others) t.join();
    for (const auto& r : results) {
      if (verbose) print_details(*r);
      tally.add(*r, verbose);
    }
    std::fflush(stdout);
  }
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  if (seeds > 1) tally.print();
  absl::PrintF("%d of %d seeds right; %.0f s of cluster time in %.1f s\n", seeds - tally.wrong, seeds, tally.simulated_s,
               took);
  return tally.unexpected == 0 ? 0 : 1;
}
