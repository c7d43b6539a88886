#include "decision/server/serve.h"

#include <netdb.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "decision/advise/known_settings.h"
#include "decision/history/history.h"
#include "decision/ingest/connection_room.h"
#include "decision/ingest/telemetry_socket.h"
#include "decision/recording/recording_file.h"
#include "decision/server/analysis_loop.h"
#include "decision/server/clock.h"
#include "decision/server/cluster_node.h"
#include "decision/server/cluster_side.h"
#include "decision/server/connection_watch.h"
#include "decision/server/descriptor_limit.h"
#include "decision/server/http_access.h"
#include "decision/server/http_api.h"
#include "decision/server/layout_file.h"
#include "decision/server/memory_limit.h"
#include "decision/server/reporter.h"
#include "decision/server/run_id.h"
#include "decision/server/surroundings.h"
#include "decision/server/telemetry_access.h"
#include "decision/server/thread_count.h"
#include "decision/server/webhook.h"
#include "decision/server/webhook_turns.h"
#include "decision/settings.h"
#include "schemas/build_id/build_id.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

using ingest::ConnectionRoom;
using ingest::TelemetrySocket;

constexpr absl::Duration shutdown_timeout = absl::Milliseconds(500);  // of the promised second
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
    if (advise::is_known_setting(text)) continue;
    if (absl::Status s = parse_setting(settings, text); !s.ok()) return s;
  }
  if (absl::Status s = check_settings(settings); !s.ok()) return s;
  return settings;
}

absl::StatusOr<advise::Known> known_of(const ServeOptions& options, const Settings& settings) {
  advise::Known known = advise::known_of(settings);
  for (const std::string& text : options.settings) {
    if (!advise::is_known_setting(text)) continue;
    if (absl::Status s = advise::parse_known_setting(known, text); !s.ok()) return s;
  }
  return known;
}

constexpr double ms_per_day = 24.0 * 3600 * 1000;
constexpr double days_max = 36500, take_up_s_max = 1e9;

// What bounds the history and the recordings of incidents.
struct HistoryBounds {
  history::Limits database;
  recording::IncidentFileLimits recordings;
  Nanoseconds take_up_ns = 0;
};

absl::StatusOr<uint64_t> bytes_of(const char* flag, const std::string& text) {
  const auto bytes = recording::parse_bytes(text);
  if (!bytes.ok()) return naming(flag, bytes.status());
  return bytes;
}

absl::StatusOr<double> number_of(const char* flag, const std::string& text, double max) {
  double number = 0;
  if (absl::SimpleAtod(text, &number) && number >= 0 && number <= max) return number;
  return absl::InvalidArgumentError(absl::StrCat(flag, ": '", text, "' is not a number from 0 to ", max));
}

absl::StatusOr<HistoryBounds> bounds_of(const ServeOptions& options) {
  const auto database_bytes = bytes_of("--history-bytes", options.history_bytes);
  if (!database_bytes.ok()) return database_bytes.status();
  const auto database_days = number_of("--history-days", options.history_days, days_max);
  if (!database_days.ok()) return database_days.status();
  const auto take_up_s = number_of("--take-up-s", options.take_up_s, take_up_s_max);
  if (!take_up_s.ok()) return take_up_s.status();
  const auto recordings_bytes = bytes_of("--record-incidents-bytes", options.record_incidents_bytes);
  if (!recordings_bytes.ok()) return recordings_bytes.status();
  const auto recordings_days = number_of("--record-incidents-days", options.record_incidents_days, days_max);
  if (!recordings_days.ok()) return recordings_days.status();
  HistoryBounds bounds;
  bounds.database = {.bytes_max = *database_bytes, .age_max_ms = static_cast<int64_t>(*database_days * ms_per_day)};
  bounds.recordings.bytes_max = *recordings_bytes;
  bounds.recordings.age_max_ms = static_cast<int64_t>(*recordings_days * ms_per_day);
  bounds.take_up_ns = seconds_to_ns(*take_up_s);
  if (!absl::SimpleAtoi(options.record_incidents_max, &bounds.recordings.files_max) || bounds.recordings.files_max == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--record-incidents-max: '", options.record_incidents_max, "' is not a number of files, 1 or more"));
  }
  return bounds;
}

