// What a step takes on each connection of a communicator, in one kind of operations, and what it takes otherwise: by
// the other connections, or by its own past.
//
// Contract: pure; nanoseconds. References must outlive the object.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "decision/settings.h"
#include "decision/whatif/operation_steps.h"
#include "decision/whatif/slow_collectives.h"
#include "decision/whatif/step_past.h"

namespace ccld::decision::whatif {

struct ConnectionSteps {
  bool network = false;
  StepTimes times;
  // Part of an operation that is lost, at least and at most, if each step takes so much longer.
  double lost_part(double longer_ns) const;
  double lost_most_part(double longer_ns) const;
};
using Connections = std::map<Ends, ConnectionSteps>;

// Those that enough operations report.
Connections add_up(const std::vector<OperationSteps>&, const Settings&);

class StepReference {
 public:
  StepReference(CommUid, size_t kind, const Connections&, const StepPast&, const Settings&);

  // Part of the transfers in which each rank's proxy did not poll its connections while a usual one did.
  const std::map<int32_t, double>& away_parts() const { return away_parts_; }
  // The reference that a step exceeds by more than chance until it is given to the receiver's GPU: what the peers say,
  // or else the past. nullopt: neither.
  struct Exceeded {
    UsualStep usual;
    bool by_past = false;
  };
  std::optional<Exceeded> exceeded(const Ends&, const ConnectionSteps&) const;
  // By how much longer a step waits for the receiver's GPU than before or, if that is not known, than with the peers:
  // by more than chance, or else 0. `usual_ns`: what it waits otherwise.
  struct Untaken {
    double longer_ns = 0, usual_ns = 0;
    bool by_past = false;
  };
  Untaken untaken(const Ends&, const ConnectionSteps&) const;
  std::optional<UsualStep> before(const Ends&) const;  // nullopt: not known
  const UsualStep& of_peers(bool network) const { return peers_[network]; }

 private:
  CommUid comm_;
  size_t kind_;
  const StepPast& past_;
  const Settings& settings_;
  std::map<int32_t, double> away_parts_;
  // What a step takes on the faster half of the connections within nodes, and over the network, at most: one direction
  // of a wire is half of them, so a healthy one is among these.
  UsualStep peers_[2];
  UsualStep peers_before_[2];  // of those whose past is known
  size_t peer_count_[2] = {};
};

// By how much longer a step takes, in the parts in which it does. Behind a slow part others may be quicker than usual,
// where the slots are always full.
double beyond_ns(const StepTimes& now, const UsualStep&);

}  // namespace ccld::decision::whatif
