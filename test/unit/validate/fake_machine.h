// Hardware that exists only as numbers: GPUs and links with a speed each, and noise from a seed.
#pragma once

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decision/validate/group.h"

namespace ccld::decision::validate {

class FakeMachine : public Group {
 public:
  FakeMachine(int hosts, int gpus, unsigned seed) : random_(seed) {
    for (int rank = 0; rank < hosts * gpus; ++rank) {
      Member m;
      m.rank = rank;
      m.host = "host" + std::to_string(rank / gpus);
      m.pid = static_cast<uint32_t>(1000 + rank);
      m.gpu = rank % gpus;
      m.bus_id = "0000:1" + std::to_string(rank % gpus) + ":00.0";
      m.model = "fake";
      members_.push_back(m);
    }
  }

  // Factors of time.
  std::map<int, double> slow_gpus;
  std::map<std::pair<int, int>, double> slow_links;            // ranks
  std::map<std::string, double> slow_sending, slow_receiving;  // hosts
  std::map<std::pair<std::string, std::string>, double> slow_paths;
  std::set<int> silent;                // ranks that do not answer any more
  std::set<int> silent_in_passes, failed_in_passes;
  std::set<std::pair<int, int>> hung;  // ranks
  double noise = 0.02;                 // of every repetition, as a part of it
  double disturbed = 0;                // share of repetitions that take ten times as long
  int steps = 0, passes = 0;           // done so far
  std::vector<std::pair<int, int>> tested;

  const std::vector<Member>& members() const override { return members_; }

  Answers perform(const Step& s) override {
    ++steps;
    Answers out;
    for (const Member& m : members_) {
      if (silent.count(m.rank) || (s.kind == StepKind::pass && silent_in_passes.count(m.rank))) {
        out.missing.push_back(m.rank);
        continue;
      }
      Answer a;
      a.rank = m.rank;
      if (s.kind == StepKind::pass && failed_in_passes.count(m.rank)) a.error = "out of memory";
      if (s.kind == StepKind::gpu_check) a.samples.push_back(gpu_sample(s, m.rank));
      out.all.push_back(std::move(a));
    }
    if (s.kind != StepKind::pass) return out;
    ++passes;
    for (const Pair& p : s.pairs) {
      link(s, p.from, p.to, out);
      if (p.back) link(s, p.to, p.from, out);
    }
    return out;
  }

 private:
  const std::string& host(int rank) const { return members_[static_cast<size_t>(rank)].host; }

  std::vector<double> times(double ms, int count) {
    std::vector<double> out;
    std::uniform_real_distribution<double> one(0, 1);
    for (int i = 0; i < count; ++i)
      out.push_back(ms * (1 + noise * one(random_)) * (one(random_) < disturbed ? 10 : 1));
    return out;
  }

  static double factor(const auto& table, const auto& key) {
    const auto found = table.find(key);
    return found == table.end() ? 1 : found->second;
  }

  Sample gpu_sample(const Step& s, int rank) {
    Sample sample;
    sample.check = s.check;
    sample.rank = rank;
    sample.ms = times(5 * factor(slow_gpus, rank), s.repetitions);
    return sample;
  }

  void link(const Step& s, int from, int to, Answers& out) {
    tested.emplace_back(from, to);
    if (hung.count({from, to})) {
      for (Answer& a : out.all)
        if ((a.rank == from || a.rank == to) && a.error.empty()) a.hung.emplace_back(from, to);
      return;
    }
    Sample sent;
    sent.check = Check::link;
    sent.rank = from;
    sent.peer = to;
    const bool inside = host(from) == host(to);
    sent.kind = inside ? "P2P/IPC" : "NET/IB";
    sent.net = inside ? "" : "mlx5_0";
    double ms =
        (inside ? 1 : 4) * factor(slow_links, std::pair(from, to)) * factor(slow_gpus, from) * factor(slow_gpus, to);
    if (!inside)
      ms *= factor(slow_sending, host(from)) * factor(slow_receiving, host(to)) *
            factor(slow_paths, std::pair(host(from), host(to)));
    sent.ms = times(ms, s.repetitions);
    for (Answer& a : out.all) {
      if (a.rank == from) a.samples.push_back(sent);
    }
  }

  std::vector<Member> members_;
  std::mt19937 random_;
};

}  // namespace ccld::decision::validate
