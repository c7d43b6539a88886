#include "decision/model/left_open.h"

#include <algorithm>

namespace ccld::decision {
namespace {

enum class Kind { hang, mismatch, slow };

Kind kind_of(FaultClass fault) {
  switch (fault) {
    case FaultClass::h1_not_entered:
    case FaultClass::h3_hardware: return Kind::hang;
    case FaultClass::h2_inconsistent: return Kind::mismatch;
    case FaultClass::s1_computation_slow:
    case FaultClass::s2_communication_slow:
    case FaultClass::s3_mixed_slow: return Kind::slow;
  }
  return Kind::hang;
}

}  // namespace

bool is_same_incident(const LeftOpen& left, const Incident& incident) {
  const Kind kind = kind_of(left.fault);
  if (kind != kind_of(incident.fault) || left.job != incident.job) return false;
  if (left.comm == incident.comm && (left.comm != CommUid{} || left.comm_name == incident.comm_name) &&
      (kind == Kind::slow || left.op == incident.op))
    return true;
  const auto stalls = [](const auto& victims, CommUid comm, OpSeq op) {
    return comm != CommUid{} && std::any_of(victims.begin(), victims.end(),
                                            [&](const auto& v) { return v.comm == comm && v.op == op; });
  };
  return kind == Kind::hang && (stalls(left.victims, incident.comm, incident.op) ||
                                stalls(incident.victim_comms, left.comm, left.op));
}

}  // namespace ccld::decision
