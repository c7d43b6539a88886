#include "decision/report/prometheus.h"

#include <algorithm>
#include <utility>

#include "decision/report/incident_metrics.h"
#include "decision/report/metric_families.h"
#include "decision/report/process_metrics.h"
#include "prometheus/text_serializer.h"

namespace ccld::decision::report {
namespace {

class Service {
 public:
  explicit Service(MetricFamilies& out) : out_(out) {}
  template <class Value>
  void counter(const char* metric, const char* help, Value value) {
    out_.single(metric, MetricKind::counter, help, static_cast<double>(value));
  }
  template <class Value>
  void gauge(const char* metric, const char* help, Value value) {
    out_.single(metric, MetricKind::gauge, help, static_cast<double>(value));
  }

 private:
  MetricFamilies& out_;
};

void add_ingest(const Snapshot& s, MetricFamilies& out) {
  Service service(out);
  service.counter("ccld_batches_total", "Telemetry batches accepted.", s.ingest.batches);
  service.counter("ccld_batch_bytes_total", "Bytes of accepted batches.", s.ingest.bytes);
  service.counter("ccld_batches_lost_total", "Gaps in the batch numbers of processes.", s.ingest.lost_batches);
  service.counter("ccld_batches_late_total", "Batches that arrived after a later one; most were counted as lost.",
                  s.ingest.late_batches);
  service.counter("ccld_batches_repeated_total", "Batches that had arrived before and were dropped.",
                  s.ingest.repeated_batches);
  out.begin("ccld_messages_rejected_total", MetricKind::counter, "Messages that were not acceptable batches.");
  for (int r = 0; r < ingest::reject_reason_count; ++r) {
    out.add(static_cast<double>(s.ingest.rejected[static_cast<size_t>(r)]),
            {{"reason", ingest::name(static_cast<ingest::RejectReason>(r))}});
  }
  out.begin("ccld_connections_refused_total", MetricKind::counter,
            "Connections that were turned away at the telemetry endpoint; all 0 where it demands no keys.");
  for (int r = 0; r < ingest::door_reason_count; ++r) {
    out.add(static_cast<double>(s.access.door.refused[static_cast<size_t>(r)]),
            {{"reason", ingest::name(static_cast<ingest::DoorReason>(r))}});
  }
  out.begin("ccld_http_connections_refused_total", MetricKind::counter,
            "Connections that the query API refused, or cut off.");
  for (int r = 0; r < http_refusal_count; ++r)
    out.add(static_cast<double>(s.http.refused[static_cast<size_t>(r)]),
            {{"reason", name(static_cast<HttpRefusal>(r))}});
  out.begin("ccld_authentication", MetricKind::gauge, "1 where only those who prove who they are come in.");
  out.add(s.access.telemetry_keys ? 1 : 0, {{"side", "telemetry"}});
  out.add(s.access.http_tokens ? 1 : 0, {{"side", "http"}});
  service.gauge("ccld_ingest_lag_seconds", "Age of the newest batch when it was read; includes clock differences.",
                seconds(s.ingest.lag_ns));
}

void add_communicators(const Snapshot& s, MetricFamilies& out) {
  uint64_t ranks = 0, in_flight = 0, p2p_in_flight = 0, replays = 0, stuck = 0;
  Nanoseconds oldest_ns = 0;
  for (const CommStatus& comm : s.status.communicators) {
    ranks += static_cast<uint64_t>(comm.ranks_seen);
    p2p_in_flight += comm.p2p_in_flight;
    replays += comm.replays;
    if (!comm.in_flight) continue;
    ++in_flight;
    oldest_ns = std::max(oldest_ns, comm.oldest_age_ns);
  }
  for (const ProcessStatus& process : s.status.processes)
    stuck += process.net.queues_stuck;
  Service service(out);
  service.gauge("ccld_communicators", "Communicators known.", s.status.communicators.size());
  service.gauge("ccld_communicators_in_flight", "Communicators with an operation in flight.", in_flight);
  service.gauge("ccld_communicators_initializing", "Communicator initializations that last or have failed.",
                s.status.inits.size());
  service.gauge("ccld_oldest_operation_age_seconds",
                "For how long the oldest operation has been in flight; 0: there is none.", seconds(oldest_ns));
  service.gauge("ccld_ranks", "Ranks known, over all communicators.", ranks);
  service.gauge("ccld_p2p_in_flight", "Send and Recv calls in flight.", p2p_in_flight);
  service.gauge("ccld_replays_complete",
                "Replays of operations in graphs that all ranks have reported, of the communicators known.", replays);
  service.gauge("ccld_net_queues_stuck", "Queues of network devices with requests in flight that complete none.",
                stuck);
  service.counter("ccld_ranks_refused_total", "Messages of ranks for which there was no room (memberships_max).",
                  s.status.ranks_refused);
  service.counter("ccld_names_refused_total",
                  "Messages of ranks that gave more names of hosts and devices than a rank has.",
                  s.status.names_refused);
  service.gauge("ccld_descriptors_max", "Descriptors that the service may have; each process of a job is a connection.",
                s.connections.descriptors_max);
  service.counter("ccld_connections_cut_quiet_total", "Telemetry connections without a batch that were cut for want of descriptors or memory.",
                  s.connections.cut_quiet);
  service.counter("ccld_connections_cut_speaking_total", "Others that were cut for want of descriptors or memory.", s.connections.cut_speaking);
  service.gauge("ccld_memory_bytes", "Resident memory of the service.", s.memory.used_bytes);
  service.gauge("ccld_memory_max_bytes", "Its limit (--memory-max); 0: none.", s.memory.max_bytes);
  service.gauge("ccld_admits_new", "0 while nobody new is taken in for want of memory.", s.memory.admits_new ? 1 : 0);
  const LetGo& gone = s.status.let_go;
  service.counter("ccld_communicators_let_go_total", "Communicators forgotten for want of room.", gone.communicators);
  service.counter("ccld_processes_let_go_total", "Processes forgotten for want of memory.", gone.processes);
  service.counter("ccld_call_histories_let_go_total", "Histories of calls forgotten for want of memory.", gone.call_histories);
  service.counter("ccld_communicators_refused_total", "Messages of new communicators for which there was no room.",
                  gone.communicators_refused);
  service.counter("ccld_processes_refused_total", "Batches of new processes for which there was no room.",
                  gone.processes_refused);
  service.counter("ccld_initializations_refused_total", "Messages of new initializations for which there was no room.",
                  gone.initializations_refused);
  service.counter("ccld_communicators_contradicted_total",
                  "Communicators begun anew, for their ranks disagreed about how many there are.",
                  s.status.contradictions);
}

void add_recording(const RecorderCounters& r, MetricFamilies& out) {
  Service service(out);
  service.gauge("ccld_recording_open", "1 while the recording of everything is being written.", r.file_open ? 1 : 0);
  service.counter("ccld_recording_entries_total", "Messages and ticks recorded.", r.entries);
  service.counter("ccld_recording_missing_total", "Messages and ticks for which the recorder had no room.", r.missing);
  service.counter("ccld_recording_file_bytes_total", "Bytes written to the recording of everything.", r.file_bytes);
  service.counter("ccld_recording_write_errors_total", "Recordings that could not be written.", r.write_errors);
  service.gauge("ccld_recording_history_bytes", "Telemetry kept for recordings of incidents, compressed.",
                r.history_bytes);
  service.counter("ccld_recording_incidents_total", "Recordings of incidents written.", r.incident_files);
  service.counter("ccld_recording_cpu_seconds_total", "Processor time of the recorder's thread.", r.cpu_s);
}

void add_history(const HistoryCounters& h, MetricFamilies& out) {
  Service service(out);
  service.gauge("ccld_history_enabled", "1 while incidents are stored in the history.", h.enabled ? 1 : 0);
  service.gauge("ccld_history_queue_length", "Revisions of incidents that wait to be reported.", h.queue_length);
  service.counter("ccld_history_revisions_stored_total", "Revisions of incidents stored.", h.revisions_stored);
  service.gauge("ccld_history_revisions_waiting", "Revisions reported and not stored yet: the disk refuses them.",
                h.revisions_waiting);
  service.counter("ccld_history_revisions_dropped_total",
                  "Revisions for which there was no room in the queue or in memory.", h.revisions_dropped);
  service.counter("ccld_history_write_errors_total", "Attempts to store revisions that failed.", h.write_errors);
  service.counter("ccld_history_incidents_removed_total", "Incidents removed from the history, too old or too many.",
                  h.incidents_removed);
  service.gauge("ccld_history_database_bytes", "Size of the history's database in use.", h.database_bytes);
}

void add_webhook(const WebhookCounters& w, MetricFamilies& out) {
  out.begin("ccld_webhook_deliveries_total", MetricKind::counter,
            "Deliveries that are over, by result: replaced and dropped had no room, given_up were tried for a day, silenced closed while a silence held them.");
  const std::pair<const char*, uint64_t> results[] = {
      {"delivered", w.delivered}, {"refused", w.refused}, {"given_up", w.given_up}, {"replaced", w.replaced}, {"dropped", w.dropped}, {"silenced", w.silenced}};
  for (const auto& [result, count] : results) out.add(static_cast<double>(count), {{"result", result}});
  Service service(out);
  service.counter("ccld_webhook_attempts_failed_total", "Posts to the webhook that were not answered with success.", w.failed_attempts);
  service.gauge("ccld_webhook_queue_length", "Deliveries that wait for the webhook's receiver.", w.queue_length);
}

void add_cluster(const ClusterStatus& c, MetricFamilies& out) {
  Service service(out);
  service.gauge("ccld_cluster_connected", "1 while this node reaches a NATS server.", c.connected ? 1 : 0);
  service.gauge("ccld_cluster_leads", "1 while this node leads: of all nodes of a cluster one does.", c.leads ? 1 : 0);
  service.gauge("ccld_cluster_nodes", "Nodes of the cluster that were heard of within ten seconds, this one too.", c.nodes.size());
  service.gauge("ccld_cluster_log_behind", "Entries of the cluster's log that this node has not applied yet.",
                c.log_last - std::min(c.log_last, c.log_applied));
  out.begin("ccld_cluster_telemetry_messages_total", MetricKind::counter,
            "Telemetry between nodes, by way: sent to the others, not_sent for want of a server or too long, received from them, dropped for want of room.");
  const std::pair<const char*, uint64_t> ways[] = {
      {"sent", c.sent}, {"not_sent", c.not_sent}, {"received", c.received}, {"dropped", c.received_dropped}};
  for (const auto& [way, count] : ways) out.add(static_cast<double>(count), {{"way", way}});
}

void add_service(const Snapshot& s, MetricFamilies& out) {
  Service service(out);
  service.counter("ccld_ticks_total", "Analysis ticks.", s.ticks);
  service.counter("ccld_ticks_late_total", "Analysis ticks that came more than one period late.", s.late_ticks);
  service.gauge("ccld_tick_seconds", "Duration of the newest analysis tick.", seconds(s.tick_duration_ns));
  service.counter("ccld_verdict_lines_total", "Verdict lines written.", s.verdict_lines);
  service.counter("ccld_verdict_write_errors_total",
                  "Verdict lines that could not be written, or only into a file that was renamed.",
                  s.verdict_write_errors);
  add_history(s.history, out);
  if (s.recording.has_value()) add_recording(*s.recording, out);
  if (s.webhook.has_value()) add_webhook(*s.webhook, out);
  if (s.cluster.has_value()) add_cluster(*s.cluster, out);
  service.gauge("ccld_uptime_seconds", "Time since the service started.", seconds(s.now_ns - s.started_ns));
  service.gauge("ccld_series_repeated", "Series left out of this answer, for their labels were those of another one.",
                out.repeated());
}

}  // namespace

std::vector<prometheus::MetricFamily> metric_families(const Snapshot& s) {
  MetricFamilies out;
  add_incident_metrics(s, out);
  add_communicators(s, out);
  add_ingest(s, out);
  add_process_metrics(s, out);
  add_service(s, out);
  return std::move(out).take();
}

std::string prometheus_text(const Snapshot& s) { return prometheus::TextSerializer().Serialize(metric_families(s)); }

}  // namespace ccld::decision::report
