#include "decision/report/status_json.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/model/control_wishes.h"
#include "decision/model/names.h"
#include "decision/report/status_index.h"
#include "schemas/abi/names.h"

namespace ccld::decision::report {
namespace {

// Of a communicator initialization: the number of ranks is always exact.
constexpr size_t init_ranks_shown_max = 64;
constexpr size_t inits_shown_max = 20;

double milliseconds(Nanoseconds ns) { return std::round(static_cast<double>(ns) / 1e3) / 1e3; }

Json hidden_names(uint32_t hidden) {
  Json names = Json::array();
  for (const abi::Hidden each : abi::hidden_all)
    if ((hidden & each) != 0) names.push_back(abi::name_of(each));
  return names;
}

Json channels_json(const CommStatus& c, size_t position) {
  if (c.ranks.size() > waiting_channels_ranks_max) return nullptr;
  Json channels = Json::array();
  if (position >= c.waiting_channels.size()) return channels;
  for (uint64_t left = c.waiting_channels[position]; left != 0; left &= left - 1)
    channels.push_back(std::countr_zero(left));
  return channels;
}

Json init_json(const InitStatus& s) {
  Json ranks = Json::array();
  for (const InitRankStatus& r : s.ranks) {
    if (ranks.size() == init_ranks_shown_max) break;
    ranks.push_back({{"rank", r.rank.value},
                     {"host", r.host},
                     {"pid", r.pid},
                     {"stage", abi::name_of(r.stage)},
                     {"stage_age_ms", milliseconds(r.stage_age_ns)},
                     {"result", r.stage == abi::InitStage::failed ? Json(r.result) : Json(nullptr)}});
  }
  struct Stage {
    uint64_t count = 0;
    Json ranks = Json::array();
  };
  std::map<std::pair<abi::InitStage, int32_t>, Stage> by_stage;
  for (const InitRankStatus& r : s.ranks) {
    Stage& stage = by_stage[{r.stage, r.stage == abi::InitStage::failed ? r.result : 0}];
    if (stage.count++ < init_ranks_shown_max) stage.ranks.push_back(r.rank.value);
  }
  Json stages = Json::array();
  for (auto& [key, stage] : by_stage) {
    if (stages.size() == init_ranks_shown_max) break;
    stages.push_back({{"stage", abi::name_of(key.first)},
                      {"result", key.first == abi::InitStage::failed ? Json(key.second) : Json(nullptr)},
                      {"count", stage.count},
                      {"ranks", std::move(stage.ranks)}});
  }
  Json missing = Json::array();
  for (const Rank rank : s.never_heard) missing.push_back(rank.value);
  return {{"job", s.job},
          {"comm_hash", absl::StrCat(absl::Hex(s.comm_hash, absl::kZeroPad16))},
          {"rank_count", s.rank_count},
          {"age_ms", milliseconds(s.age_ns)},
          {"failed", s.failed},
          {"heard_count", s.ranks.size()},
          {"ranks", std::move(ranks)},
          {"never_heard_count", s.never_heard_count},
          {"never_heard", std::move(missing)},
          {"stages", std::move(stages)}};
}

Json queue_json(const NetQueue& q) {
  const auto age = [](uint32_t ms) { return ms == age_never ? Json(nullptr) : Json(ms); };
  return {{"device", q.device_name.empty() ? Json(nullptr) : Json(q.device_name)},
          {"kind", abi::name_of(q.kind)},
          {"number", q.number},
          {"in_flight", q.in_flight},
          {"recv_in_flight", q.recv_in_flight},
          {"send_posted", q.send_posted},
          {"send_completed", q.send_completed},
          {"errors", q.errors},
          {"window_bytes", q.window_bytes},
          {"window_ms", q.window_ms},
          {"post_age_ms", age(q.post_age_ms)},
          {"complete_age_ms", age(q.complete_age_ms)},
          {"stuck", stuck_for_ns(q) > 0}};
}

Json control_json(const ControlState& c) {
  return {{"sequence", c.sequence},     {"refused", control_field_names(c.refused_fields)},
          {"running", c.running},       {"sample_us", c.sample_us},
          {"period_us", c.period_us},   {"log", abi::name_of(static_cast<abi::LogVerbosity>(c.log))},
          {"budget_ppm", c.budget_ppm}, {"endpoint", c.endpoint}};
}

// Metrics by name; those with instances as objects of them.
Json metrics_json(const MetricTable& metrics) {
  Json result = Json::object();
  for (const MetricValue& m : metrics) {
    const std::string name = metric_name(m.id);
    Json& slot = result[name];
    if (m.instance.empty())
      slot = m.value;
    else if (slot.is_null() || slot.is_object())
      slot[m.instance] = m.value;
  }
  return result;
}

Json ingest_json(const Snapshot& s) {
  Json rejected = Json::object();
  for (int r = 0; r < ingest::reject_reason_count; ++r) {
    rejected[ingest::name(static_cast<ingest::RejectReason>(r))] = s.ingest.rejected[static_cast<size_t>(r)];
  }
  Json errors = Json::array();
  for (const auto* list : {&s.ingest_errors, &s.access.door_errors}) {
    for (const ingest::DistinctError& e : *list) {
      errors.push_back({{"error", e.text},
                        {"count", e.count},
                        {"first_time", s.clock.text(e.first_ns)},
                        {"last_time", s.clock.text(e.last_ns)}});
    }
  }
  return {{"batches", s.ingest.batches},
          {"bytes", s.ingest.bytes},
          {"payloads", s.ingest.payloads},
          {"lost_batches", s.ingest.lost_batches},
          {"late_batches", s.ingest.late_batches},
          {"repeated_batches", s.ingest.repeated_batches},
          {"unknown_payloads", s.ingest.unknown_payloads},
          {"rejected_total", s.ingest.rejected_total()},
          {"rejected", std::move(rejected)},
          {"errors", std::move(errors)},
          {"lag_ms", milliseconds(s.ingest.lag_ns)}};
}

Json access_json(const AccessStatus& a) {
  Json refused = Json::object();
  for (int r = 0; r < ingest::door_reason_count; ++r) {
    refused[ingest::name(static_cast<ingest::DoorReason>(r))] = a.door.refused[static_cast<size_t>(r)];
  }
  return {{"telemetry", a.telemetry_keys ? "keys" : "anybody"},
          {"http", a.http_tokens ? "tokens" : "anybody"},
          {"tls", a.http_tls},
          {"keys", a.door.keys},
          {"admitted", a.door.admitted},
          {"refused_total", a.door.refused_total()},
          {"refused", std::move(refused)}};
}

Json http_json(const HttpCounters& h) {
  Json refused = Json::object();
  for (int r = 0; r < http_refusal_count; ++r)
    refused[name(static_cast<HttpRefusal>(r))] = h.refused[static_cast<size_t>(r)];
  return {{"refused_total", h.refused_total()}, {"refused", std::move(refused)}};
}

Json recording_json(const std::optional<RecorderCounters>& r) {
  if (!r.has_value()) return nullptr;
  return {{"entries", r->entries},
          {"bytes", r->bytes},
          {"missing", r->missing},
          {"file_open", r->file_open},
          {"file_bytes", r->file_bytes},
          {"write_errors", r->write_errors},
          {"history_bytes", r->history_bytes},
          {"incident_files", r->incident_files},
          {"cpu_ms", std::round(r->cpu_s * 1e6) / 1e3}};
}

Json history_json(const HistoryCounters& h) {
  return {{"enabled", h.enabled},
          {"database", h.enabled ? Json(h.database) : Json(nullptr)},
          {"queue_length", h.queue_length},
          {"revisions_stored", h.revisions_stored},
          {"revisions_waiting", h.revisions_waiting},
          {"revisions_dropped", h.revisions_dropped},
          {"write_errors", h.write_errors},
          {"incidents_removed", h.incidents_removed},
          {"database_bytes", h.database_bytes}};
}

Json webhook_json(const std::optional<WebhookCounters>& w) {
  if (!w.has_value()) return nullptr;
  return {{"queue_length", w->queue_length}, {"delivered", w->delivered}, {"refused", w->refused}, {"given_up", w->given_up},
          {"replaced", w->replaced},         {"dropped", w->dropped},     {"silenced", w->silenced}, {"failed_attempts", w->failed_attempts}};
}

}  // namespace

bool is_silenced(const Incident& i, const Snapshot& s) {
  if (s.silences.empty() || !is_open(i.state)) return false;
  return silence_of(silence_facts(i), s.silences, (s.now_ns + s.clock.realtime_minus_clock_ns) / ns_per_ms) != nullptr;
}

Json rank_json(const CommStatus& c, size_t position, Nanoseconds silent_ns) {
  const RankStatus& r = c.ranks[position];
  return {
      {"rank", r.rank.value},
      {"host", r.host},
      {"pid", r.pid},
      {"gpu", r.cuda_device < 0 ? Json(nullptr) : Json(r.cuda_device)},
      {"bus_id", r.gpu_bus_id.empty() ? Json(nullptr) : Json(r.gpu_bus_id)},
      {"up", r.up},
      {"entered", r.entered.value},
      {"launched", r.launched.value},
      {"completed", r.completed.value},
      {"moved_age_ms", milliseconds(r.moved_age_ns)},
      {"telemetry_age_ms", milliseconds(r.telemetry_age_ns)},
      {"silent", r.up && r.telemetry_age_ns >= silent_ns},
      {"process_state", r.process_state == '?' ? Json(nullptr) : Json(std::string(1, r.process_state))},
      {"watched", r.watched},
      {"p2p", {{"in_flight", r.p2p_in_flight}, {"age_ms", milliseconds(r.p2p_age_ns)}, {"completed", r.p2p_rounds}}},
      {"replay",
       r.replay == RoundKey{} ? Json(nullptr) : Json({{"op_seq", r.replay.op.value}, {"replay", r.replay.replay}})},
      {"begun", r.begun},
      {"waiting_channels", channels_json(c, position)}};
}

Json comm_json(const CommStatus& c, Trouble state) {
  Json result = {
      {"communicator", comm_text(c.comm)},
      {"comm_name", c.name.empty() ? Json(nullptr) : Json(c.name)},
      {"job", c.job},
      {"rank_count", c.rank_count},
      {"ranks_seen", c.ranks_seen},
      {"entered_max", c.entered_max.value},
      {"completed_min", c.completed_min.value},
      {"rounds", c.rounds},
      {"in_flight", nullptr},
      {"replays", c.replays},
      {"parent", c.parent.value == 0 ? Json(nullptr) : Json(comm_text(c.parent))},
      {"p2p", {{"in_flight", c.p2p_in_flight}, {"age_ms", milliseconds(c.p2p_age_ns)}, {"completed", c.p2p_rounds}}},
      {"ranks_not_watched", c.ranks_not_watched},
      {"not_measured", hidden_names(c.hidden)},
      {"state", name(state)}};
  if (c.in_flight) {
    result["in_flight"] = {{"op_seq", c.oldest_op.value},
                           {"age_ms", milliseconds(c.oldest_age_ns)},
                           {"operation", operation_json(c.oldest_signature)}};
  }
  return result;
}

Json process_json(const ProcessStatus& p, Nanoseconds silent_ns) {
  Json queues = Json::array();
  for (const NetQueue& q : std::vector<NetQueue>(p.net_queues)) queues.push_back(queue_json(q));
  return {{"host", p.process.host},
          {"pid", p.process.pid},
          {"job", p.job},
          {"telemetry_age_ms", milliseconds(p.telemetry_age_ns)},
          {"silent", p.presence(silent_ns) == Presence::silent},
          {"ended", p.presence(silent_ns) == Presence::ended},
          {"batches", p.batches},
          {"lost_batches", p.lost_batches},
          {"agent",
           {{"samples", p.health.samples},
            {"late_samples", p.health.late_samples},
            {"lapped_rounds", p.health.lapped_rounds},
            {"dropped_batches", p.health.dropped_batches},
            {"dropped_rounds", p.health.dropped_rounds},
            {"send_errors", p.health.send_errors},
            {"undelivered_batches", p.undelivered_batches},
            {"cpu_ms", milliseconds(static_cast<Nanoseconds>(p.health.cpu_ns))}}},
          {"probe", p.probe_stopped ? "stopped" : "running"},
          {"control", p.control.has_value() ? control_json(*p.control) : Json(nullptr)},
          {"metrics", p.metrics ? metrics_json(*p.metrics) : Json::object()},
          {"net_queues", std::move(queues)}};
}

Json job_json(const JobRow& j) {
  return {{"job", j.job},
          {"state", name(j.state)},
          {"incidents_open", j.incidents_open},
          {"incidents_confirmed", j.incidents_confirmed},
          {"process_count", j.processes},
          {"silent_process_count", j.silent},
          {"ended_process_count", j.ended},
          {"stopped_probe_count", j.probes_stopped},
          {"communicator_count", j.communicators.size()},
          {"communicators_in_flight", j.in_flight},
          {"oldest_in_flight_ms", j.in_flight == 0 ? Json(nullptr) : Json(milliseconds(j.oldest_age_ns))}};
}

namespace {

Json memory_json(const Snapshot& s) {
  const LetGo& gone = s.status.let_go;
  return {
      {"used_bytes", s.memory.used_bytes},
      {"max_bytes", s.memory.max_bytes > 0 ? Json(s.memory.max_bytes) : Json()},
      {"admits_new", s.memory.admits_new},
      {"let_go",
       {{"communicators", gone.communicators}, {"processes", gone.processes}, {"call_histories", gone.call_histories}}},
      {"refused",
       {{"communicators", gone.communicators_refused},
        {"processes", gone.processes_refused},
        {"initializations", gone.initializations_refused},
        {"ranks", s.status.ranks_refused},
        {"names", s.status.names_refused}}}};
}

}  // namespace

Json summary_json(const Snapshot& s, const StatusIndex& index) {
  Json inits = Json::array();
  for (const InitStatus& init : s.status.inits) {
    if (inits.size() == inits_shown_max) break;
    inits.push_back(init_json(init));
  }
  const auto confirmed = std::count_if(s.incidents.begin(), s.incidents.end(),
                                       [](const Incident& i) { return i.state == VerdictState::confirmed; });
  const auto acknowledged = std::count_if(s.incidents.begin(), s.incidents.end(), [&s](const Incident& i) {
    return is_open(i.state) && s.acknowledgements.contains(i.id);
  });
  uint64_t silenced = 0, silenced_confirmed = 0;
  for (const Incident& i : s.incidents) {
    if (!is_silenced(i, s)) continue;
    ++silenced;
    silenced_confirmed += i.state == VerdictState::confirmed ? 1 : 0;
  }
  Json by_state = Json::object();
  for (size_t t = 0; t < trouble_count; ++t) by_state[name(static_cast<Trouble>(t))] = index.communicators_by_state()[t];
  return {{"time", s.clock.text(s.now_ns)},
          {"version", CCLD_VERSION},
          {"rules", name(s.rules)},
          {"uptime_ms", milliseconds(s.now_ns - s.started_ns)},
          {"incidents_open", s.status.incidents_open},
          {"incidents_confirmed", confirmed},
          {"incidents_acknowledged", acknowledged},
          {"incidents_silenced", silenced},
          {"incidents_silenced_confirmed", silenced_confirmed},
          {"incidents_total", s.incidents.size()},
          {"process_count", s.status.processes.size()},
          {"silent_process_count", index.silent},
          {"ended_process_count", index.ended},
          {"job_count", index.jobs().size()},
          {"communicator_count", s.status.communicators.size()},
          {"communicators_by_state", std::move(by_state)},
          {"ingest", ingest_json(s)},
          {"access", access_json(s.access)},
          {"connections",
           {{"descriptors_max", s.connections.descriptors_max},
            {"cut_quiet", s.connections.cut_quiet},
            {"cut_speaking", s.connections.cut_speaking}}},
          {"http", http_json(s.http)},
          {"memory", memory_json(s)},
          {"service",
           {{"ticks", s.ticks},
            {"late_ticks", s.late_ticks},
            {"tick_ms", milliseconds(s.tick_duration_ns)},
            {"verdict_lines", s.verdict_lines},
            {"verdict_write_errors", s.verdict_write_errors}}},
          {"initialization_count", s.status.inits.size()},
          {"initializations", std::move(inits)},
          {"stopped_probe_count", index.probes_stopped},
          {"undelivered_batches", index.undelivered},
          {"network",
           {{"queues_in_flight", index.queues_in_flight},
            {"queues_stuck", index.queues_stuck},
            {"requests_in_flight", index.requests_in_flight}}},
          {"recording", recording_json(s.recording)},
          {"history", history_json(s.history)},
          {"webhook", webhook_json(s.webhook)},
          {"cluster", s.cluster.has_value() ? cluster_json(*s.cluster) : Json(nullptr)}};
}

Json cluster_json(const ClusterStatus& c) {
  Json nodes = Json::array();
  for (const ClusterStatus::Node& n : c.nodes)
    nodes.push_back({{"node", n.name}, {"leads", n.leads}, {"http", n.http}, {"telemetry", n.telemetry}, {"version", n.version}, {"heard_ms", n.heard_ms}});
  return {{"cluster", c.name},
          {"node", c.node},
          {"leads", c.leads},
          {"leader", c.leader.empty() ? Json(nullptr) : Json(c.leader)},
          {"connected", c.connected},
          {"nodes", std::move(nodes)},
          {"log",
           {{"applied", c.log_applied},
            {"last", c.log_last},
            {"error", c.log_error.empty() ? Json(nullptr) : Json(c.log_error)}}},
          {"telemetry",
           {{"sent", c.sent},
            {"not_sent", c.not_sent},
            {"received", c.received},
            {"received_dropped", c.received_dropped}}}};
}

Json tune_json(const Snapshot& s, uint64_t sequence) {
  constexpr size_t refused_shown_max = 100;
  uint64_t answered = 0;
  Json refused = Json::array();
  for (const ProcessStatus& p : s.status.processes) {
    if (!p.control.has_value() || p.control->sequence != sequence) continue;
    ++answered;
    if (p.control->refused_fields == 0 || refused.size() >= refused_shown_max) continue;
    refused.push_back(
        {{"host", p.process.host}, {"pid", p.process.pid}, {"fields", control_field_names(p.control->refused_fields)}});
  }
  return {{"sequence", sequence}, {"answered", answered}, {"refused", std::move(refused)}};
}

}  // namespace ccld::decision::report
