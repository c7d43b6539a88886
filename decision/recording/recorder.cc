#include "decision/recording/recorder.h"

#include <time.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "decision/recording/block.h"
#include "decision/recording/incident_files.h"
#include "decision/recording/incident_history.h"
#include "decision/recording/last_words.h"
#include "decision/recording/recording_file.h"
#include "decision/report/text_format.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::recording {
namespace {

// What follows the confirmation belongs to the picture: further ranks, a location that comes later.
constexpr Nanoseconds aftermath_ns = 5 * ns_per_s;
// The beginning of the telemetry, of everything kept for incidents: one part in so many.
constexpr uint64_t head_share = 4;
constexpr uint64_t ending_bytes_max = 1024;
constexpr size_t spares_max = 4;
// Their limit is in days.
constexpr Nanoseconds old_files_every_ns = 3600 * ns_per_s;

struct Job {
  std::string content;  // of a block of entries; empty: an incident
  Nanoseconds first_ns = 0, last_ns = 0;
  Ending counts;        // of the block
  Metadata incident;
  int64_t now_ms = 0;  // since 1970
  LastWords words;
};

}  // namespace

struct Recorder::State {
  // The caller's side.
  RecorderOptions options;
  Metadata metadata;
  BlockBuilder builder;
  Nanoseconds last_ns = 0;
  int64_t last_realtime_ns = 0;
  Ending block;      // counts of the builder's block
  uint64_t entries = 0, bytes = 0, missing = 0;
  std::optional<LastWordsBook> words;
  struct PendingIncident {
    Nanoseconds due_ns;
    int64_t realtime_ms;  // of the confirmation
    Metadata metadata;
  };
  std::deque<PendingIncident> pending;
  std::set<uint64_t> incidents_seen;
  bool warned_of_gap = false, finished = false;
  bool nothing_to_do = false;  // the file has ended, and no incidents are recorded

  // Shared.
  mutable std::mutex mutex;
  std::condition_variable wake;
  std::deque<Job> jobs;
  uint64_t queued_bytes = 0;
  std::vector<std::string> spares;
  bool stop = false, recording = true;
  report::RecorderCounters shared;

  // The thread's side.
  Packer packer;
  std::unique_ptr<RecordingFile> file;
  Ending in_file;    // counts of what is in the file
  std::optional<IncidentHistory> history;
  std::optional<Nanoseconds> cleaned_ns;  // when old files were last looked for
  std::thread thread;
  absl::Notification ended;

  void add(const Entry&);
  void hand_over();
  std::string spare();
  void request_incident(const Metadata&, int64_t now_ms);

  void run();
  void carry_out(Job&);
  void write_block(const std::string& block, const Ending& counts);
  void close_file(const char* reason);
  void file_failed(const absl::Status&);
  void write_incident(Job&);
};

void Recorder::State::add(const Entry& e) {
  if (finished || nothing_to_do) return;
  builder.add(e);
  last_ns = e.clock_ns;
  last_realtime_ns = e.realtime_ns;
  ++entries;
  bytes += e.message.size();
  if (e.kind == EntryKind::message) ++block.messages;
  if (e.kind == EntryKind::tick) ++block.ticks;
  if (builder.due(e.clock_ns)) hand_over();
}

// The builder's block to the thread, or away.
void Recorder::State::hand_over() {
  if (builder.empty()) return;
  Job job;
  job.first_ns = builder.first_ns();
  job.last_ns = last_ns;
  job.now_ms = last_realtime_ns / ns_per_ms;
  job.counts = std::exchange(block, {});
  job.content = builder.take(spare());
  const Ending counts = job.counts;
  bool room;
  {
    const std::lock_guard lock(mutex);
    nothing_to_do = !recording;
    if (nothing_to_do) return;
    room = queued_bytes + job.content.size() <= options.queue_bytes_max || jobs.empty();
    if (room) {
      queued_bytes += job.content.size();
      jobs.push_back(std::move(job));
    }
  }
  if (room) return wake.notify_one();
  // The next block says what is missing before it.
  const uint64_t dropped = counts.messages + counts.ticks;
  missing += dropped;
  block.missing = counts.missing + dropped;
  builder.add({.kind = EntryKind::gap, .clock_ns = last_ns, .realtime_ns = last_realtime_ns, .missing = block.missing});
  if (!std::exchange(warned_of_gap, true)) {
    spdlog::warn("the recording cannot keep up, {} entries are missing from it; further ones are only counted", dropped);
  }
}

