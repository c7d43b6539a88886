#include "decision/server/analysis_loop.h"

#include <utility>

#include "decision/model/rank_parts.h"
#include "decision/report/departed_metrics.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
AnalysisLoop::AnalysisLoop(const Settings& settings, std::shared_ptr<Reporter> reporter, std::shared_ptr<SnapshotStore> store,
                           std::unique_ptr<recording::Recorder> recorder, Numbering numbering, Nanoseconds now_ns,
                           Nanoseconds realtime_ns, size_t threads)
    : settings_(settings),
      analysis_(settings, std::nullopt, std::move(numbering), threads),
      reporter_(std::move(reporter)),
      store_(std::move(store)),
      recorder_(std::move(recorder)),
      desk_(static_cast<uint64_t>(realtime_ns / ns_per_ms)),
      started_ns_(now_ns) {}

void AnalysisLoop::on_messages(absl::Span<const Message> messages, Nanoseconds now_ns, Nanoseconds realtime_ns,
                               const ControlDesk::Send& send, absl::FunctionRef<void(size_t, const Batch&)> spoke) {
  std::vector<Analysis::Message> contents;
  for (const Message& m : messages) contents.push_back({m.bytes, m.speaker});
  analysis_.on_messages(contents, now_ns, realtime_ns, [&](size_t i, const Batch* batch) {
    const Message& m = messages[i];
    if (recorder_ != nullptr && !ingest().newest_is_foreign()) recorder_->message(m.bytes, now_ns, realtime_ns);
    if (batch == nullptr) return;
    desk_.heard(*batch, *m.connection, now_ns, realtime_ns, send, m.at_other_node);
    if (recorder_ != nullptr) recorder_->decoded(*batch, m.bytes, now_ns, realtime_ns);
    spoke(i, *batch);
  });
}

TuneAnswer AnalysisLoop::tune(const TuneRequest& request, const ControlDesk::Send& send) {
  const TuneAnswer answer = desk_.carry_out(request, send);
  if (request.validation)
    spdlog::info("hardware test in job '{}', communicator {:016x}: {} of {} probes asked", request.job,
                 request.validation->comm.value, answer.asked, answer.matched);
  else
    spdlog::info("tune request {} for job '{}': {} of {} probes asked", answer.sequence, request.job, answer.asked,
                 answer.matched);
  return answer;
}

void AnalysisLoop::on_multipart_message(Nanoseconds now_ns, Nanoseconds realtime_ns) {
  if (recorder_ != nullptr) recorder_->multipart(now_ns, realtime_ns);
  analysis_.on_multipart_message(now_ns);
}

void AnalysisLoop::take_up(std::vector<LeftOpen> left, Nanoseconds within_ns) {
  left_open_until_ns_ = started_ns_ + within_ns;
  analysis_.analyzer().take_up(std::move(left));
}

void AnalysisLoop::lead(Numbering numbering, std::vector<LeftOpen> left, Nanoseconds now_ns, Nanoseconds within_ns) {
  tells_ = true;
  left_open_until_ns_ = now_ns + within_ns;
  analysis_.analyzer().lead(std::move(numbering), std::move(left));
}

void AnalysisLoop::follow() {
  tells_ = false;
  left_open_until_ns_.reset();
  analysis_.analyzer().follow();
}

bool AnalysisLoop::finish(absl::Duration timeout) {
  const bool recorded = finish_recording();  // first: it reports where the recordings are
  return reporter_->finish(timeout) && recorded;
}

bool AnalysisLoop::finish_recording() {
  // Each incident of the last seconds is a file of up to 128 MB, which a slow disk takes in some seconds.
  constexpr absl::Duration timeout = absl::Seconds(5);
  if (recorder_ == nullptr) return true;
  if (!recorder_->finish(timeout)) return false;
  const report::RecorderCounters c = recorder_->counters();
  spdlog::info("recorded {} entries, {} bytes written, {} missing, {} incidents", c.entries, c.file_bytes, c.missing, c.incident_files);
  return true;
}

