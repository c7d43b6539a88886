#include "test/support/workload/fault_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace ccld::workload {
namespace {

const std::map<std::string, FaultKind> kinds{{"skip", FaultKind::skip},
                                             {"delay", FaultKind::delay},
                                             {"pauses", FaultKind::pauses},
                                             {"other_operation", FaultKind::other_operation},
                                             {"other_count", FaultKind::other_count},
                                             {"other_type", FaultKind::other_type},
                                             {"other_order", FaultKind::other_order},
                                             {"other_comm_order", FaultKind::other_comm_order}};

// Draws of pauses must not be those of the workload's jitter.
constexpr uint64_t pause_seed = 0x70617573;

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw std::invalid_argument(where + ": " + why);
}

template <class Value>
Value field(const nlohmann::json& object, const std::string& where, const char* name, Value otherwise) {
  const auto found = object.find(name);
  if (found == object.end()) return otherwise;
  try {
    return found->get<Value>();
  } catch (const nlohmann::json::exception&) {
    refuse(where + "." + name, "has the wrong type: " + found->dump());
  }
}

Fault parse_fault(const nlohmann::json& object, const std::string& where) {
  if (!object.is_object()) refuse(where, "is not an object");
  Fault fault;
  fault.rank = field(object, where, "rank", -1);
  if (fault.rank < 0) refuse(where + ".rank", "is missing or negative");
  const std::string kind = field<std::string>(object, where, "kind", "");
  if (kinds.count(kind) == 0) refuse(where + ".kind", "unknown kind '" + kind + "'");
  fault.kind = kinds.at(kind);
  fault.from_round = field<uint64_t>(object, where, "from_round", 0);
  fault.rounds = field<uint64_t>(object, where, "rounds", 1);
  fault.ms = field<double>(object, where, "ms", 0);
  fault.factor = field<double>(object, where, "factor", 1);
  fault.share = field<double>(object, where, "share", 0);
  fault.call = field(object, where, "call", -1);
  if ((fault.kind == FaultKind::delay || fault.kind == FaultKind::pauses) && !(fault.ms > 0))
    refuse(where + ".ms", "a delay needs milliseconds above 0");
  if (fault.kind == FaultKind::pauses && !(fault.share > 0 && fault.share <= 1))
    refuse(where + ".share", "must be above 0 and at most 1");
  if (fault.kind == FaultKind::other_count && !(fault.factor > 0 && fault.factor <= 2)) {
    refuse(where + ".factor", "must be above 0 and at most 2");
  }
  if (fault.kind == FaultKind::other_order && fault.rounds != 1)
    refuse(where + ".rounds", "other_order swaps one pair: must be 1");
  try {
    if (object.contains("comm")) fault.comm = group_named(field<std::string>(object, where, "comm", ""));
    if (fault.kind == FaultKind::other_comm_order) {
      fault.with = group_named(field<std::string>(object, where, "with", ""));
      if (!fault.comm) refuse(where + ".comm", "is missing");
    }
    if (fault.kind == FaultKind::other_operation)
      fault.operation = operation_named(field<std::string>(object, where, "operation", ""));
    if (fault.kind == FaultKind::other_type)
      fault.datatype = datatype_named(field<std::string>(object, where, "datatype", ""));
  } catch (const std::invalid_argument& error) {
    refuse(where, error.what());
  }
  return fault;
}

// Returns whether anything changed.
bool apply_fault(const Fault& fault, uint64_t round, int comm_size, RoundPlan* plan) {
  switch (fault.kind) {
    case FaultKind::skip: plan->calls.clear(); break;
    case FaultKind::delay: plan->delay_ms += fault.ms; break;
    case FaultKind::pauses: {
      const auto rank = static_cast<uint64_t>(fault.rank);
      if (draw(pause_seed, rank, round) >= fault.share) return false;
      plan->delay_ms += fault.ms * (0.5 + draw(pause_seed + 1, rank, round));
      break;
    }
    case FaultKind::other_operation:
      for (Call& call : plan->calls) {
        call.operation = fault.operation;
        set_count(&call, comm_size);
      }
      break;
    case FaultKind::other_count:
      for (Call& call : plan->calls)
        call.count = std::max<uint64_t>(1, std::llround(double(call.count) * fault.factor));
      break;
    case FaultKind::other_type:
      for (Call& call : plan->calls) call.datatype = fault.datatype;
      break;
    case FaultKind::other_order:              // which needs the next round's call, and
    case FaultKind::other_comm_order: break;  // which needs all calls of the round: their callers know them
  }
  return true;
}

}  // namespace

