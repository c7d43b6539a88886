// What the recorder has done, for the status and the metrics. Threads: any; plain data.
#pragma once

#include <cstdint>

namespace ccld::decision::report {

struct RecorderCounters {
  uint64_t entries = 0;         // recorded
  uint64_t bytes = 0;           // of them, before compression
  uint64_t missing = 0;         // entries for which there was no room in the queue
  uint64_t file_bytes = 0;      // written to the file
  uint64_t write_errors = 0;
  uint64_t history_bytes = 0;   // kept for incidents
  uint64_t incident_files = 0;  // written
  bool file_open = false;       // it is still being written
  double cpu_s = 0;             // of the recorder's thread
};

}  // namespace ccld::decision::report
