#include "decision/report/verdict_json.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "decision/model/names.h"
#include "decision/report/headline.h"
#include "decision/report/remedies.h"

namespace ccld::decision::report {
namespace {

Json optional_op(OpSeq op) { return op.value == 0 ? Json(nullptr) : Json(op.value); }
Json optional_text(const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); }
Json optional_index(int i) { return i < 0 ? Json(nullptr) : Json(i); }
// JSON has no infinity.
Json finite(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

// Milliseconds between the onset and an instant that may not have come yet.
Json since_onset_ms(const Incident& i, Nanoseconds instant_ns) {
  if (instant_ns == 0) return nullptr;
  return std::round(static_cast<double>(instant_ns - i.onset_ns) / 1e3) / 1e3;
}

Json optional_time(const WallClock& clock, Nanoseconds instant_ns) {
  return instant_ns == 0 ? Json(nullptr) : Json(clock.text(instant_ns));
}

Json culprit_json(const Culprit& c) {
  return {{"rank", c.rank.value},
          {"job_rank", c.job_rank.has_value() ? Json(c.job_rank->value) : Json(nullptr)},
          {"host", c.host},
          {"pid", c.pid},
          {"gpu", optional_index(c.cuda_device)},
          {"bus_id", optional_text(c.gpu_bus_id)},
          {"component", name(c.component)},
          {"condition", name(c.condition)},
          {"channel", optional_index(c.channel)},
          {"peer", c.peer.has_value() ? Json(c.peer->value) : Json(nullptr)},
          {"peer_host", optional_text(c.peer_host)},
          {"net", optional_text(c.net_name)},
          {"lost_time_share", finite(c.lost_time_share)},
          {"reason", c.reason}};
}

Json evidence_json(const Evidence& e, const WallClock& clock) {
  return {{"kind", name(e.kind)},
          {"rank", optional_index(e.rank)},
          {"peer", optional_index(e.peer)},
          {"channel", optional_index(e.channel)},
          {"op_seq", optional_op(e.op)},
          {"what", words(e)},
          {"value", finite(e.value)},
          {"unit", unit_of(e)},
          {"time", optional_time(clock, e.at_ns)}};
}

Json victim_comms_json(const Incident& i) {
  Json result = Json::array();
  for (const VictimComm& c : i.victim_comms)
    result.push_back({{"communicator", comm_text(c.comm)},
                      {"comm_name", optional_text(c.name)},
                      {"rank_count", c.rank_count},
                      {"op_seq", optional_op(c.op)}});
  return result;
}

Json cycle_json(const Incident& i) {
  Json result = Json::array();
  for (const CycleStep& s : i.cycle)
    result.push_back({{"communicator", comm_text(s.comm)},
                      {"comm_name", optional_text(s.comm_name)},
                      {"op_seq", optional_op(s.op)},
                      {"rank", s.rank.value},
                      {"waits_for", s.waits_for.value},
                      {"host", s.host},
                      {"pid", s.pid},
                      {"gpu", optional_index(s.cuda_device)}});
  return result;
}

Json optional_ms(Nanoseconds ns) { return ns == 0 ? Json(nullptr) : Json(std::round(static_cast<double>(ns) / 1e3) / 1e3); }

Json waits_json(const Incident& i) {
  Json result = Json::array();
  for (const Wait& w : i.waits)
    result.push_back({{"communicator", w.comm.value == 0 ? Json(nullptr) : Json(comm_text(w.comm))},
                      {"rank", w.rank.value},
                      {"waits_for", w.waits_for.value},
                      {"what", name(w.what)},
                      {"channel", optional_index(w.channel)},
                      {"step_wanted", w.wanted ? Json(*w.wanted) : Json(nullptr)},
                      {"step_posted", w.posted ? Json(*w.posted) : Json(nullptr)},
                      {"age_ms", optional_ms(w.age_ns)}});
  return result;
}

Json commands_json(const Incident& i) {
  Json result = Json::array();
  if (!is_open(i.state)) return result;
  for (const Command& c : commands_for(i)) result.push_back({{"host", optional_text(c.host)}, {"command", c.text}});
  return result;
}

Json stage_json(const Incident& i) {
  const TrainingStage& s = i.stage;
  return {{"role", name(s.role)},
          {"role_confidence", finite(s.role_confidence)},
          {"phase", name(s.phase)},
          {"phase_confidence", finite(s.phase_confidence)},
          {"effect", name(s.effect)},
          {"iteration_usual_ms", optional_ms(s.iteration_usual_ns)},
          {"iteration_now_ms", optional_ms(s.iteration_now_ns)}};
}

Json gain_json(const Gain& g) {
  if (!g.known()) return nullptr;
  return {{"of", g.of_iteration ? "iteration" : "operations compared"},
          {"now_ms", optional_ms(g.now_ns)},
          {"without_ms", optional_ms(g.without_ns)},
          {"share", finite(g.share())}};
}

Json ranks_json(const std::vector<Rank>& ranks) {
  Json result = Json::array();
  for (const Rank rank : ranks) result.push_back(rank.value);
  return result;
}

}  // namespace

std::string comm_text(CommUid comm) { return absl::StrCat(absl::Hex(comm.value, absl::kZeroPad16)); }

std::string to_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json operation_json(const Signature& s) {
  return {{"function", name(s.function)},
          {"count", s.count},
          {"datatype", name(s.datatype)},
          {"reduction", s.reduction == abi::Reduction::none ? Json(nullptr) : Json(name(s.reduction))},
          {"root", optional_index(s.root)},
          {"algorithm", name(s.algorithm)},
          {"protocol", name(s.protocol)},
          {"channels", s.channels == 0 ? Json(nullptr) : Json(s.channels)},
          {"bytes", s.datatype == abi::Datatype::unknown ? Json(nullptr) : Json(s.count * datatype_bytes(s.datatype))}};
}

Json verdict_json(const Incident& i, Nanoseconds now_ns, const WallClock& clock) {
  std::set<int32_t> ranks;
  Json culprits = Json::array();
  for (const Culprit& culprit : i.culprits) {
    if (culprit.rank.value >= 0) ranks.insert(culprit.rank.value);
    culprits.push_back(culprit_json(culprit));
  }
  Json evidence = Json::array();
  for (const Evidence& row : i.evidence) evidence.push_back(evidence_json(row, clock));

  return {{"time", clock.text(now_ns)},
          {"incident", i.id},
          {"run", optional_text(i.run)},
          {"revision", i.revision},
          {"class", name(i.fault)},
          {"class_title", title(i.fault)},
          {"kind", kind_text(i.fault)},
          {"title", headline(i)},
          {"state", name(i.state)},
          {"rules", name(i.rules)},
          {"job", i.job},
          {"communicator", comm_text(i.comm)},
          {"comm_name", optional_text(i.comm_name)},
          {"rank_count", i.rank_count},
          {"op_seq", optional_op(i.op)},
          {"operation", operation_json(i.signature)},
          {"ranks", ranks},
          {"culprits", std::move(culprits)},
          {"candidates", ranks_json(i.candidates)},
          {"victims", {{"count", i.victim_count}, {"sample", ranks_json(i.victim_sample)}}},
          {"confidence", finite(i.confidence)},
          {"evidence", std::move(evidence)},
          {"next_step", i.next_step},
          {"commands", commands_json(i)},
          {"advice", is_open(i.state) ? optional_text(advice_for(i)) : Json(nullptr)},
          {"suspected_ms", since_onset_ms(i, i.suspected_ns)},
          {"confirmed_ms", since_onset_ms(i, i.confirmed_ns)},
          {"located_ms", since_onset_ms(i, i.located_ns)},
          {"resolved_ms", since_onset_ms(i, i.resolved_ns)},
          {"onset_time", optional_time(clock, i.onset_ns)},
          {"suspected_time", optional_time(clock, i.suspected_ns)},
          {"confirmed_time", optional_time(clock, i.confirmed_ns)},
          {"located_time", optional_time(clock, i.located_ns)},
          {"resolved_time", optional_time(clock, i.resolved_ns)},
          {"replay", i.replay == 0 ? Json(nullptr) : Json(i.replay)},
          {"victim_communicators", victim_comms_json(i)},
          {"victim_communicator_count", i.victim_comm_count},
          {"waits", waits_json(i)},
          {"cycle", cycle_json(i)},
          {"stage", stage_json(i)},
          {"gain", gain_json(i.gain)}};
}

}  // namespace ccld::decision::report
