// How the steps of one operation move: GPU, proxy, wire, proxy, GPU, with credits of 8 slots, as a system of
// "happens when the last of its conditions has happened, plus its own time". What is broken makes times infinite, so
// that the same rules give healthy rounds, slow rounds, and where everything stands when nothing moves any more.
//
// Contract: pure. Times never decrease along a connection; the state at any instant is what has happened by then.
// Transport: with `buffered` (sockets) the network takes every step and says "sent" as soon as its buffers have room for
// it; otherwise (RDMA) a send waits for the receiver's buffer and is done when it has arrived.
#pragma once

#include <memory>
#include <vector>

#include "test/sim/cluster/conditions.h"
#include "test/sim/cluster/step_plan.h"

namespace ccld::sim {

struct StepTimes {
  Nanoseconds gpu_ns = 20'000;   // a thread group handles a step
  Nanoseconds proxy_ns = 4'000;  // a proxy notices and passes on a step
  Nanoseconds wire_ns = 20'000;  // the wire is busy with a step
  Nanoseconds latency_ns = 5'000;
  bool buffered = false;
  int buffer_steps = 16;  // that the network swallows
};

struct RankStart {
  Instant launch = never, begin = never;
  int steps = -1;  // that it takes part in; -1: all (a mismatched operation may have fewer or more)
  Instant after = 0;  // end of its operation before: a connection's proxy takes one after the other
};

class StepRun {
 public:
  StepRun(std::shared_ptr<const StepPlan>, const StepTimes&, const Conditions&, int comm,
          const std::vector<int>& members, const std::vector<RankStart>&);

  const StepPlan& plan() const { return *plan_; }
  // Of the kernel of a rank; never: it does not end.
  Instant end(int rank) const;
  Instant channel_end(int rank, int channel) const;

  // Stages of a connection; index of the step.
  enum class At { posted, receive_posted, handed, sent, arrived, given, consumed };
  Instant at(int connection, At stage, int step) const;
  int count(int connection, At stage, Instant t) const;  // steps that have reached it by t
  Instant last(int connection, At stage, Instant t) const;  // when the newest of them did; -1: none
  Instant freed(int connection, int step) const;  // when the sender's GPU sees the slot of that step free

  // Pauses of one end's proxy between two instants, `unseen_ns` of each left out.
  Nanoseconds away_ns(int connection, bool sender, Instant from, Instant to, Nanoseconds unseen_ns) const;

  int done(int group, Instant t) const;  // iterations
  Instant iteration(int group, int i) const { return iterations_[group * stride_ + i]; }
  int iterations(int group) const { return total_[group]; }
  Instant frozen_at(int group) const { return frozen_at_[group]; }
  int steps_of(int rank) const { return starts_[rank].steps < 0 ? plan_->steps : starts_[rank].steps; }

 private:
  // Only connections over the network have stages of their own; the rest follows from the iterations.
  static constexpr int stored_stages = 5;
  size_t index(int connection, At stage) const {
    return (static_cast<size_t>(place_[connection]) * stored_stages + static_cast<size_t>(stage) - 1) *
           static_cast<size_t>(steps_);
  }
  Instant stored(int connection, At stage, int step) const { return times_[index(connection, stage) + step]; }
  Instant& set(int connection, At stage, int step) { return times_[index(connection, stage) + step]; }
  void run(const Conditions&, int comm, const std::vector<int>& members);
  void move_over_network(int connection, int step);

  // When a proxy runs.
  struct Visits {
    Instant at = never;
    Nanoseconds period_ns = 1, running_ns = 1;
    Instant from(Instant t) const {  // the first visit
      if (t < at || t >= never) return t;
      const Nanoseconds phase_ns = (t - at) % period_ns;
      return phase_ns < running_ns ? t : t + period_ns - phase_ns;
    }
  };
  struct Ends {  // of a connection
    Instant sender_proxy_stops, receiver_proxy_stops, nic_dead, cut_at, slow_at, delay_at;
    double slow_factor;
    Nanoseconds delay_ns;
    Visits sender_visits, receiver_visits;
    Instant wire_free = 0;
  };
  std::shared_ptr<const StepPlan> plan_;
  const StepTimes cost_;
  std::vector<RankStart> starts_;
  int steps_ = 0, stride_ = 0;  // the most that any rank takes part in
  std::unique_ptr<Instant[]> times_, iterations_;
  std::vector<int> place_;  // of a connection within times_; -1: not over the network
  std::vector<Instant> frozen_at_;
  std::vector<int> total_;
  std::vector<Ends> ends_;
};

}  // namespace ccld::sim
