// Serves the page and its documents over a snapshot of a job that is too large to be run: an incident of slowness (1)
// and one that hangs (2).
//
// Usage: large_job RANKS [NAME]
//        says "port N" and runs until its standard input ends. NAME: what the job and its communicator are called, and
//        what the names of hosts begin with
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "decision/server/http_api.h"
#include "test/support/snapshots/slow_job.h"

namespace ccld {
namespace {

using namespace decision;

constexpr Nanoseconds onset_ago_ns = 170 * ns_per_s;

struct Names {
  std::string job = "large", comm = "world", host_prefix = "node";
};

Incident base(const report::Snapshot& s, uint64_t id, int ranks, const Names& names) {
  Incident i;
  i.id = id;
  i.revision = 1;
  i.state = VerdictState::confirmed;
  i.job = names.job;
  i.comm_name = names.comm;
  i.comm = CommUid{test::slow_job_comm};
  i.rank_count = ranks;
  i.op = OpSeq{100};
  i.signature.function = abi::Function::all_reduce;
  i.victim_count = static_cast<uint32_t>(ranks - 1);
  i.confidence = 0.95;
  i.onset_ns = s.now_ns - onset_ago_ns;
  i.suspected_ns = i.located_ns = i.onset_ns + 4 * ns_per_s;
  i.confirmed_ns = i.onset_ns + 6 * ns_per_s;
  return i;
}

Culprit culprit(int rank, Component component, Condition condition, const Names& names) {
  Culprit c;
  c.rank = Rank{rank};
  c.host = names.host_prefix + std::to_string(rank / 8);
  c.component = component;
  c.condition = condition;
  return c;
}

report::Snapshot snapshot(int ranks, const Names& names) {
  const int late = ranks * 3 / 5;
  report::Snapshot s = test::slow_job({.ranks = ranks, .culprit = late, .host_prefix = names.host_prefix});
  s.ticks = 1;
  s.status.communicators[0].job = names.job;
  s.status.communicators[0].name = names.comm;
  CallHistory history;
  for (Nanoseconds at_ns = s.now_ns - 900 * ns_per_s; at_ns < s.now_ns; at_ns += ns_per_s) {
    const bool slow = at_ns > s.now_ns - onset_ago_ns;
    history.add(slow ? 11 : 64, CallTimes{(slow ? 84 : 5) * ns_per_ms, 4 * ns_per_ms}, at_ns);
  }
  s.status.communicators[0].call_history = history.over();

  Incident slow = base(s, 1, ranks, names);
  slow.fault = FaultClass::s1_computation_slow;
  slow.culprits = {culprit(late, Component::gpu, Condition::gpu_late, names)};
  slow.culprits[0].lost_time_share = 1;
  slow.evidence = {{.kind = EvidenceKind::also_seen,
                    .rank = late,
                    .subject = "the GPU's last XID",
                    .value = 79,
                    .unit = "XID",
                    .at_ns = slow.onset_ns - ns_per_s}};
  slow.gain = {92 * ns_per_ms, 14 * ns_per_ms, true};
  Incident hang = base(s, 2, ranks, names);
  hang.fault = FaultClass::h1_not_entered;
  hang.culprits = {culprit(2, Component::application, Condition::not_called, names)};
  for (int r = 0; hang.waits.size() < waits_max; ++r)
    if (r != 2) hang.waits.push_back({.rank = Rank{r}, .waits_for = Rank{2}, .age_ns = 8 * ns_per_s});
  s.incidents = {std::move(slow), std::move(hang)};
  return s;
}

int serve(int ranks, const Names& names) {
  auto store = std::make_shared<server::SnapshotStore>();
  store->publish(std::make_shared<const report::Snapshot>(snapshot(ranks, names)));
  server::HttpOptions options;
  options.clock_ns = [] { return Nanoseconds{0}; };
  auto http = server::HttpApi::open({"127.0.0.1", 0}, store, std::make_shared<server::TuneQueue>(), options);
  auto verdicts = server::VerdictWriter::open("/dev/null");
  if (!http.ok() || !verdicts.ok()) return 1;
  (*http)->answer_incidents(
      std::make_shared<server::Reporter>(*std::move(verdicts), nullptr, server::Reporter::Bounds{}));
  (*http)->start();
  std::printf("port %d\n", static_cast<int>((*http)->address().port));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace
}  // namespace ccld

int main(int argc, char** argv) {
  const int ranks = argc == 2 || argc == 3 ? std::atoi(argv[1]) : 0;
  if (ranks < 100) return std::fprintf(stderr, "usage: large_job RANKS [NAME] (100 or more)\n"), 2;
  return ccld::serve(ranks, argc == 3 ? ccld::Names{argv[2], argv[2], argv[2]} : ccld::Names{});
}