// Memory of a block that has been written: fresh memory costs more than copying into it.
std::string Recorder::State::spare() {
  const std::lock_guard lock(mutex);
  if (spares.empty()) return {};
  std::string result = std::move(spares.back());
  spares.pop_back();
  return result;
}

void Recorder::State::request_incident(const Metadata& incident, int64_t now_ms) {
  hand_over();
  Job job;
  job.incident = incident;
  job.now_ms = now_ms;
  job.words = words->collect();
  {
    const std::lock_guard lock(mutex);
    jobs.push_back(std::move(job));
  }
  wake.notify_one();
}

void Recorder::State::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [this] { return stop || !jobs.empty(); });
    if (jobs.empty()) break;
    Job job = std::move(jobs.front());
    jobs.pop_front();
    lock.unlock();
    carry_out(job);
    timespec cpu{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    lock.lock();
    queued_bytes -= job.content.size();
    const size_t memory = job.content.capacity();
    if (spares.size() < spares_max && memory >= block_content_bytes_wanted / 2 && memory <= 4 * block_content_bytes_wanted) {
      spares.push_back(std::move(job.content));
    }
    shared.cpu_s = static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) / ns_per_s;
    shared.file_open = file != nullptr;
    if (file != nullptr) shared.file_bytes = file->bytes();
    if (history.has_value()) shared.history_bytes = history->bytes();
    recording = file != nullptr || history.has_value();
  }
  lock.unlock();
  if (file != nullptr) close_file("stopped");
}

void Recorder::State::carry_out(Job& job) {
  if (job.content.empty()) return write_incident(job);
  std::string packed = packer.pack(job.content);
  if (file != nullptr) write_block(packed, job.counts);
  if (!history.has_value()) return;
  history->add(std::move(packed), job.first_ns, job.last_ns);
  if (cleaned_ns.has_value() && job.last_ns - *cleaned_ns < old_files_every_ns) return;
  cleaned_ns = job.last_ns;
  remove_old_incident_files(options.incident_folder, options.incident_limits, job.now_ms);
}

void Recorder::State::write_block(const std::string& packed, const Ending& counts) {
  if (file->bytes() + packed.size() + ending_bytes_max > options.file_bytes_max) {
    spdlog::warn("--record: '{}' has reached its limit of {} bytes, the recording ends here", file->path(), options.file_bytes_max);
    return close_file("limit");
  }
  if (absl::Status s = file->write(packed); !s.ok()) return file_failed(s);
  in_file.messages += counts.messages;
  in_file.ticks += counts.ticks;
  in_file.missing += counts.missing;
}

void Recorder::State::close_file(const char* reason) {
  in_file.reason = reason;
  if (absl::Status s = file->close(in_file, packer); !s.ok()) return file_failed(s);
  const std::lock_guard lock(mutex);
  shared.file_bytes = file->bytes();
  shared.file_open = false;
  file.reset();
}

void Recorder::State::file_failed(const absl::Status& status) {
  spdlog::warn("--record: {}; the recording ends here", std::string(status.message()));
  const std::lock_guard lock(mutex);
  ++shared.write_errors;
  shared.file_bytes = file->bytes();
  shared.file_open = false;
  file.reset();
}

void Recorder::State::write_incident(Job& job) {
  const auto path = write_incident_file(options.incident_folder, options.incident_limits, job.now_ms, job.incident, *history, std::move(job.words), packer);
  if (path.ok()) {
    if (options.on_incident_file) options.on_incident_file(report::number_of(job.incident.incident, "incident"), *path);
    spdlog::info("incident recorded in '{}'{}", *path, history->whole() ? "" : "; the telemetry between its beginning and its end is not in it");
  } else {
    spdlog::warn("--record-incidents: {}", std::string(path.status().message()));
  }
  const std::lock_guard lock(mutex);
  ++(path.ok() ? shared.incident_files : shared.write_errors);
}