std::vector<Fault> parse_faults(const std::string& json) {
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(json);
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("is not JSON: ") + error.what());
  }
  if (!document.is_object() || !document.contains("faults") || !document["faults"].is_array())
    refuse("faults", "is missing or not a list");
  std::vector<Fault> faults;
  for (const auto& object : document["faults"])
    faults.push_back(parse_fault(object, "faults[" + std::to_string(faults.size()) + "]"));
  return faults;
}

void FaultFile::adopt(std::vector<Fault> faults) {
  faults_ = std::move(faults);
  applied_.resize(faults_.size(), 0);
  last_round_.resize(faults_.size(), 0);
  ++version_;
}

void FaultFile::refresh() {
  if (path_.empty()) return;
  struct stat status;
  if (stat(path_.c_str(), &status) != 0) return;  // no file: no change
  const int64_t time_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (time_ns == seen_time_ns_ && status.st_ino == seen_inode_ && status.st_size == seen_size_) return;
  seen_time_ns_ = time_ns;
  seen_inode_ = status.st_ino;
  seen_size_ = status.st_size;
  std::ostringstream text;
  text << std::ifstream(path_).rdbuf();
  try {
    adopt(parse_faults(text.str()));
  } catch (const std::invalid_argument& error) {
    fprintf(stderr, "ccld-workload: %s: %s\n", path_.c_str(), error.what());
  }
}

RoundPlan FaultFile::plan(uint64_t round, const Traffic& traffic) {
  RoundPlan plan;
  plan.calls.push_back(traffic.call(round));
  for (size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.rank != rank_ || round < fault.from_round) continue;
    if (fault.kind == FaultKind::other_order && applied_[i] == fault.rounds && fault.rounds != 0) {
      // The round after the swapped pair: its operation was called already.
      plan.calls.clear();
      ++applied_[i];
      continue;
    }
    if (fault.rounds != 0 && applied_[i] >= fault.rounds) continue;
    if (!apply_fault(fault, round, traffic.rank_count(), &plan)) continue;
    if (fault.kind == FaultKind::other_order) plan.calls.insert(plan.calls.begin(), traffic.call(round + 1));
    plan.changed = true;
    ++applied_[i];
  }
  return plan;
}

bool FaultFile::takes_effect(size_t i, uint64_t round) {
  const Fault& fault = faults_[i];
  if (fault.rank != rank_ || round < fault.from_round) return false;
  if (last_round_[i] == round) return true;
  if (fault.rounds != 0 && applied_[i] >= fault.rounds) return false;
  last_round_[i] = round;
  ++applied_[i];
  return true;
}

RoundPlan FaultFile::plan_call(uint64_t round, Group comm, int index, int comm_size, const Call& call) {
  RoundPlan plan;
  plan.calls.push_back(call);
  for (size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.kind == FaultKind::other_order || fault.kind == FaultKind::other_comm_order) continue;
    if ((fault.comm && *fault.comm != comm) || (fault.call >= 0 && fault.call != index)) continue;
    if (!takes_effect(i, round)) continue;
    plan.changed = apply_fault(fault, round, comm_size, &plan) || plan.changed;
  }
  return plan;
}

std::vector<std::pair<Group, Group>> FaultFile::swaps(uint64_t round) {
  std::vector<std::pair<Group, Group>> result;
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].kind == FaultKind::other_comm_order && takes_effect(i, round))
      result.emplace_back(*faults_[i].comm, *faults_[i].with);
  }
  return result;
}

}  // namespace ccld::workload
