#include "decision/server/serve.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "decision/ingest/telemetry_socket.h"
#include "decision/recording/recording_file.h"
#include "decision/server/analysis_loop.h"
#include "decision/server/clock.h"
#include "decision/server/http_api.h"
#include "decision/server/layout_file.h"
#include "decision/server/surroundings.h"
#include "decision/settings.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

using ingest::TelemetrySocket;

constexpr absl::Duration shutdown_patience = absl::Milliseconds(500);  // of the promised second
constexpr Nanoseconds paused_ns = ns_per_s;        // waking so much later than asked: we were stopped or starved
constexpr Nanoseconds drain_ns = 500 * ns_per_ms;  // how long waiting telemetry may hold up a tick

absl::StatusOr<Settings> settings_of(const ServeOptions& options) {
  Settings settings;
  if (absl::Status s = set_setting(settings, "rules", options.rules); !s.ok()) return naming("--rules", s);
  if (!options.layout.empty()) {
    const auto layout = read_layout_file(options.layout);
    if (!layout.ok()) return naming("--layout", layout.status());
    for (const std::string& text : *layout)
      if (absl::Status s = parse_setting(settings, text); !s.ok()) return naming("--layout", s);
  }
  for (const std::string& text : options.settings) {
    if (absl::Status s = parse_setting(settings, text); !s.ok()) return s;
  }
  if (absl::Status s = validate(settings); !s.ok()) return s;
  return settings;
}

// Nothing if nothing is to be recorded.
absl::StatusOr<std::unique_ptr<recording::Recorder>> open_recorder(const ServeOptions& options, const Settings& settings) {
  recording::RecorderOptions r;
  r.path = options.record;
  r.replace = options.record_overwrite;
  r.incident_folder = options.record_incidents;
  r.forget_ns = seconds_to_ns(settings.forget_s);
  const auto file_bytes = recording::parse_bytes(options.record_max_bytes);
  if (!file_bytes.ok()) return naming("--record-max-bytes", file_bytes.status());
  r.file_bytes_max = *file_bytes;
  const auto history_bytes = recording::parse_bytes(options.record_history_bytes);
  if (!history_bytes.ok()) return naming("--record-history-bytes", history_bytes.status());
  r.history_bytes_max = r.last_words_bytes_max = *history_bytes;
  if (!absl::SimpleAtoi(options.record_incidents_max, &r.incident_files_max) || r.incident_files_max == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--record-incidents-max: '", options.record_incidents_max, "' is not a number of files, 1 or more"));
  }
  if (r.path.empty() && r.incident_folder.empty()) return nullptr;
  auto recorder = recording::Recorder::start(r, recording::metadata_of(settings, "service", monotonic_now_ns(), realtime_now_ns()));
  if (absl::IsAlreadyExists(recorder.status())) {
    return absl::UnavailableError(absl::StrCat("--record: ", recorder.status().message(), "; --record-overwrite replaces it"));
  }
  if (!recorder.ok()) return naming(r.path.empty() ? "--record-incidents" : "--record", recorder.status());
  return recorder;
}

absl::Status write_ready_file(const std::string& path, const std::string& telemetry, const std::string& http) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  const report::Json ready = {{"pid", getpid()}, {"telemetry", telemetry}, {"http", http}};
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  const std::string text = report::to_line(ready) + "\n";
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return absl::UnavailableError(absl::StrCat("--ready-file: cannot write '", path, "': ", std::strerror(error)));
  }
  return absl::OkStatus();
}

// Hands waiting messages to the analysis until there are none or `until_ns` has come.
void drain(TelemetrySocket& socket, AnalysisLoop& loop, Nanoseconds until_ns) {
  constexpr int messages_between_clocks = 64;
  for (;;) {
    const Nanoseconds now_ns = monotonic_now_ns();
    if (now_ns >= until_ns) return;
    const Nanoseconds realtime_ns = realtime_now_ns();
    for (int i = 0; i < messages_between_clocks; ++i) {
      absl::Span<const uint8_t> bytes;
      switch (socket.receive(bytes)) {
        case TelemetrySocket::Received::nothing: return;
        case TelemetrySocket::Received::message: loop.on_message(bytes, socket.connection(), now_ns, realtime_ns); break;
        case TelemetrySocket::Received::multipart: loop.on_multipart_message(now_ns, realtime_ns); break;
      }
    }
  }
}

