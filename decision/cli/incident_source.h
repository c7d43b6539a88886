// Where `ccld incidents` and `ccld explain` get incidents from: a running service, the database of a state folder, or a file,
// which is a database or holds verdict lines.
// Errors: InvalidArgument names the flag; NotFound: no such incident; else Unavailable. Threads: one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "decision/cli/service_client.h"
#include "decision/history/filter.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision {

struct SourceFlags {
  ServiceAddress service;
  bool url_given = false;
  std::string file;      // empty: not given
  std::string state;     // a folder; empty: not given
};

// By parameter: since, job, class, open, limit, after; those that are not given are missing.
using FilterTexts = std::map<std::string, std::string>;

// An incident as one source knows it. Verdict files name the run, since numbers may repeat in them.
struct Found {
  std::string run;                      // empty: numbers are unique in this source
  std::vector<report::Json> revisions;  // the newest last; only the newest unless all were asked for
};

class IncidentSource {
 public:
  virtual ~IncidentSource() = default;
  virtual absl::StatusOr<history::Page> list(const FilterTexts&) = 0;
  // More than one only if several runs of a verdict file have given the number.
  virtual absl::StatusOr<std::vector<Found>> find(uint64_t id, bool all_revisions) = 0;
  // What to say on standard error before the answer; empty: nothing.
  virtual std::string note() const { return ""; }
};

// --http, --file and --state. Returns --http: whether it was given is known when the command line is read.
CLI::Option* add_source_flags(CLI::App& command, SourceFlags&);

// Without --file and --state the service is asked; where none answers and --http is not given either, the default state
// folder is read.
absl::StatusOr<std::unique_ptr<IncidentSource>> open_source(const SourceFlags&);

// Verdict lines of several runs: a table for each run, else one table.
std::string list_text(const history::Page&, size_t columns);

}  // namespace ccld::decision
