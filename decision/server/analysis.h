// Telemetry to verdict lines: the one way that the service and a replay go, so that both say the same to the byte.
// (Paper, section 4: the decision analyzer.)
// Contract: given the same calls with the same instants it writes the same lines. Errors: none; what is refused is counted
// by ingest(), what cannot be written by the writer. Threads: one; its workers decode and take in what came together,
// and change nothing of what is found.
#pragma once

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "decision/analyzer.h"
#include "decision/ingest/ingest.h"
#include "decision/report/verdict_json.h"
#include "decision/server/verdict_writer.h"
#include "decision/workers.h"

namespace ccld::decision::server {

constexpr Nanoseconds tick_period_ns = 100 * ns_per_ms;
// So many messages are given together at most: a millisecond or two of work, beside which it costs little to wake threads.
// More of them, decoded, do not fit into a processor's own cache.
constexpr size_t together_max = 256;
constexpr size_t together_bytes_max = 1 << 20;  // a message may have megabytes
// Decoded they are more: a probe's some six times as much, a hostile one's thousands of times. Those together fill so
// much memory at most, and one of them for each thread; the others are decoded when these have been taken in.
constexpr size_t decoded_bytes_max = 16 << 20;
inline bool is_room_together(size_t messages, size_t bytes) { return messages < together_max && bytes < together_bytes_max; }

class Analysis {
 public:
  // Without a writer nothing is written.
  Analysis(const Settings&, std::optional<VerdictWriter>, Numbering = {}, size_t threads = 1);

  // A message of the telemetry socket; `speaker` as for Ingest.
  struct Message {
    absl::Span<const uint8_t> bytes;
    const ingest::Speaker* speaker = nullptr;
  };
  // Those that came together. `decoded` is told of each in turn, before anything is made of it: the batch, or nullptr
  // if it is none.
  void on_messages(absl::Span<const Message>, Nanoseconds now_ns, Nanoseconds realtime_ns,
                   absl::FunctionRef<void(size_t, const Batch*)> decoded);
  // The batch, if the message is one.
  std::optional<Batch> on_message(absl::Span<const uint8_t> message, Nanoseconds now_ns, Nanoseconds realtime_ns,
                                  const ingest::Speaker* speaker = nullptr);
  void on_multipart_message(Nanoseconds now_ns);
  // One tick: incidents that are new or changed are written and returned.
  std::vector<Incident> tick(Nanoseconds now_ns, Nanoseconds realtime_ns);

  Analyzer& analyzer() { return analyzer_; }
  const Analyzer& analyzer() const { return analyzer_; }
  const ingest::Ingest& ingest() const { return ingest_; }
  uint64_t verdict_lines() const { return writer_.has_value() ? writer_->lines() : 0; }
  uint64_t verdict_write_errors() const { return writer_.has_value() ? writer_->errors() : 0; }

 private:
  void decode(absl::Span<const Message>, std::vector<std::optional<ingest::Decoded>>& contents, size_t first);

  Workers workers_;
  Analyzer analyzer_;
  ingest::Ingest ingest_;
  std::optional<VerdictWriter> writer_;
  std::vector<std::optional<Batch>> spent_;  // taken in; they go while the next ones are decoded
};

}  // namespace ccld::decision::server
