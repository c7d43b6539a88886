// Records what reaches the service: into one file, and around confirmed incidents. The caller only copies bytes; a thread
// of the recorder's own compresses and writes.
//
//   auto recorder = Recorder::start(options, metadata);      // the file is open, or the status says why not
//   (*recorder)->message(bytes, now_ns, realtime_ns);         // then the same for the analyzer
//   (*recorder)->tick(now_ns, realtime_ns);
//   (*recorder)->finish();
//
// Contract
//   Calls never block and never fail. Full blocks wait in a bounded queue; if the thread cannot keep up, blocks are
//   dropped, counted, and the recording says where (gap). A file that cannot be written, and one that has reached its limit,
//   ends with one warning in the log; everything else goes on. The limit stops the file and does not rotate it: only a
//   recording that has the beginning (communicators, baselines) replays to the same verdicts.
//   One file per confirmed incident, written some seconds later so that what follows is in it; the oldest in
//   the folder are removed (`incident_limits`).
// Units: bytes, nanoseconds of the caller's clock. Errors: start(): the path and the reason.
// Threads: one caller; counters() is for it too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "decision/model/verdict.h"
#include "decision/recording/format.h"
#include "decision/recording/incident_files.h"
#include "decision/recording/metadata.h"
#include "decision/report/recorder_counters.h"

namespace ccld::decision::recording {

struct RecorderOptions {
  std::string path;                          // empty: no file of everything
  bool replace = false;                      // an existing file; else it is refused
  uint64_t file_bytes_max = uint64_t{4} << 30;

  std::string incident_folder;               // empty: no recordings of incidents
  IncidentFileLimits incident_limits;
  // Of each recording of an incident, in the recorder's thread.
  std::function<void(uint64_t incident, const std::string& path)> on_incident_file;
  uint64_t history_bytes_max = uint64_t{64} << 20;  // as compressed; a quarter of it is the beginning
  uint64_t last_words_bytes_max = uint64_t{64} << 20;
  Nanoseconds forget_ns = 600 * ns_per_s;    // nobody asks what a process said before that

  uint64_t queue_bytes_max = uint64_t{64} << 20;    // not compressed yet
};

class Recorder {
 public:
  static absl::StatusOr<std::unique_ptr<Recorder>> start(const RecorderOptions&, const Metadata&);
  ~Recorder();

  void message(absl::Span<const uint8_t> bytes, Nanoseconds now_ns, int64_t realtime_ns);
  void multipart(Nanoseconds now_ns, int64_t realtime_ns);
  void tick(Nanoseconds now_ns, int64_t realtime_ns);
  // What the newest message was, once it is decoded.
  void decoded(const Batch&, absl::Span<const uint8_t> bytes, Nanoseconds now_ns, int64_t realtime_ns);
  void incident(const Incident&, Nanoseconds now_ns, int64_t realtime_ns);
  // Hands on what waits for too long, without recording a tick.
  void flush_if_due(Nanoseconds now_ns);

  report::RecorderCounters counters() const;
  // Writes what is left and ends the file. False: the disk did not take it in that time. Then nothing may end but the
  // process: the thread still hangs in it.
  bool finish(absl::Duration timeout = absl::InfiniteDuration());

 private:
  struct State;
  explicit Recorder(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace ccld::decision::recording
