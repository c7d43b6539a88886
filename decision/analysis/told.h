// What a reader was last told of an incident, and whether what it says now is worth a new revision: another state,
// class or culprit at once, and once the time of an iteration, when it becomes known; a share of the loss that moved
// (settings revision_...) when some time has passed. Numbers that merely wander make no revision. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "decision/model/verdict.h"
#include "decision/settings.h"

namespace ccld::decision {

class Told {
 public:
  // Whether it is due now. Never told before: yes.
  bool is_due(const Incident&, Nanoseconds now_ns, const Settings&) const;
  // Nothing new would ever be due unless the incident changes again.
  bool says_all(const Incident&, const Settings&) const;
  void remember(const Incident&, Nanoseconds now_ns, const Settings&);

 private:
  struct Named {
    Rank rank;
    std::optional<Rank> peer;
    Component component;
    int channel;
    friend auto operator<=>(const Named&, const Named&) = default;
  };
  static Named named(const Culprit&);
  struct Facts {
    VerdictState state;
    FaultClass fault;
    std::string title;  // while nobody is named, as the next one
    CommUid comm;
    std::set<Named> culprits;  // in whatever order: which one costs more wanders
    std::vector<Rank> candidates;
    std::vector<CycleStep> cycle;
    OpSeq hangs_since;
    friend bool operator==(const Facts&, const Facts&) = default;
  };
  static Facts facts_of(const Incident&);
  bool news(const Incident&) const;
  bool shares_moved(const Incident&, const Settings&) const;

  std::optional<Facts> facts_;
  bool told_iteration_ = false;     // once the gain was told as that of an iteration
  std::map<Named, double> shares_;  // of the culprits
  Nanoseconds told_ns_ = 0;
  Nanoseconds pause_ns_ = 0;  // before shares alone are told again
};

}  // namespace ccld::decision
