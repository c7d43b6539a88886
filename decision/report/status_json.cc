#include "decision/report/status_json.h"

#include <cmath>

#include "decision/model/names.h"

namespace ccld::decision::report {
namespace {

// Silent processes named in the short form; their number is always exact.
constexpr size_t silent_processes_shown_max = 100;

double milliseconds(Nanoseconds ns) { return std::round(static_cast<double>(ns) / 1e3) / 1e3; }

Json rank_json(const RankStatus& r, Nanoseconds silent_ns) {
  return {{"rank", r.rank.value},
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
          {"process_state", r.process_state == '?' ? Json(nullptr) : Json(std::string(1, r.process_state))}};
}

Json comm_json(const CommStatus& c, Nanoseconds silent_ns, bool all_ranks) {
  Json result = {{"communicator", comm_text(c.comm)},
                 {"comm_name", c.name.empty() ? Json(nullptr) : Json(c.name)},
                 {"job", c.job},
                 {"rank_count", c.rank_count},
                 {"ranks_seen", c.ranks_seen},
                 {"entered_max", c.entered_max.value},
                 {"completed_min", c.completed_min.value},
                 {"rounds", c.rounds},
                 {"in_flight", nullptr}};
  if (c.in_flight) {
    result["in_flight"] = {{"op_seq", c.oldest_op.value},
                           {"age_ms", milliseconds(c.oldest_age_ns)},
                           {"operation", operation_json(c.oldest_signature)}};
  }
  if (all_ranks) {
    Json ranks = Json::array();
    for (const RankStatus& rank : c.ranks) ranks.push_back(rank_json(rank, silent_ns));
    result["ranks"] = std::move(ranks);
  }
  return result;
}

Json process_json(const ProcessStatus& p, Nanoseconds silent_ns) {
  return {{"host", p.process.host},
          {"pid", p.process.pid},
          {"job", p.job},
          {"telemetry_age_ms", milliseconds(p.telemetry_age_ns)},
          {"silent", p.telemetry_age_ns >= silent_ns},
          {"batches", p.batches},
          {"lost_batches", p.lost_batches},
          {"agent",
           {{"samples", p.health.samples},
            {"late_samples", p.health.late_samples},
            {"lapped_rounds", p.health.lapped_rounds},
            {"dropped_batches", p.health.dropped_batches},
            {"dropped_rounds", p.health.dropped_rounds},
            {"send_errors", p.health.send_errors},
            {"cpu_ms", milliseconds(static_cast<Nanoseconds>(p.health.cpu_ns))}}}};
}

Json ingest_json(const Snapshot& s) {
  Json rejected = Json::object();
  for (int r = 0; r < ingest::reject_reason_count; ++r) {
    rejected[ingest::name(static_cast<ingest::RejectReason>(r))] = s.ingest.rejected[static_cast<size_t>(r)];
  }
  Json errors = Json::array();
  for (const ingest::DistinctError& e : s.ingest_errors) {
    errors.push_back({{"error", e.text},
                      {"count", e.count},
                      {"first_time", s.clock.text(e.first_ns)},
                      {"last_time", s.clock.text(e.last_ns)}});
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

}  // namespace

Json status_json(const Snapshot& s, bool all_ranks) {
  Json communicators = Json::array();
  for (const CommStatus& comm : s.status.communicators) communicators.push_back(comm_json(comm, s.silent_ns, all_ranks));
  Json processes = Json::array();
  uint64_t silent = 0;
  for (const ProcessStatus& process : s.status.processes) {
    const bool is_silent = process.telemetry_age_ns >= s.silent_ns;
    if (is_silent) ++silent;
    if (all_ranks || (is_silent && processes.size() < silent_processes_shown_max)) {
      processes.push_back(process_json(process, s.silent_ns));
    }
  }
  return {{"time", s.clock.text(s.now_ns)},
          {"version", CCLD_VERSION},
          {"rules", name(s.rules)},
          {"uptime_ms", milliseconds(s.now_ns - s.started_ns)},
          {"incidents_open", s.status.incidents_open},
          {"incidents_total", s.incidents.size()},
          {"process_count", s.status.processes.size()},
          {"silent_process_count", silent},
          {"processes", std::move(processes)},
          {"communicators", std::move(communicators)},
          {"ingest", ingest_json(s)},
          {"service",
           {{"ticks", s.ticks},
            {"late_ticks", s.late_ticks},
            {"tick_ms", milliseconds(s.tick_duration_ns)},
            {"verdict_lines", s.verdict_lines},
            {"verdict_write_errors", s.verdict_write_errors}}}};
}

Json incidents_json(const Snapshot& s) {
  Json incidents = Json::array();
  for (const Incident& incident : s.incidents) incidents.push_back(verdict_json(incident, s.now_ns, s.clock));
  return {{"time", s.clock.text(s.now_ns)}, {"incidents", std::move(incidents)}};
}

std::optional<Json> incident_json(const Snapshot& s, uint64_t id) {
  for (const Incident& incident : s.incidents) {
    if (incident.id == id) return verdict_json(incident, s.now_ns, s.clock);
  }
  return std::nullopt;
}

}  // namespace ccld::decision::report
