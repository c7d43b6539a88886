#include "decision/server/analysis.h"

#include <utility>

namespace ccld::decision::server {

Analysis::Analysis(const Settings& settings, std::optional<VerdictWriter> writer, Numbering numbering)
    : analyzer_(settings, std::move(numbering)), writer_(std::move(writer)) {}

std::optional<Batch> Analysis::on_message(absl::Span<const uint8_t> message, Nanoseconds now_ns, Nanoseconds realtime_ns,
                                          const ingest::Speaker* speaker) {
  auto batch = ingest_.accept(message, now_ns, realtime_ns, speaker);
  if (batch.has_value()) analyzer_.apply(*batch, now_ns);
  return batch;
}

void Analysis::on_multipart_message(Nanoseconds now_ns) {
  ingest_.reject(ingest::rejection(ingest::RejectReason::multipart, "multipart", "message has several parts, a batch has one"), now_ns);
}

std::vector<Incident> Analysis::tick(Nanoseconds now_ns, Nanoseconds realtime_ns) {
  std::vector<Incident> incidents = analyzer_.advance(now_ns);
  if (writer_.has_value()) {
    const report::WallClock clock{realtime_ns - now_ns};
    for (const Incident& incident : incidents) writer_->write_line(report::to_line(report::verdict_json(incident, now_ns, clock)));
  }
  return incidents;
}

}  // namespace ccld::decision::server
