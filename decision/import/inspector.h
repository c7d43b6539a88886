// Logs of NCCL Inspector, the profiler plugin in NCCL's tree (format v4): one line of JSON for a finished collective of
// a rank, not for each of them: the plugin writes the newest one now and then.
//
// Rules, for collectives that need all ranks, by what their kernels took on each rank
//   A kernel of a rank waits until the last rank has come, so the last one has the shortest time.
//   S1  one rank has the shortest time nearly always, and the others lose a good part of their time by it.
//   S2  the shortest time of a round, which has no wait in it, has become longer than it was.
// Errors: DataLoss, with the line. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "decision/import/findings.h"
#include "decision/import/thresholds.h"

namespace ccld::decision::dumps {

class InspectorReader {
 public:
  explicit InspectorReader(const Thresholds& thresholds) : thresholds_(thresholds) {}
  // One line, without line feed. `number` counts from 1.
  absl::Status add_line(absl::string_view line, uint64_t number);
  Findings judge() const;

 private:
  struct Record {
    uint64_t number = 0;  // of the call among those of its kind
    int32_t rank = 0;
    int64_t took_us = 0;
    int64_t written_us = 0;
  };
  struct Process {
    std::string host;
    int64_t pid = 0;
  };
  struct Communicator {
    std::string id;
    int rank_count = 0;
    std::map<int, Process> processes;
    // By kind of collective and bytes: only equal calls are compared.
    std::map<std::pair<std::string, int64_t>, std::vector<Record>> calls;
  };
  // The calls of one number, of all ranks.
  struct Round {
    int64_t shortest_us = 0, middle_us = 0, written_us = 0;
    int shortest_rank = -1;
  };
  static std::vector<Round> rounds_of(const Communicator&, std::vector<Record>);
  static Incident suspicion(const Communicator&, FaultClass, double confidence, absl::string_view kind);
  void judge_late(const Communicator&, Findings&) const;
  void judge_slower(const Communicator&, Findings&) const;

  const Thresholds thresholds_;
  std::map<std::string, Communicator> communicators_;
  size_t records_ = 0, host_timed_ = 0;
  int64_t newest_us_ = 0;
};

// Whether a file that begins so is a log of Inspector.
bool is_inspector(absl::string_view start);

}  // namespace ccld::decision::dumps
