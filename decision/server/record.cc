#include "decision/server/record.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "decision/ingest/batch_decoder.h"
#include "decision/ingest/connection_room.h"
#include "decision/ingest/distinct_errors.h"
#include "decision/ingest/limits.h"
#include "decision/ingest/speaker.h"
#include "decision/ingest/telemetry_socket.h"
#include "decision/recording/recorder.h"
#include "decision/recording/recording_file.h"
#include "decision/server/clock.h"
#include "decision/server/descriptor_limit.h"
#include "decision/server/surroundings.h"
#include "decision/server/telemetry_access.h"
#include "decision/server/tune.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

using ingest::ConnectionRoom;
using ingest::TelemetrySocket;
using recording::Recorder;

// How long entries may wait for their block after the last message.
constexpr std::chrono::milliseconds flush_period(500);
// Processes that said nothing for so long are not counted on.
constexpr Nanoseconds forget_ns = 3600 * ns_per_s;

// Whether it may be recorded: not what its sender's key may not say, as far as that is to be seen without an analysis.
// Each cause is said once.
bool is_welcome(const TelemetrySocket::Message& message, ingest::DistinctErrors& errors, Nanoseconds now_ns) {
  if (!message.speaker.has_value()) return true;
  const auto batch = ingest::decode_batch(message.bytes());
  if (!batch.ok()) return true;
  const absl::Status status = check_speaker(*message.speaker, *batch, nullptr);
  if (!status.ok() && errors.record(ingest::reject_key(status), status.message(), now_ns))
    spdlog::warn("telemetry refused ({}): {}; more of this kind are not recorded either", ingest::name(ingest::reject_reason(status)), std::string(status.message()));
  return status.ok();
}

// Probes want to know what has come.
void acknowledge(TelemetrySocket& socket, const TelemetrySocket::Message& message, ControlDesk& desk, Nanoseconds now_ns,
                 Nanoseconds realtime_ns) {
  const auto batch = ingest::decode_batch_header(message.bytes());
  if (!batch.ok()) return;
  desk.heard(*batch, message.connection, now_ns, realtime_ns,
             [&socket](const std::string& connection, absl::Span<const uint8_t> answer) { return socket.send(connection, answer); });
}

void drain(TelemetrySocket& socket, ConnectionRoom& room, Recorder& recorder, ControlDesk& desk,
           ingest::DistinctErrors& errors) {
  TelemetrySocket::Message message;
  constexpr int messages_max = 10000;  // a stop signal is looked for in between
  for (int i = 0; i < messages_max; ++i) {
    switch (socket.receive(message)) {
      case TelemetrySocket::Received::nothing: return;
      case TelemetrySocket::Received::message: {
        const Nanoseconds now_ns = monotonic_now_ns(), realtime_ns = realtime_now_ns();
        if (!is_welcome(message, errors, now_ns)) break;
        room.spoke(message.descriptor(), message.bytes().size(), now_ns);
        recorder.message(message.bytes(), now_ns, realtime_ns);
        acknowledge(socket, message, desk, now_ns, realtime_ns);
        break;
      }
      case TelemetrySocket::Received::multipart: recorder.multipart(monotonic_now_ns(), realtime_now_ns()); break;
    }
  }
}

void record_until_stopped(TelemetrySocket& socket, ConnectionRoom& room, int signal_fd, Recorder& recorder) {
  zmq::pollitem_t items[] = {socket.poll_item(), {nullptr, signal_fd, ZMQ_POLLIN, 0}};
  ControlDesk desk(0);
  ingest::DistinctErrors errors(ingest::distinct_errors_max);
  Nanoseconds next_forget_ns = 0;
  while (recorder.counters().file_open) {
    try {
      zmq::poll(items, std::size(items), flush_period);
    } catch (const zmq::error_t& e) {
      if (e.num() != EINTR) throw;
      continue;
    }
    if ((items[1].revents & ZMQ_POLLIN) != 0 && read_stop_signal(signal_fd) != 0) return;
    socket.renew_key();
    room.look(monotonic_now_ns(), ConnectionRoom::Memory::enough);
    drain(socket, room, recorder, desk, errors);
    const Nanoseconds now_ns = monotonic_now_ns();
    recorder.flush_if_due(now_ns);
    if (now_ns < next_forget_ns) continue;
    desk.forget(now_ns - forget_ns);
    next_forget_ns = now_ns + forget_ns;
  }
}

}  // namespace

absl::Status record(const RecordOptions& options) {
  if (absl::Status s = start_log("warning"); !s.ok()) return s;
  if (absl::Status s = check_endpoint(options.listen); !s.ok()) return naming("--listen", s);
  auto telemetry_access =
      open_telemetry_access({options.listen, options.telemetry_secret_file, options.telemetry_allow_file, options.insecure});
  if (!telemetry_access.ok()) return telemetry_access.status();
  const auto bytes_max = recording::parse_bytes(options.max_bytes);
  if (!bytes_max.ok()) return naming("--max-bytes", bytes_max.status());
  const auto signal_fd = open_stop_signals();
  if (!signal_fd.ok()) return signal_fd.status();
  const absl::Cleanup close_signals = [&] { close(*signal_fd); };
  auto socket = TelemetrySocket::open(options.listen, telemetry_access->door);
  if (!socket.ok()) return naming("--listen", socket.status());

  recording::RecorderOptions r;
  r.path = options.path;
  r.replace = options.overwrite;
  r.file_bytes_max = *bytes_max;
  auto recorder = Recorder::start(r, recording::metadata_of(Settings(), "sink", monotonic_now_ns(), realtime_now_ns()));
  if (absl::IsAlreadyExists(recorder.status())) {
    return absl::UnavailableError(absl::StrCat(recorder.status().message(), "; --overwrite replaces it"));
  }
  if (!recorder.ok()) return recorder.status();
  const admission::Reloader reloader(std::move(telemetry_access->files));
  std::fprintf(stderr, "ccld: recording %s into %s\n", socket->endpoint().c_str(), options.path.c_str());
  std::fflush(stderr);

  ConnectionRoom room(socket->endpoint(), raise_descriptor_limit(ConnectionRoom::descriptors_needed_max), 0);
  record_until_stopped(*socket, room, *signal_fd, **recorder);
  (*recorder)->finish();
  const report::RecorderCounters c = (*recorder)->counters();
  std::fprintf(stderr, "ccld: %llu messages of %llu bytes recorded, %llu bytes written, %llu missing\n",
               static_cast<unsigned long long>(c.entries), static_cast<unsigned long long>(c.bytes),
               static_cast<unsigned long long>(c.file_bytes), static_cast<unsigned long long>(c.missing));
  if (c.write_errors > 0) return absl::UnavailableError(absl::StrCat("the recording in '", options.path, "' is not complete"));
  return absl::OkStatus();
}

}  // namespace ccld::decision::server
