// What `ccld replay` says about a recording: for people and as JSON. Pure.
// Errors: nlohmann::json::exception where a verdict is not one. Threads: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decision/recording/metadata.h"
#include "decision/server/replay.h"

namespace ccld::decision {

// The newest verdict of every incident, in order of appearance.
class FinalVerdicts {
 public:
  void see(report::Json verdict);
  const report::Json& all() const { return verdicts_; }  // an array

 private:
  report::Json verdicts_ = report::Json::array();
};

struct RecordingFacts {
  std::string path;
  uint64_t file_bytes = 0;
  recording::Metadata metadata;
  server::ReplaySummary summary;
  std::optional<recording::Ending> ending;
};

report::Json summary_json(const server::ReplaySummary&);
report::Json facts_json(const RecordingFacts&);
std::string facts_text(const RecordingFacts&);
// One line: "12.3 s, 240 messages (1.2 MB) of 8 processes, 8 ranks in 1 communicator".
std::string summary_text(const server::ReplaySummary&);

// All incidents as `ccld explain` says them.
std::string verdicts_text(const report::Json& verdicts);
// Two arrays of verdicts on the same telemetry, incident by incident, side by side.
std::string comparison_text(const report::Json& measured, const report::Json& paper);

}  // namespace ccld::decision
