// What a question asks of a list: which rows, how many, and after which one. From the parameters of an HTTP request.
//
//   ?job=demo&state=troubled&limit=100&after=4.0000000000000abc
//
// `after` is what `next` of the page before said; pages follow each other without gaps or repetitions as long as the
// rows stay where they are. (The service knows every row by its name, so a page works with any snapshot.)
// Errors: InvalidArgument, one line that names the parameter. Threads: any.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "decision/report/status_index.h"

namespace ccld::decision::report {

// Rows of a page. A communicator, a rank or a job takes up to about 700 bytes of JSON, a process with its 150 metrics and
// 16 queues about 12 kB: the largest page is 1 MiB at most, whatever is asked for.
constexpr size_t page_rows_default = 100;
constexpr size_t page_rows_max = 1000;
constexpr size_t process_rows_default = 20;
constexpr size_t process_rows_max = 50;

struct PageQuery {
  std::optional<size_t> limit;  // what the list has as its default
  std::string after;            // empty: from the first row on
  std::optional<std::string> job;
  std::optional<Trouble> state;
  bool troubled = false;  // state=troubled: all states that are trouble
  bool silent = false;    // state=silent, of processes
  bool stopped = false;   // state=stopped, of processes: an operator stopped the probe
  bool ranks = false;     // ranks=1, of the status

  size_t rows(size_t fallback) const { return limit.value_or(fallback); }
  bool wants(Trouble t) const { return troubled ? report::troubled(t) : !state.has_value() || *state == t; }
};

// Which parameters a document knows; others are refused, so that a slip is not overlooked.
enum PageParameters : unsigned {
  with_page = 1,   // limit, after
  with_job = 2,    // job
  with_state = 4,  // state: of communicators and jobs
  with_process_state = 8,  // state: of processes
  with_ranks = 16,  // ranks
};

absl::StatusOr<PageQuery> parse_page_query(const std::multimap<std::string, std::string>& parameters, unsigned known,
                                           size_t rows_max);

}  // namespace ccld::decision::report