// Nothing if none is kept.
std::unique_ptr<history::History> open_history(const ServeOptions& options, const history::Limits& limits, const std::string& run) {
  if (options.no_history) return nullptr;
  history::HistoryOptions h;
  h.folder = options.state.empty() ? history::default_state_folder() : options.state;
  if (h.folder.empty()) {
    spdlog::warn("no history is kept: neither --state nor XDG_STATE_HOME nor HOME names a folder for it");
    return nullptr;
  }
  h.folder = std::filesystem::absolute(h.folder);
  const int64_t now_ms = realtime_now_ns() / ns_per_ms;
  const recording::Metadata metadata = recording::metadata_of(Settings(), "service", 0, 0);
  h.run = {.id = run, .version = metadata.version, .host = metadata.host, .pid = getpid(), .started_ms = now_ms};
  h.limits = limits;
  auto history = history::History::open(h, now_ms);
  if (history.ok()) return *std::move(history);
  spdlog::warn("no history is kept: --state: {}", std::string(history.status().message()));
  return nullptr;
}

// Nothing if nothing is to be recorded. Where the history is, incidents are recorded beside it.
absl::StatusOr<std::unique_ptr<recording::Recorder>> open_recorder(const ServeOptions& options, const Settings& settings,
                                                                   const Numbering& numbering, const std::string& state_folder,
                                                                   const recording::IncidentFileLimits& limits,
                                                                   const std::shared_ptr<Reporter>& reporter) {
  recording::RecorderOptions r;
  r.path = options.record;
  r.replace = options.record_overwrite;
  r.incident_folder = options.record_incidents;
  if (r.incident_folder.empty() && !state_folder.empty()) {
    const std::string folder = history::recordings_path(state_folder);
    const absl::Status status = recording::check_incident_folder(folder);
    if (status.ok()) r.incident_folder = folder;
    else spdlog::warn("incidents are not recorded: {}", std::string(status.message()));
  }
  if (!r.incident_folder.empty()) r.incident_folder = std::filesystem::absolute(r.incident_folder);
  r.on_incident_file = [reporter](uint64_t incident, const std::string& path) { reporter->recorded(incident, path); };
  r.incident_limits = limits;
  r.forget_ns = seconds_to_ns(settings.forget_s);
  const auto file_bytes = recording::parse_bytes(options.record_max_bytes);
  if (!file_bytes.ok()) return naming("--record-max-bytes", file_bytes.status());
  r.file_bytes_max = *file_bytes;
  const auto history_bytes = recording::parse_bytes(options.record_history_bytes);
  if (!history_bytes.ok()) return naming("--record-history-bytes", history_bytes.status());
  r.history_bytes_max = r.last_words_bytes_max = *history_bytes;
  if (r.path.empty() && r.incident_folder.empty()) return nullptr;
  recording::Metadata metadata = recording::metadata_of(settings, "service", monotonic_now_ns(), realtime_now_ns());
  metadata.numbering = numbering;
  auto recorder = recording::Recorder::start(r, std::move(metadata));
  if (absl::IsAlreadyExists(recorder.status())) {
    return absl::UnavailableError(absl::StrCat("--record: ", recorder.status().message(), "; --record-overwrite replaces it"));
  }
  if (!recorder.ok()) return naming(r.path.empty() ? "--record-incidents" : "--record", recorder.status());
  return recorder;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// "node7.example", where the system knows it by that; may ask the name service.
std::string full_host_name(const std::string& name) {
  addrinfo wish{}, *found = nullptr;
  wish.ai_flags = AI_CANONNAME;
  if (getaddrinfo(name.c_str(), nullptr, &wish, &found) != 0) return "";
  const absl::Cleanup free = [found] { freeaddrinfo(found); };
  return found->ai_canonname != nullptr ? found->ai_canonname : "";
}

// Where clients of other nodes are sent to, with the path that they asked for.
struct ClusterUrl {
  std::string url, host;  // both empty: none was given
};
absl::StatusOr<ClusterUrl> cluster_url_of(const std::string& given) {
  if (given.empty()) return ClusterUrl();
  absl::string_view rest = given;
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (!absl::ConsumePrefix(&rest, scheme)) continue;
    const auto address = parse_host_port(rest);
    if (!address.ok()) return naming("--cluster-http-url", address.status());
    return ClusterUrl{absl::StrCat(scheme, address->text()), address->host};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--cluster-http-url: '", given, "' begins neither with http:// nor with https://"));
}

// In `Host`, of requests without a token.
std::vector<std::string> names_of_service(const ServeOptions& options, const HostPort& http,
                                          const ClusterUrl& cluster_url) {
  std::vector<std::string> names = options.http_names;
  if (!cluster_url.host.empty()) names.push_back(cluster_url.host);
  const std::string own = host_name();
  if (own.empty()) return names;
  names.push_back(own);
  // The name service may be slow: it is asked only where others reach us.
  if (const std::string full = http.is_loopback() ? "" : full_host_name(own); !full.empty()) names.push_back(full);
  return names;
}

// Under which other hosts reach it: an address that stands for all is none.
std::string url_for_others(const HttpApi& http) {
  const HostPort& address = http.address();
  if (address.host != "0.0.0.0" && address.host != "::") return http.url();
  const std::string url = http.url();
  return absl::StrCat(url.substr(0, url.find("//") + 2), HostPort{host_name(), address.port}.text());
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

// A message may have megabytes.
constexpr size_t together_bytes_max = 1 << 20;

// Hands waiting messages to the analysis until there are none or `until_ns` has come.
void drain(TelemetrySocket& socket, ConnectionRoom& room, const ControlDesk::Send& send, AnalysisLoop& loop, const ClusterSide& cluster, Nanoseconds until_ns) {
  std::vector<TelemetrySocket::Message> messages(together_max);
  std::vector<AnalysisLoop::Message> contents;
  auto last = TelemetrySocket::Received::message;
  while (last != TelemetrySocket::Received::nothing) {
    const Nanoseconds now_ns = monotonic_now_ns();
    if (now_ns >= until_ns) return;
    const Nanoseconds realtime_ns = now_ns + realtime_minus_clock_ns();
    loop.look_at_memory(now_ns);
    // Where memory is short, but not yet at the last resort, ConnectionWatch cuts.
    room.look(now_ns,
              loop.memory().at_last_resort() ? ConnectionRoom::Memory::last_resort : ConnectionRoom::Memory::enough);
    contents.clear();
    for (size_t bytes = 0; is_room_together(contents.size(), bytes);) {
      TelemetrySocket::Message& m = messages[contents.size()];
      last = socket.receive(m);
      if (last != TelemetrySocket::Received::message) break;
      bytes += m.bytes().size();
      // Its key was removed. The batch itself is refused and counted with the others.
      if (m.speaker.has_value() && !m.speaker->is_listed()) m.cut_connection();
      if (cluster::Relay::is_relayed(m.connection)) continue;  // a client that names itself as probes of other nodes are named
      contents.push_back({m.bytes(), &m.connection, m.speaker.has_value() ? &*m.speaker : nullptr});
    }
    loop.on_messages(contents, now_ns, realtime_ns, send, [&](size_t i, const Batch& batch) {
      room.spoke(messages[i].descriptor(), messages[i].bytes().size(), now_ns);
      cluster.send_on(messages[i].connection, messages[i].bytes(), batch);
    });
    for (size_t i = 0; i < contents.size(); ++i) messages[i].body.rebuild();  // large ones are not kept
    if (last == TelemetrySocket::Received::multipart) loop.on_multipart_message(now_ns, realtime_ns);
  }
}

// Until a stop signal; returns its number.
int analyse_until_stopped(TelemetrySocket& socket, ConnectionRoom& room, int signal_fd, AnalysisLoop& loop, TuneQueue& requests, const ClusterSide& cluster) {
  const ControlDesk::Send send = [&](const std::string& connection, absl::Span<const uint8_t> message) {
    return cluster::Relay::is_relayed(connection) ? cluster.answer(connection, message) : socket.send(connection, message);
  };
  std::vector<zmq::pollitem_t> items = {socket.poll_item(), {nullptr, signal_fd, ZMQ_POLLIN, 0}};
  if (const int descriptor = cluster.descriptor(); descriptor >= 0) items.push_back({nullptr, descriptor, ZMQ_POLLIN, 0});
  Nanoseconds next_tick_ns = monotonic_now_ns();
  for (;;) {
    const Nanoseconds before_ns = monotonic_now_ns();
    const Nanoseconds look_again_ns = std::min(room.look_again_ns(), loop.memory().look_again_ns());
    const Nanoseconds until_ns = std::min(next_tick_ns, std::max(look_again_ns, before_ns));
    const Nanoseconds wait_ms = std::max<Nanoseconds>(0, (until_ns - before_ns + ns_per_ms - 1) / ns_per_ms);
    try {
      zmq::poll(items, std::chrono::milliseconds(wait_ms));
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
    drain(socket, room, send, loop, cluster, std::max(next_tick_ns, woken_ns) + drain_ns);
    cluster.drain(loop, send, [&](const std::string& connection, absl::Span<const uint8_t> message) { socket.send(connection, message); });
    requests.serve([&](const TuneRequest& request) { return loop.tune(request, send); });
    const Nanoseconds now_ns = monotonic_now_ns();
    if (now_ns < next_tick_ns) continue;
    if (now_ns > next_tick_ns + tick_period_ns) loop.count_late_tick();
    socket.renew_key();
    cluster.take_turn(loop, now_ns);
    loop.tick(now_ns, now_ns + realtime_minus_clock_ns(), monotonic_now_ns);
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
  const auto known = known_of(options, *settings);
  if (!known.ok()) return known.status();
  const auto bounds = bounds_of(options);
  if (!bounds.ok()) return bounds.status();
  const auto memory_max = memory_max_of(options.memory_max);
  if (!memory_max.ok()) return naming("--memory-max", memory_max.status());
  const auto threads = threads_of(options.threads);
  if (!threads.ok()) return naming("--threads", threads.status());
  const auto http_address = parse_host_port(options.http);
  if (!http_address.ok()) return naming("--http", http_address.status());
  const auto cluster_url = cluster_url_of(options.cluster_http_url);
  if (!cluster_url.ok()) return cluster_url.status();
  if (absl::Status s = check_endpoint(options.listen); !s.ok()) return naming("--listen", s);
  auto telemetry_access = open_telemetry_access({options.listen, options.telemetry_secret_file, options.telemetry_allow_file, options.insecure});
  if (!telemetry_access.ok()) return telemetry_access.status();
  auto http_access = open_http_access(
      {*http_address, options.http_tokens_file, options.http_certificate_file, options.http_key_file, options.insecure});
  if (!http_access.ok()) return http_access.status();
  const auto signal_fd = open_stop_signals();
  if (!signal_fd.ok()) return signal_fd.status();
  const absl::Cleanup close_signals = [&] { close(*signal_fd); };

  const auto node = ClusterNode::open({.servers = options.cluster,
                                       .name = options.cluster_name,
                                       .node = options.cluster_node,
                                       .http_url = cluster_url->url,
                                       .credentials_file = options.cluster_credentials_file,
                                       .ca_file = options.cluster_ca_file,
                                       .certificate_file = options.cluster_certificate_file,
                                       .key_file = options.cluster_key_file,
                                       .replicas = options.cluster_replicas,
                                       .log_bytes_max = static_cast<int64_t>(bounds->database.bytes_max),
                                       .log_age_max_ms = bounds->database.age_max_ms});
  if (!node.ok()) return node.status();
  const bool in_cluster = *node != nullptr;

  auto socket = TelemetrySocket::open(options.listen, telemetry_access->door);
  if (!socket.ok()) return naming("--listen", socket.status());
  const auto store = std::make_shared<SnapshotStore>();
  const auto requests = std::make_shared<TuneQueue>();
  HttpOptions http_options;
  http_options.allow_remote_tune = options.allow_remote_tune;
  http_options.allow_remote_ack = options.allow_remote_ack;
  if (http_access->tokens == nullptr) http_options.names = names_of_service(options, *http_address, *cluster_url);
  http_options.tokens = http_access->tokens;
  http_options.tls = http_access->tls;
  double look_max_s = 0;
  if (!absl::SimpleAtod(options.health_look_max_s, &look_max_s) || !(look_max_s >= 1 && look_max_s <= 86400)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--health-look-max-s: '", options.health_look_max_s, "' is not a number of seconds from 1 to 86400"));
  }
  http_options.look_max_ns = seconds_to_ns(look_max_s);
  http_options.clock_ns = monotonic_now_ns;
  auto http = HttpApi::open(*http_address, store, requests, http_options);
  if (!http.ok()) return naming("--http", http.status());
  auto writer = VerdictWriter::open(options.verdicts);
  if (!writer.ok()) return naming("--verdicts", writer.status());

  if (options.allow_remote_tune && http_access->tokens == nullptr && !(*http)->address().is_loopback()) {
    spdlog::warn("--allow-remote-tune: everyone who reaches {} can stop and redirect probes", (*http)->address().text());
  }
  const std::string run = new_run_id(realtime_now_ns());
  auto history = open_history(options, bounds->database, run);
  if (in_cluster && history == nullptr) return absl::InvalidArgumentError("--cluster: a node keeps the history of all: --state must name a folder for it");
  const Numbering numbering{run, history != nullptr ? history->last_id_before() : 0};
  const std::string state_folder = history != nullptr ? history->folder() : "";
  auto left_open = history != nullptr && !in_cluster ? history::all_left_open_of(history->left_open(), {realtime_minus_clock_ns()}) : std::vector<LeftOpen>();
  if (!left_open.empty()) spdlog::info("{} incidents were left open by an earlier run", left_open.size());
  const WebhookOptions webhook_options{options.webhook, options.webhook_secret_file, options.webhook_ca_file, options.webhook_min_state};
  auto webhook = Webhook::open(webhook_options, history.get(), run, realtime_now_ns() / ns_per_ms);
  if (!webhook.ok()) return webhook.status();
  const auto reporter = std::make_shared<Reporter>(*std::move(writer), std::move(history), Reporter::Bounds());
  reporter->advise_with(*known);
  auto recorder = open_recorder(options, *settings, numbering, state_folder, bounds->recordings, reporter);
  if (!recorder.ok()) return recorder.status();
  WebhookTurns turns(webhook_options, run, reporter, **http);
  if (in_cluster) webhook->reset();  // it has looked whether that can be
  if (*webhook != nullptr) (*webhook)->connect(reporter, **http);
  const absl::Cleanup stop_webhook = [&] {
    if (*webhook != nullptr) (*webhook)->stop(absl::InfiniteDuration());
  };
  AnalysisLoop loop(*settings, reporter, store, *std::move(recorder), numbering, monotonic_now_ns(), realtime_now_ns(), *threads);
  loop.guard_memory(*memory_max);
  if (*memory_max > 0) spdlog::info("memory: at most {} MiB (--memory-max)", *memory_max >> 20);
  if (*webhook != nullptr) loop.count_webhook([hook = webhook->get()] { return hook->counters(); });
  if (in_cluster && !options.webhook.empty()) loop.count_webhook([&turns] { return turns.counters(); });
  loop.tell_access([&socket = *socket, tokens = http_access->tokens != nullptr, tls = http_access->tls != nullptr] {
    report::AccessStatus access{socket.door() != nullptr, tokens, tls, {}, {}};
    if (access.telemetry_keys) {
      access.door = socket.door()->counters();
      access.door_errors = socket.door()->errors();
    }
    return access;
  });
  ConnectionRoom room(socket->endpoint(), raise_descriptor_limit(ConnectionRoom::descriptors_needed_max), *memory_max);
  loop.tell_connections([&room] { return room.counters(); });
  const ConnectionWatch watch(room, *memory_max, resident_bytes);
  loop.tell_http([&http = **http] { return http.counters(); });
  const ClusterSide cluster(node->get(), &turns, run, bounds->take_up_ns);
  if (in_cluster) {
    loop.follow();
    const absl::Status begun = (*node)->begin(reporter, {url_for_others(**http), socket->endpoint(), release_version(), run});
    if (!begun.ok()) return naming("--cluster", begun);
    loop.tell_cluster([&n = **node] { return n.status(); });
    (*http)->send_to([&n = **node] { return n.leader_url(); });
    (*http)->answer_cluster([&n = **node] { return n.status(); });
  } else {
    loop.take_up(std::move(left_open), bounds->take_up_ns);
  }
  const absl::Cleanup leave_cluster = [&] {
    if (!in_cluster) return;
    reporter->finish(absl::InfiniteDuration());  // it writes to the cluster's log
    (*node)->end();
  };
  (*http)->answer_incidents(reporter);
  loop.tick(monotonic_now_ns(), realtime_now_ns(), monotonic_now_ns);  // the first query finds a snapshot
  (*http)->start();

  std::vector<admission::WatchedFiles> files = std::move(http_access->files);
  for (admission::WatchedFiles& each : telemetry_access->files) files.push_back(std::move(each));
  const admission::Reloader reloader(std::move(files));

  const std::string http_url = (*http)->url();
  if (!options.ready_file.empty()) {
    if (absl::Status s = write_ready_file(options.ready_file, socket->endpoint(), http_url); !s.ok()) return s;
  }
  std::fprintf(stderr, "ccld: listening on %s and %s\n", socket->endpoint().c_str(), http_url.c_str());
  std::fflush(stderr);
  if (*threads > 1) spdlog::info("{} threads take telemetry in (--threads)", *threads);

  const int signal_number = analyse_until_stopped(*socket, room, *signal_fd, loop, *requests, cluster);
  spdlog::info("{}: ending", signal_number == SIGINT ? "interrupted" : "terminated");
  if (!options.ready_file.empty()) unlink(options.ready_file.c_str());
  log_summary(loop.ingest());
  // First: what it has delivered is still written down.
  const bool webhook_ended =
      (*webhook == nullptr || (*webhook)->stop(shutdown_timeout)) && turns.stop(shutdown_timeout);
  const bool reported = loop.finish(shutdown_timeout);
  if (in_cluster && reported) (*node)->end();
  if (!reported) spdlog::error("a disk or the reader of verdicts hangs: what waits for it is lost");
  if (!webhook_ended || !reported || !(*http)->stop(shutdown_timeout)) {
    // A thread hangs, or a client of the query API holds one: waiting for it would break the promise.
    std::_Exit(EXIT_SUCCESS);
  }
  return absl::OkStatus();
}

}  // namespace ccld::decision::server
