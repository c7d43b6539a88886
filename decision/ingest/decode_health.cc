#include <algorithm>
#include <cctype>

#include "decision/ingest/payload_decoders.h"
#include "schemas/wire/packed_metrics.h"
#include "schemas/wire/packed_structs.h"

namespace ccld::decision::ingest {
namespace {

constexpr uint32_t net_kind_max = static_cast<uint32_t>(abi::NetKind::socket);
constexpr uint32_t log_max = static_cast<uint32_t>(abi::LogVerbosity::trace);

bool decode_last(Decoder& d, const flatbuffers::Vector<flatbuffers::Offset<wire::LastOperations>>* in,
                 std::vector<LastOperations>& out) {
  if (!d.vector("Sibling.last_operations", in, last_operations_max)) return false;
  out.resize(length(in));
  for (size_t i = 0; i < out.size(); ++i) {
    const wire::LastOperations& from = *in->Get(i);
    if (from.rank() < 0) return d.fail("LastOperations.rank", "is negative");
    if (std::max(from.launched_op_seq(), from.begun_op_seq()) > from.entered_op_seq())
      return d.fail("LastOperations.entered_op_seq", "is less than what was launched or begun");
    out[i] = {CommUid{from.comm_uid()}, Rank{from.rank()}, OpSeq{from.entered_op_seq()}, OpSeq{from.launched_op_seq()},
              OpSeq{from.begun_op_seq()}};
  }
  return true;
}

char letter_of(uint8_t state) { return std::isalpha(state) ? static_cast<char>(state) : '?'; }

// Structs as packed_structs.h packs them.
template <class Struct>
bool unpack(Decoder& d, const char* field, uint32_t rows, const flatbuffers::Vector<uint8_t>* bytes, size_t rows_max,
            std::vector<Struct>& out) {
  if (rows == 0 && bytes == nullptr) return true;
  if (rows > rows_max) return d.fail(field, absl::StrCat("has ", rows, " rows, more than ", rows_max));
  if (!d.rows(field, rows, rounds_per_message_max) || !d.vector(field, bytes, message_bytes_max)) return false;
  out.resize(rows);
  return (bytes != nullptr && wire::unpack(bytes->data(), bytes->size(), out)) ||
         d.fail(field, absl::StrCat("are not ", rows, " rows"));
}

bool unpack(Decoder& d, const wire::AgentHealth& in, std::vector<Sibling>& out) {
  std::vector<wire::SiblingState> states;
  if (!unpack(d, "AgentHealth.packed_siblings", in.sibling_rows(), in.packed_siblings(), siblings_max, states))
    return false;
  for (const wire::SiblingState& s : states)
    out.push_back({s.pid(), s.pid_start_ticks(), letter_of(s.state()), s.state_age_ms(), {}});
  return true;
}

}  // namespace

bool decode(Decoder& d, const wire::AgentHealth& in, AgentHealth& out) {
  if (!d.vector("AgentHealth.siblings", in.siblings(), siblings_max)) return false;
  out.samples = in.samples();
  out.late_samples = in.late_samples();
  out.lapped_rounds = in.lapped_rounds();
  out.dropped_batches = in.dropped_batches();
  out.dropped_rounds = in.dropped_rounds();
  out.send_errors = in.send_errors();
  out.sent_batches = in.sent_batches();
  out.sent_bytes = in.sent_bytes();
  out.cpu_ns = in.cpu_ns();
  out.siblings.resize(length(in.siblings()));
  for (size_t i = 0; i < out.siblings.size(); ++i) {
    const wire::Sibling& from = *in.siblings()->Get(i);
    Sibling& to = out.siblings[i];
    to.pid = from.pid();
    to.pid_start_ticks = from.pid_start_ticks();
    to.state_age_ms = from.state_age_ms();
    to.state = letter_of(from.state());
    if (!decode_last(d, from.last_operations(), to.last_operations)) return false;
  }
  return unpack(d, in, out.siblings);
}

namespace {

bool unpack(Decoder& d, const wire::Metrics& in, Metrics& out) {
  if (in.rows() == 0 && in.packed() == nullptr) return true;
  if (in.rows() > metrics_per_message_max)
    return d.fail("Metrics.rows", absl::StrCat("is ", in.rows(), ", more than ", metrics_per_message_max));
  if (!d.rows("Metrics.rows", in.rows(), rounds_per_message_max) ||
      !d.vector("Metrics.instances", in.instances(), metrics_per_message_max) ||
      !d.vector("Metrics.packed", in.packed(), message_bytes_max))
    return false;
  std::vector<std::string> instances(length(in.instances()));
  for (size_t i = 0; i < instances.size(); ++i)
    if (!d.text("Metrics.instances", in.instances()->Get(static_cast<flatbuffers::uoffset_t>(i)), instances[i]))
      return false;
  if (!d.texts("Metrics.names", in.names(), metrics_per_message_max, instances)) return false;
  std::vector<wire::MetricRow> rows(in.rows());
  if (in.packed() == nullptr || !wire::unpack(in.packed()->data(), in.packed()->size(), rows))
    return d.fail("Metrics.packed", absl::StrCat("are not ", in.rows(), " rows"));
  for (const wire::MetricRow& r : rows) {
    if (r.id == 0) return d.fail("Metric.id", "is 0");
    if (r.instance >= instances.size())
      return d.fail("Metrics.instances", absl::StrCat("has no ", r.instance, ", there are ", instances.size()));
    Metric& to = out.metrics.emplace_back();
    to.id = static_cast<abi::MetricId>(r.id);
    to.instance = instances[r.instance];
    d.row_text(to.instance);
    to.value = r.value;
  }
  return true;
}

}  // namespace

bool decode(Decoder& d, const wire::Metrics& in, Metrics& out) {
  if (!d.vector("Metrics.metrics", in.metrics(), metrics_per_message_max)) return false;
  out.metrics.resize(length(in.metrics()));
  for (size_t i = 0; i < out.metrics.size(); ++i) {
    const wire::Metric& from = *in.metrics()->Get(i);
    Metric& to = out.metrics[i];
    if (from.id() == 0) return d.fail("Metric.id", "is 0");
    if (!d.text("Metric.instance", from.instance(), to.instance)) return false;
    to.id = static_cast<abi::MetricId>(from.id());
    to.value = from.value();
  }
  return unpack(d, in, out);
}

namespace {

bool decode(Decoder& d, const wire::NetProgress& in, const std::vector<std::string>& names, NetQueue& out) {
  out.queue = in.queue();
  out.in_flight = in.in_flight();
  out.send_posted = in.send_posted();
  out.send_completed = in.send_completed();
  out.window_bytes = in.window_bytes();
  out.recv_in_flight = in.recv_in_flight();
  out.errors = in.errors();
  out.device = in.device();
  out.number = in.number();
  out.window_ms = in.window_ms();
  out.post_age_ms = in.post_age_ms();
  out.complete_age_ms = in.complete_age_ms();
  out.kind = static_cast<abi::NetKind>(in.kind());
  if (out.device >= 0 && static_cast<size_t>(out.device) < names.size())
    out.device_name = names[static_cast<size_t>(out.device)];
  d.row_text(out.device_name);
  return d.net_device("NetProgress.device", in.device()) &&
         d.within<uint32_t>("NetProgress.kind", in.kind(), 0, net_kind_max);
}

}  // namespace

bool decode(Decoder& d, const wire::NetQueues& in, NetQueues& out) {
  if (!d.vector("NetQueues.queues", in.queues(), net_queues_max) ||
      !d.vector("NetQueues.device_names", in.device_names(), net_devices_max)) {
    return false;
  }
  std::vector<std::string> names(length(in.device_names()));
  for (size_t i = 0; i < names.size(); ++i) {
    if (!d.text("NetQueues.device_names", in.device_names()->Get(i), names[i])) return false;
  }
  if (!d.texts("NetQueues.names", in.names(), net_devices_max, names)) return false;
  std::vector<wire::NetProgress> packed;
  if (!unpack(d, "NetQueues.packed", in.rows(), in.packed(), net_queues_max, packed)) return false;
  out.queues.resize(length(in.queues()) + packed.size());
  size_t filled = 0;
  for (size_t i = 0; i < length(in.queues()); ++i)
    if (!decode(d, *in.queues()->Get(static_cast<flatbuffers::uoffset_t>(i)), names, out.queues[filled++]))
      return false;
  for (const wire::NetProgress& queue : packed)
    if (!decode(d, queue, names, out.queues[filled++])) return false;
  return true;
}

bool decode(Decoder& d, const wire::ControlState& in, ControlState& out) {
  out.sequence = in.sequence();
  out.refused_fields = in.refused_fields();
  out.running = in.running();
  out.sample_us = in.sample_us();
  out.log = in.log();
  out.budget_ppm = in.budget_ppm();
  out.period_us = in.period_us();
  return d.within<uint32_t>("ControlState.sample_us", in.sample_us(), 0, rate_us_max) &&
         d.within<uint32_t>("ControlState.log", in.log(), 0, log_max) &&
         d.within<uint32_t>("ControlState.budget_ppm", in.budget_ppm(), 0, parts_per_million) &&
         d.text("ControlState.endpoint", in.endpoint(), out.endpoint);
}

}  // namespace ccld::decision::ingest
