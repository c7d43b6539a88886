// Findings into incidents: one for a cause, handed out again only when a reader would act differently.
// Threads: those of the analyzer.
#pragma once

#include <utility>
#include <vector>

#include "decision/analysis/incident_book.h"
#include "decision/locate/finding.h"

namespace ccld::decision {

constexpr size_t victims_sampled = 16;

bool same_culprits(const std::vector<Culprit>&, const std::vector<Culprit>&);

class IncidentWriter {
 public:
  explicit IncidentWriter(const Settings& settings, Numbering numbering = {})
      : settings_(settings), book_(settings, std::move(numbering)) {}

  IncidentBook& book() { return book_; }
  const IncidentBook& book() const { return book_; }

  // Returns the handle. `onset_ns`: the last evidence that all was well.
  uint64_t open(const Communicator&, const Finding&, Nanoseconds onset_ns, Nanoseconds now_ns);
  // The incident says what the newest finding says; whether it is handed out again the book decides.
  void update(uint64_t handle, const Communicator&, const Finding&, Nanoseconds now_ns);
  // With what else was seen at the processes of the culprits.
  void fill(Incident&, const Communicator&, const Finding&, Nanoseconds now_ns) const;

 private:
  const Settings& settings_;
  IncidentBook book_;
};

}  // namespace ccld::decision
