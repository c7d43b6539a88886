// Short questions to incidents, shared by the tests of this folder.
#pragma once

#include <algorithm>
#include <ostream>
#include <set>
#include <sstream>

#include "decision/model/verdict.h"
#include "test/support/telemetry/fake_cluster.h"

namespace ccld::decision {

inline std::set<int> ranks_of(const std::vector<Culprit>& culprits) {
  std::set<int> ranks;
  for (const Culprit& c : culprits) ranks.insert(c.rank.value);
  return ranks;
}

inline std::set<int> ranks_of(const std::vector<Rank>& list) {
  std::set<int> ranks;
  for (Rank r : list) ranks.insert(r.value);
  return ranks;
}

inline std::ostream& operator<<(std::ostream& out, const Incident& i) {
  out << name(i.fault) << ' ' << name(i.state) << " op " << i.op.value << " confidence " << i.confidence;
  for (const Culprit& c : i.culprits) {
    out << "\n  rank " << c.rank.value << ' ' << name(c.component) << " channel " << c.channel;
    if (c.peer) out << " peer " << c.peer->value;
    out << " share " << c.lost_time_share << ": " << c.reason;
  }
  out << "\n  candidates";
  for (Rank r : i.candidates) out << ' ' << r.value;
  for (const Evidence& e : i.evidence)
    out << "\n  evidence rank " << e.rank << ' ' << words(e) << " = " << e.value << ' ' << unit_of(e);
  return out << '\n';
}

inline std::string text(const std::vector<Incident>& incidents) {
  std::ostringstream out;
  for (const Incident& i : incidents) out << i;
  return out.str();
}

inline bool ever(const fake::Cluster& c, VerdictState state) {
  return std::any_of(c.reported().begin(), c.reported().end(), [&](const Incident& i) { return i.state == state; });
}

}  // namespace ccld::decision
