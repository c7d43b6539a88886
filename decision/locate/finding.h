// What location concludes from one look at the evidence; the analyzer turns it into an incident.
#pragma once

#include <string>
#include <vector>

#include "decision/model/communicator.h"
#include "decision/model/verdict.h"

namespace ccld::decision {

struct Finding {
  FaultClass fault = FaultClass::h1_not_entered;
  OpSeq op;
  uint32_t replay = 0;  // of `op`, if it was recorded into a graph
  Signature signature;
  std::string title;  // empty: that of the class
  RoundKey key() const { return {op, replay}; }
  std::vector<Culprit> culprits;
  std::vector<Rank> candidates;
  std::vector<Rank> victims;
  uint32_t victims_elsewhere = 0;  // ranks of other communicators
  double confidence = 0;
  std::vector<Evidence> evidence;
  std::string next_step;
  Gain gain;  // slow classes
  // Evidence that no healthy job gives, however long one waits: the incident is confirmed without waiting for
  // hang_confirm_s.
  bool hard = false;
  // Ranks that the others wait for because they are not in the operation: the cause may lie where those are. Empty: it
  // lies here.
  std::vector<Rank> wanted;
  std::vector<VictimComm> victim_comms;
  std::vector<Wait> waits;
  std::vector<CycleStep> cycle;
};

// At most so many rows of one kind: an incident of a thousand ranks stays readable.
constexpr size_t evidence_max = 24;
constexpr size_t culprits_max = 64;

inline void add_evidence(Finding& f, Evidence e) {
  if (f.evidence.size() < evidence_max) f.evidence.push_back(std::move(e));
}

inline Evidence paper_value(std::string what, double value, std::string unit, int32_t rank = -1) {
  return {.kind = EvidenceKind::paper, .rank = rank, .subject = std::move(what), .value = value, .unit = std::move(unit)};
}

// With host, pid and GPU of the rank filled in.
Culprit make_culprit(const Communicator&, Rank, Component, Condition, std::string reason);
// All ranks of the communicator but the culprits.
void collect_victims(const Communicator&, Finding&);

// The network device of this rank's connection; empty: none known.
std::string net_name_of(const Communicator&, Rank, abi::Direction, Rank peer, int channel);

}  // namespace ccld::decision
