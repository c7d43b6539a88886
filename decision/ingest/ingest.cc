#include "decision/ingest/ingest.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "decision/ingest/limits.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::ingest {

uint64_t IngestCounters::rejected_total() const { return std::accumulate(rejected.begin(), rejected.end(), uint64_t{0}); }

Ingest::Ingest() : errors_(distinct_errors_max), sequences_(processes_tracked_max) {}

void Ingest::reject(const absl::Status& status, Nanoseconds now_ns) {
  const RejectReason reason = reject_reason(status);
  ++counters_.rejected[static_cast<size_t>(reason)];
  const std::string text(status.message());
  if (errors_.record(absl::StrCat(name(reason), ": ", reject_key(status)), text, now_ns)) {
    spdlog::warn("telemetry refused ({}): {}; more of this kind are only counted", name(reason), text);
  }
}

std::optional<Batch> Ingest::accept(absl::Span<const uint8_t> message, Nanoseconds now_ns, Nanoseconds realtime_ns,
                                    const Speaker* speaker, Owners* owners) {
  return accept(decode_message(message), message.size(), now_ns, realtime_ns, speaker, owners);
}

std::optional<Batch> Ingest::accept(Decoded decoded, size_t message_bytes, Nanoseconds now_ns, Nanoseconds realtime_ns,
                                    const Speaker* speaker, Owners* owners) {
  absl::StatusOr<Batch>& batch = decoded.batch;
  // Before anything else of it counts: gaps in the numbers of a process that somebody else claims to be are no losses.
  if (batch.ok() && speaker != nullptr) {
    if (absl::Status status = check_speaker(*speaker, *batch, owners); !status.ok()) batch = std::move(status);
  }
  newest_is_foreign_ = !batch.ok() && is_about_speaker(reject_reason(batch.status()));
  if (!batch.ok()) {
    reject(batch.status(), now_ns);
    return std::nullopt;
  }
  const SequenceTracker::Result arrival = sequences_.record(batch->process, batch->batch_seq, batch->sent_monotonic_ns);
  counters_.lost_batches += arrival.lost;
  if (arrival.arrival == SequenceTracker::Arrival::late) ++counters_.late_batches;
  if (arrival.arrival == SequenceTracker::Arrival::repeated) {
    ++counters_.repeated_batches;
    const std::string text = absl::StrCat("process ", batch->process.pid, " of host ", batch->process.host, " sent batch ",
                                          batch->batch_seq, " again");
    if (errors_.record("repeated batch", text, now_ns)) spdlog::warn("telemetry dropped: {}", text);
    return std::nullopt;
  }
  if (speaker != nullptr && owners != nullptr) leave_out_siblings(*speaker, *batch, *owners);
  ++counters_.batches;
  counters_.bytes += message_bytes;
  counters_.payloads += batch->payloads.size();
  counters_.unknown_payloads += decoded.notes.unknown_payloads;
  counters_.lag_ns = realtime_ns - batch->sent_realtime_ns;
  return *std::move(batch);
}

}  // namespace ccld::decision::ingest
