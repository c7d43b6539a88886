// A recording through the analysis, under the recorded clock and as fast as possible.
//
// Contract
//   The calls are those of the live run, in order, with their instants: the same settings give the same verdict lines, to
//   the byte. A recording without ticks (`ccld record`) is ticked every tenth of a second of its clock; after an hour
//   without a message the clock jumps to the next one.
//   After the last entry nothing is called any more: what would have happened later is not known.
// Errors: those of the reader; what came before them has been analysed. Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "decision/recording/reader.h"
#include "decision/server/analysis.h"

namespace ccld::decision::server {

struct ReplaySummary {
  Nanoseconds first_ns = 0, last_ns = 0;  // instants of the first and the last entry
  int64_t first_realtime_ns = 0;
  uint64_t messages = 0, message_bytes = 0, ticks = 0, multipart = 0;
  uint64_t gaps = 0, missing = 0;  // places where the recorder could not keep up, and entries missing there
  size_t processes = 0, ranks = 0, communicators = 0;  // seen over the whole recording
  double seconds() const { return static_cast<double>(last_ns - first_ns) / ns_per_s; }
};

struct ReplayOptions {
  std::optional<Nanoseconds> until_ns;  // since the first entry: nothing after that
};

// `report`: every incident that is new or changed, with the clock and the calendar of the tick.
using ReplayReport = std::function<void(const Incident&, Nanoseconds now_ns, int64_t realtime_ns)>;
absl::Status replay(recording::Reader&, const ReplayOptions&, Analysis&, ReplaySummary&, const ReplayReport& report = {});

// Counts without analysing: for `ccld replay --info`. Messages are decoded to count ranks.
absl::Status survey(recording::Reader&, ReplaySummary&);

}  // namespace ccld::decision::server
