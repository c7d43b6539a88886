#include "decision/ingest/batch_decoder.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/ingest/limits.h"
#include "decision/ingest/payload_decoders.h"
#include "schemas/wire/telemetry_generated.h"
#include "schemas/wire/uuid_text.h"

namespace ccld::decision::ingest {
namespace {

template <class Wire, class Model>
bool append(Decoder& d, const Wire* in, std::vector<Payload>& out) {
  Model model;
  if (!decode(d, *in, model)) return false;
  out.emplace_back(std::move(model));
  return true;
}

bool decode(Decoder& d, const wire::Message& in, Batch& out, DecodeNotes& notes) {
  // The verifier lets a message name a type and leave the payload out.
  if (in.payload() == nullptr && in.payload_type() != wire::Payload::NONE)
    return d.fail("Message.payload", "is missing");
  switch (in.payload_type()) {
    case wire::Payload::CommUp: return append<wire::CommUp, CommUp>(d, in.payload_as_CommUp(), out.payloads);
    case wire::Payload::CommDown: return append<wire::CommDown, CommDown>(d, in.payload_as_CommDown(), out.payloads);
    case wire::Payload::Rounds: return append<wire::Rounds, Rounds>(d, in.payload_as_Rounds(), out.payloads);
    case wire::Payload::InFlight: return append<wire::InFlight, InFlight>(d, in.payload_as_InFlight(), out.payloads);
    case wire::Payload::AgentHealth:
      return append<wire::AgentHealth, AgentHealth>(d, in.payload_as_AgentHealth(), out.payloads);
    case wire::Payload::CommInit: return append<wire::CommInit, CommInit>(d, in.payload_as_CommInit(), out.payloads);
    case wire::Payload::P2pRounds:
      return append<wire::P2pRounds, P2pRounds>(d, in.payload_as_P2pRounds(), out.payloads);
    case wire::Payload::Metrics: return append<wire::Metrics, Metrics>(d, in.payload_as_Metrics(), out.payloads);
    case wire::Payload::NetQueues:
      return append<wire::NetQueues, NetQueues>(d, in.payload_as_NetQueues(), out.payloads);
    case wire::Payload::ControlState:
      return append<wire::ControlState, ControlState>(d, in.payload_as_ControlState(), out.payloads);
    case wire::Payload::PackedRounds:
      return append<wire::PackedRounds, Rounds>(d, in.payload_as_PackedRounds(), out.payloads);
    case wire::Payload::PackedP2pRounds:
      return append<wire::PackedP2pRounds, P2pRounds>(d, in.payload_as_PackedP2pRounds(), out.payloads);
    case wire::Payload::RoundGroups: return decode(d, *in.payload_as_RoundGroups(), out.payloads);
    case wire::Payload::P2pGroups: return decode(d, *in.payload_as_P2pGroups(), out.payloads);
    case wire::Payload::NONE: break;
  }
  ++notes.unknown_payloads;
  return true;
}

bool decode_header(Decoder& d, const wire::Batch& in, Batch& out) {
  if (!d.text("Batch.job", in.job(), out.job) || !d.text("Batch.host", in.host(), out.process.host) ||
      !d.text("Batch.boot_id", in.boot_id(), out.process.boot_id) ||
      !d.within<uint32_t>("Batch.pid", in.pid(), 1, INT32_MAX) ||
      !d.within<uint64_t>("Batch.batch_seq", in.batch_seq(), 1, sequence_max) ||
      !d.signed_time("Batch.sent_realtime_ns", in.sent_realtime_ns()) ||
      !d.time("Batch.sent_monotonic_ns", in.sent_monotonic_ns())) {
    return false;
  }
  if (const wire::Uuid* boot = in.boot_uuid()) out.process.boot_id = wire::uuid_text({boot->high(), boot->low()});
  d.sent_at(in.sent_monotonic_ns());
  out.process.pid = in.pid();
  out.process.pid_start_ticks = in.pid_start_ticks();
  out.process.pid_namespace = in.pid_namespace();
  out.batch_seq = in.batch_seq();
  out.sent_realtime_ns = in.sent_realtime_ns();
  out.sent_monotonic_ns = in.sent_monotonic_ns();
  out.nccl_version = in.nccl_version();
  out.acknowledge = in.acknowledge();
  return true;
}

bool decode_payloads(Decoder& d, const wire::Batch& in, Batch& out, DecodeNotes& notes) {
  if (!d.vector("Batch.messages", in.messages(), messages_per_batch_max)) return false;
  out.payloads.reserve(length(in.messages()));
  for (size_t i = 0; i < length(in.messages()); ++i) {
    if (!decode(d, *in.messages()->Get(i), out, notes)) return false;
  }
  return true;
}

// `notes`: nullptr for the header alone.
absl::StatusOr<Batch> decode(absl::Span<const uint8_t> message, DecodeNotes* notes) {
  // Smallest possible: root offset and identifier.
  if (message.size() < 2 * sizeof(flatbuffers::uoffset_t)) {
    return rejection(RejectReason::size, "size",
                     absl::StrCat("message of ", message.size(), " bytes is too short for a batch"));
  }
  if (message.size() > message_bytes_max) {
    return rejection(RejectReason::size, "size",
                     absl::StrCat("message of ", message.size(), " bytes is longer than ", message_bytes_max));
  }
  if (!wire::BatchBufferHasIdentifier(message.data())) {
    return rejection(RejectReason::identifier, "identifier",
                     absl::StrCat("message has no identifier ", wire::BatchIdentifier(), ": not a telemetry batch"));
  }
  // ZeroMQ may hand out a message at any address of its receive buffer; FlatBuffers reads words in place.
  std::vector<uint64_t> aligned;
  if (reinterpret_cast<uintptr_t>(message.data()) % alignof(uint64_t) != 0) {
    aligned.resize((message.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    std::memcpy(aligned.data(), message.data(), message.size());
    message = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(aligned.data()), message.size());
  }
  flatbuffers::Verifier verifier(message.data(), message.size(), verifier_depth_max, verifier_tables_max);
  if (!wire::VerifyBatchBuffer(verifier)) {
    return rejection(RejectReason::structure, "structure", "batch is truncated or damaged");
  }
  const wire::Batch& wire_batch = *wire::GetBatch(message.data());
  if (wire_batch.schema_version() < schema_version_oldest || wire_batch.schema_version() > schema_version_newest) {
    return rejection(RejectReason::version, absl::StrCat("version ", wire_batch.schema_version()),
                     absl::StrCat("Batch.schema_version is ", wire_batch.schema_version(), ", this service reads ",
                                  schema_version_oldest, " to ", schema_version_newest));
  }
  Decoder decoder(message.size());
  Batch batch;
  if (!decode_header(decoder, wire_batch, batch)) return decoder.status();
  if (notes != nullptr && !decode_payloads(decoder, wire_batch, batch, *notes)) return decoder.status();
  if (notes != nullptr) notes->memory_bytes = decoder.memory_bytes() + batch.payloads.capacity() * sizeof(Payload);
  return batch;
}

}  // namespace

absl::StatusOr<Batch> decode_batch(absl::Span<const uint8_t> message, DecodeNotes* notes) {
  DecodeNotes ignored;
  return decode(message, notes != nullptr ? notes : &ignored);
}

absl::StatusOr<Batch> decode_batch_header(absl::Span<const uint8_t> message) { return decode(message, nullptr); }

}  // namespace ccld::decision::ingest