// Until a stop signal; returns its number.
int analyse_until_stopped(TelemetrySocket& socket, int signal_fd, AnalysisLoop& loop, TuneQueue& requests) {
  const ControlDesk::Send send = [&socket](const std::string& connection, absl::Span<const uint8_t> message) {
    return socket.send(connection, message);
  };
  zmq::pollitem_t items[] = {socket.poll_item(), {nullptr, signal_fd, ZMQ_POLLIN, 0}};
  Nanoseconds next_tick_ns = monotonic_now_ns();
  for (;;) {
    const Nanoseconds before_ns = monotonic_now_ns();
    const Nanoseconds wait_ms = std::max<Nanoseconds>(0, (next_tick_ns - before_ns + ns_per_ms - 1) / ns_per_ms);
    try {
      zmq::poll(items, std::size(items), std::chrono::milliseconds(wait_ms));
    } catch (const zmq::error_t& e) {
      if (e.num() != EINTR) throw;
      continue;
    }
    if ((items[1].revents & ZMQ_POLLIN) != 0) {
      if (const int number = read_stop_signal(signal_fd); number != 0) return number;
    }
    const Nanoseconds woken_ns = monotonic_now_ns();
    if (woken_ns - before_ns > wait_ms * ns_per_ms + paused_ns) {
      // What waits in the network has to be read before silence may be judged.
      spdlog::warn("the service did not run for {} ms", (woken_ns - before_ns) / ns_per_ms);
      loop.count_late_tick();
      next_tick_ns = woken_ns + tick_period_ns;
    }
    drain(socket, loop, std::max(next_tick_ns, woken_ns) + drain_ns);
    requests.serve([&](const TuneRequest& request) { return loop.tune(request, send); });
    const Nanoseconds now_ns = monotonic_now_ns();
    if (now_ns < next_tick_ns) continue;
    if (now_ns > next_tick_ns + tick_period_ns) loop.count_late_tick();
    loop.tick(now_ns, realtime_now_ns(), monotonic_now_ns);
    next_tick_ns = std::max(next_tick_ns + tick_period_ns, monotonic_now_ns());
  }
}

void log_summary(const ingest::Ingest& ingest) {
  const ingest::IngestCounters& c = ingest.counters();
  spdlog::info("{} batches, {} lost, {} rejected", c.batches, c.lost_batches, c.rejected_total());
  for (const ingest::DistinctError& e : ingest.errors().all()) {
    if (e.count > 1) spdlog::warn("{} times within {:.1f} s: {}", e.count, static_cast<double>(e.last_ns - e.first_ns) / ns_per_s, e.text);
  }
}

}  // namespace

absl::Status serve(const ServeOptions& options) {
  if (absl::Status s = start_log(options.log_level); !s.ok()) return s;
  const auto settings = settings_of(options);
  if (!settings.ok()) return settings.status();
  const auto http_address = parse_host_port(options.http);
  if (!http_address.ok()) return naming("--http", http_address.status());
  if (absl::Status s = check_endpoint(options.listen); !s.ok()) return naming("--listen", s);
  const auto signal_fd = open_stop_signals();
  if (!signal_fd.ok()) return signal_fd.status();
  const absl::Cleanup close_signals = [&] { close(*signal_fd); };

  auto socket = TelemetrySocket::open(options.listen);
  if (!socket.ok()) return naming("--listen", socket.status());
  const auto store = std::make_shared<SnapshotStore>();
  const auto requests = std::make_shared<TuneQueue>();
  auto http = HttpApi::open(*http_address, store, requests, options.allow_remote_tune);
  if (!http.ok()) return naming("--http", http.status());
  auto writer = VerdictWriter::open(options.verdicts);
  if (!writer.ok()) return naming("--verdicts", writer.status());

  warn_if_reachable("--listen", socket->endpoint(), is_loopback_endpoint(socket->endpoint()));
  if (options.allow_remote_tune && !(*http)->address().is_loopback()) {
    spdlog::warn("--allow-remote-tune: everyone who reaches {} can stop and redirect probes", (*http)->address().text());
  }
  warn_if_reachable("--http", (*http)->address().text(), (*http)->address().is_loopback());
  auto recorder = open_recorder(options, *settings);
  if (!recorder.ok()) return recorder.status();
  AnalysisLoop loop(*settings, *std::move(writer), store, *std::move(recorder), monotonic_now_ns(), realtime_now_ns());
  loop.tick(monotonic_now_ns(), realtime_now_ns(), monotonic_now_ns);  // the first query finds a snapshot
  (*http)->start();

  const std::string http_url = absl::StrCat("http://", (*http)->address().text());
  if (!options.ready_file.empty()) {
    if (absl::Status s = write_ready_file(options.ready_file, socket->endpoint(), http_url); !s.ok()) return s;
  }
  std::fprintf(stderr, "ccld: listening on %s and %s\n", socket->endpoint().c_str(), http_url.c_str());
  std::fflush(stderr);

  const int signal_number = analyse_until_stopped(*socket, *signal_fd, loop, *requests);
  spdlog::info("{}: ending", signal_number == SIGINT ? "interrupted" : "terminated");
  if (!options.ready_file.empty()) unlink(options.ready_file.c_str());
  log_summary(loop.ingest());
  loop.finish_recording();
  if (!(*http)->stop(shutdown_patience)) {
    // A client holds a thread of the query API. Everything is written; waiting for it would break the promised second.
    std::_Exit(EXIT_SUCCESS);
  }
  return absl::OkStatus();
}

}  // namespace ccld::decision::server
