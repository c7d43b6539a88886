// One ZeroMQ message to one Batch: FlatBuffers verification, then a range check of every field that is later used as an
// index, a size or a time. (Paper, section 4.1: the statistics the probes report to the decision analyzer.)
//
// Contract
//   Pure and stateless. Whatever the bytes are, it returns. Memory is bounded by a small multiple of the message's size
//   (FlatBuffers lets a small message refer to one vector many times: that is refused) and 65,536 rows of packed
//   columns, which may take next to nothing on the wire: some 8 MB, or 25 if all have a long name. Whoever decodes many
//   at once adds up what the notes say.
//   Numbers of operation types that this version does not know are kept as they are, so that signatures of newer probes
//   can still be compared; numbers that select behaviour (direction, wait kind, state) must be known.
//   Text is made printable (model/printable.h): no way out of the service need do it again.
// Errors
//   The status names the field and says what is wrong with it; reject_reason() and reject_key() classify it for
//   counting.
// Threads
//   Any.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "decision/model/events.h"

namespace ccld::decision::ingest {

enum class RejectReason {
  size,          // empty, or larger than message_bytes_max
  multipart,     // more than one ZeroMQ frame
  identifier,    // not a telemetry batch
  version,       // a schema version that is not supported
  structure,     // FlatBuffers verification failed: truncated or damaged
  field,         // a field outside its range
  key,           // the sender's key is not in the list any more
  job,           // its key may not speak for this job
  host,          // its key may not speak for this host
};
constexpr int reject_reason_count = 9;
const char* name(RejectReason);

struct DecodeNotes {
  uint64_t unknown_payloads = 0;  // of a newer sender, skipped
  size_t memory_bytes = 0;        // of the batch, if it is one: at most
};

absl::StatusOr<Batch> decode_batch(absl::Span<const uint8_t> message, DecodeNotes* notes = nullptr);

// What is told of a message.
struct Decoded {
  absl::StatusOr<Batch> batch;
  DecodeNotes notes;
};
inline Decoded decode_message(absl::Span<const uint8_t> message) {
  Decoded d;
  d.batch = decode_batch(message, &d.notes);
  return d;
}

// Without the payloads, which are neither decoded nor range-checked.
absl::StatusOr<Batch> decode_batch_header(absl::Span<const uint8_t> message);

absl::Status rejection(RejectReason, const std::string& key, const std::string& text);
RejectReason reject_reason(const absl::Status&);
// Equal for all rejections with the same cause, whatever the values were: "Rounds.rank".
std::string reject_key(const absl::Status&);

}  // namespace ccld::decision::ingest
