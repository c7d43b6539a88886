// What the reporting thread and the history have done, for the status and the metrics. Threads: any; plain data.
#pragma once

#include <cstdint>
#include <string>

namespace ccld::decision::report {

struct HistoryCounters {
  bool enabled = false;             // false: nothing is stored
  std::string database;             // its path
  uint64_t last_id_before = 0;      // the highest number of an incident of earlier runs
  uint64_t queue_length = 0;        // revisions that wait for the reporting thread
  uint64_t revisions_stored = 0;
  uint64_t revisions_waiting = 0;   // reported, not stored yet: the disk refuses them
  uint64_t revisions_dropped = 0;   // neither: no room in the queue, or in the memory of those that wait
  uint64_t write_errors = 0;        // attempts to store that failed
  uint64_t incidents_removed = 0;   // too old, or the database was too large
  uint64_t database_bytes = 0;      // in use
};

}  // namespace ccld::decision::report
