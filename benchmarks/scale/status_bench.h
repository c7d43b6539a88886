// What questions about a large job cost the service: the snapshot that answers are made from, and the answers, asked over
// HTTP of the real query API in this process.
#pragma once

#include "decision/analyzer.h"
#include "nlohmann/json.hpp"

namespace ccld::bench {

// Times in milliseconds of wall time, memory as resident without pages of files.
//   snapshot_ms, snapshot_bytes     taking the snapshot, and what it holds
//   first_answer_ms, _bytes         GET /v1/status, the first question about the snapshot
//   next_answer_ms                  the same again
//   ranks_answer_bytes              GET /v1/status?ranks=1
//   pages, page_ms_max, page_bytes_max    all communicators, ranks of the largest one, processes, in the largest pages
//   rows                            how many rows these pages had together
//   memory_ratio                    the peak while answering, by what the process held before
nlohmann::json measure_status(const decision::Analyzer&, int64_t now_ns);

}  // namespace ccld::bench