void AnalysisLoop::analyse(Nanoseconds now_ns, Nanoseconds realtime_ns) {
  ++ticks_;
  constexpr uint64_t ticks_between_forgetting = 100;
  if (ticks_ % ticks_between_forgetting == 0)
    desk_.forget(now_ns - seconds_to_ns(memory_.is_short() || desk_.full() ? settings_.silent_s : settings_.forget_s));
  look_at_memory(now_ns);
  if (recorder_ != nullptr) recorder_->tick(now_ns, realtime_ns);
  std::vector<Incident> incidents = analysis_.tick(now_ns, realtime_ns);
  if (!tells_) return;
  if (recorder_ != nullptr) {
    for (const Incident& incident : incidents) recorder_->incident(incident, now_ns, realtime_ns);
  }
  reporter_->report(std::move(incidents), now_ns, realtime_ns);
  if (left_open_until_ns_.has_value() && now_ns >= *left_open_until_ns_) {
    left_open_until_ns_.reset();
    analysis_.analyzer().take_up({});
    reporter_->end_left_open(realtime_ns);
  }
}

void AnalysisLoop::publish(Nanoseconds now_ns, Nanoseconds realtime_ns) {
  auto snapshot = std::make_shared<report::Snapshot>();
  snapshot->now_ns = now_ns;
  snapshot->started_ns = started_ns_;
  snapshot->clock.realtime_minus_clock_ns = realtime_ns - now_ns;
  snapshot->rules = settings_.rules;
  snapshot->silent_ns = seconds_to_ns(settings_.silent_s);
  snapshot->status = analysis_.analyzer().status(now_ns);
  snapshot->departed_metrics = report::departed_metrics(*store_->newest(), snapshot->status);
  if (snapshot->status.ranks_refused > 0 && !std::exchange(said_ranks_refused_, true))
    spdlog::warn("there is no room for further ranks (memberships_max={}); more of them are only counted", settings_.memberships_max);
  if (snapshot->status.names_refused > 0 && !std::exchange(said_names_refused_, true))
    spdlog::warn("a rank gave more than {} names of hosts and devices; further ones are not kept, and only counted",
                 names_per_rank_max);
  const LetGo& gone = snapshot->status.let_go;
  const uint64_t refused = gone.communicators_refused + gone.processes_refused + gone.initializations_refused;
  // What is refused for want of memory, memory_ says.
  if (!memory_.status().admits_new || std::exchange(memory_refusals_, memory_.refusals()) != memory_.refusals()) refused_for_memory_ = refused;
  if (refused > refused_for_memory_ && !std::exchange(said_full_, true))
    spdlog::warn("there is no room for further communicators, processes or initializations (communicators_max={}, processes_max={}); "
                 "more of them are only counted", settings_.communicators_max, settings_.processes_max);
  snapshot->memory = memory_.status();
  snapshot->incidents = analysis_.analyzer().incidents();
  snapshot->ingest = ingest().counters();
  snapshot->ingest_errors = ingest().errors().all();
  snapshot->ticks = ticks_;
  snapshot->late_ticks = late_ticks_;
  snapshot->tick_duration_ns = tick_duration_ns_;
  snapshot->verdict_lines = reporter_->verdict_lines();
  snapshot->verdict_write_errors = reporter_->verdict_write_errors();
  snapshot->history = reporter_->counters();
  if (access_) snapshot->access = access_();
  if (connections_) snapshot->connections = connections_();
  if (http_) snapshot->http = http_();
  if (webhook_counters_) snapshot->webhook = webhook_counters_();
  if (cluster_) snapshot->cluster = cluster_();
  snapshot->silences = reporter_->book().silences(realtime_ns / ns_per_ms);
  snapshot->acknowledgements = reporter_->book().acknowledgements();
  if (recorder_ != nullptr) snapshot->recording = recorder_->counters();
  store_->publish(std::move(snapshot));
}

}  // namespace ccld::decision::server
