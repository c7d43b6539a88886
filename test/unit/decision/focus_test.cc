#include "decision/analysis/focus.h"

#include <catch2/catch.hpp>
#include <set>

namespace ccld::decision {
namespace {

// Replicas of two stages of four GPUs, eight GPUs a host; communicators as a trainer makes them.
struct Job {
  static constexpr int tensor = 4, stages = 2, replicas = 16;
  Settings settings;
  RankBudget budget{1 << 20};
  ProcessTable processes{settings};
  Watches watches;

  static int process(int replica, int stage, int t) { return (replica * stages + stage) * tensor + t; }
  Job() {
    for (int d = 0; d < replicas; ++d)
      for (int s = 0; s < stages; ++s) {
        std::vector<int> group;
        for (int t = 0; t < tensor; ++t) group.push_back(process(d, s, t));
        add(group);
      }
    for (int d = 0; d < replicas; ++d)
      for (int t = 0; t < tensor; ++t) add({process(d, 0, t), process(d, 1, t)});
    for (int s = 0; s < stages; ++s)
      for (int t = 0; t < tensor; ++t) {
        std::vector<int> group;
        for (int d = 0; d < replicas; ++d) group.push_back(process(d, s, t));
        data.push_back(add(group));
      }
  }
  CommUid add(const std::vector<int>& members) {
    const CommUid uid{watches.size() + 1};
    Watch& watch = *watches.emplace(uid, std::make_unique<Watch>(uid, settings, budget)).first->second;
    for (size_t r = 0; r < members.size(); ++r) {
      Batch b;
      b.process.host = b.process.boot_id = "host" + std::to_string(members[r] / 8);
      b.process.pid = 1000 + static_cast<uint32_t>(members[r]);
      CommUp up;
      up.comm = uid;
      up.rank = Rank{static_cast<int32_t>(r)};
      up.rank_count = static_cast<int>(members.size());
      up.cuda_device = members[r] % 8;
      watch.comm.up(up, *processes.heard(b, 1), 1);
    }
    return uid;
  }
  // All ranks of a communicator wait for one.
  void waits(CommUid uid, size_t last, uint64_t ms) {
    const Communicator& comm = watches.at(uid)->comm;
    RoundEntry e;
    e.cells.resize(static_cast<size_t>(comm.rank_count()));
    for (size_t r = 0; r < e.cells.size(); ++r) {
      e.cells[r].timed = true;
      e.cells[r].end_device_ns = 1 + 1'000'000 * (r == last ? 1 : 1 + ms);
    }
    Focus::add(*watches.at(uid), e);
  }
  std::set<int> chosen(Focus& focus, size_t gpus_max) const {
    std::set<int> out;
    for (const timeline::GpuKey& key : focus.choose(watches, "", gpus_max))
      out.insert(static_cast<int>(static_cast<const ProcessModel*>(key.first)->id.pid) - 1000);
    return out;
  }
  std::vector<CommUid> data;  // by stage, then by rank within the tensor group
};

TEST_CASE("Around the rank that others wait for whole replicas are looked at, the nearest ones") {
  Job job;
  Focus focus;
  job.waits(job.data[0], 5, 50);
  const std::set<int> chosen = job.chosen(focus, 24);
  std::set<int> expected;
  for (int replica : {4, 5, 6})
    for (int stage : {0, 1})
      for (int t = 0; t < Job::tensor; ++t) expected.insert(Job::process(replica, stage, t));
  CHECK(chosen == expected);
}

TEST_CASE("Every other time a communicator is looked at as a whole, that whose transfers are the longest of its like") {
  Job job;
  Focus focus;
  job.waits(job.data[0], 5, 50);
  job.chosen(focus, 24);
  for (CommUid uid : job.data) job.waits(uid, 3, uid == job.data[6] ? 1 : 0);
  for (int i = 0; i < 9; ++i) job.waits(job.data[6], 3, 1);
  const std::set<int> chosen = job.chosen(focus, 24);
  for (int d = 0; d < Job::replicas; ++d) CHECK(chosen.contains(Job::process(d, 1, 2)));
  CHECK(chosen.size() == 24);
}

TEST_CASE("Nothing reported: nothing is chosen") {
  Job job;
  Focus focus;
  CHECK(job.chosen(focus, 24).empty());
}

}  // namespace
}  // namespace ccld::decision