Recorder::Recorder(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Recorder>> Recorder::start(const RecorderOptions& options, const Metadata& metadata) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->metadata = metadata;
  if (!options.incident_folder.empty()) {
    if (absl::Status s = check_incident_folder(options.incident_folder); !s.ok()) return s;
    const uint64_t head_bytes = options.history_bytes_max / head_share;
    state->history.emplace(head_bytes, options.history_bytes_max - head_bytes);
    state->words.emplace(options.last_words_bytes_max);
  }
  if (!options.path.empty()) {
    auto file = RecordingFile::create(options.path, options.replace, metadata, state->packer);
    if (!file.ok()) return file.status();
    state->file = *std::move(file);
    state->shared.file_open = true;
    state->shared.file_bytes = state->file->bytes();
  }
  State* shared = state.get();
  state->thread = std::thread([shared] {
    shared->run();
    shared->ended.Notify();
  });
  return std::unique_ptr<Recorder>(new Recorder(std::move(state)));
}

Recorder::~Recorder() { finish(); }

void Recorder::message(absl::Span<const uint8_t> bytes, Nanoseconds now_ns, int64_t realtime_ns) {
  state_->add({.kind = EntryKind::message, .clock_ns = now_ns, .realtime_ns = realtime_ns, .message = bytes});
}

void Recorder::multipart(Nanoseconds now_ns, int64_t realtime_ns) {
  state_->add({.kind = EntryKind::multipart, .clock_ns = now_ns, .realtime_ns = realtime_ns});
}

void Recorder::tick(Nanoseconds now_ns, int64_t realtime_ns) {
  State& s = *state_;
  s.add({.kind = EntryKind::tick, .clock_ns = now_ns, .realtime_ns = realtime_ns});
  while (!s.pending.empty() && now_ns >= s.pending.front().due_ns) {
    s.request_incident(s.pending.front().metadata, realtime_ns / ns_per_ms);
    s.pending.pop_front();
  }
}

void Recorder::decoded(const Batch& batch, absl::Span<const uint8_t> bytes, Nanoseconds now_ns, int64_t realtime_ns) {
  if (state_->words.has_value()) state_->words->heard(batch, bytes, now_ns, realtime_ns);
}

void Recorder::incident(const Incident& incident, Nanoseconds now_ns, int64_t realtime_ns) {
  State& s = *state_;
  if (!s.words.has_value() || s.finished || incident.state != VerdictState::confirmed) return;
  if (!s.incidents_seen.insert(incident.id).second) return;
  s.words->forget(now_ns - s.options.forget_ns);
  Metadata metadata = s.metadata;
  metadata.source = "incident";
  metadata.incident = fitting(report::verdict_json(incident, now_ns, {realtime_ns - now_ns}));
  s.pending.push_back({now_ns + aftermath_ns, realtime_ns / ns_per_ms, std::move(metadata)});
}

void Recorder::flush_if_due(Nanoseconds now_ns) {
  if (state_->builder.due(now_ns)) state_->hand_over();
}

report::RecorderCounters Recorder::counters() const {
  const std::lock_guard lock(state_->mutex);
  report::RecorderCounters c = state_->shared;
  c.entries = state_->entries;
  c.bytes = state_->bytes;
  c.missing = state_->missing;
  return c;
}

bool Recorder::finish(absl::Duration timeout) {
  State& s = *state_;
  if (!s.finished) {
    s.hand_over();
    for (const auto& pending : s.pending) s.request_incident(pending.metadata, pending.realtime_ms);
    s.pending.clear();
    s.finished = true;
    {
      const std::lock_guard lock(s.mutex);
      s.stop = true;
    }
    s.wake.notify_one();
  }
  if (!s.ended.WaitForNotificationWithTimeout(timeout)) return false;
  if (s.thread.joinable()) s.thread.join();
  return true;
}

}  // namespace ccld::decision::recording
