// Verdicts, and what is made of them, for the tests of the history.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "decision/history/revision.h"
#include "decision/history/store.h"
#include "decision/report/text_format.h"
#include "test/support/files/folder.h"

namespace ccld::test {

using namespace decision;
using namespace decision::history;
using report::Json;
using report::number_of;
using report::text_of;

constexpr int64_t start_ms = 1'769'860'800'000;  // 2026-01-31T12:00:00Z
constexpr int64_t ms_per_day = 24 * 3600 * 1000;

inline std::string time_at(int64_t ms) { return report::WallClock{}.text(ms * ns_per_ms); }

struct Facts {
  std::string state = "suspected", job = "demo", fault_class = "H1", run = "first";
  int64_t time_ms = start_ms;
};

inline Json verdict(uint64_t id, uint32_t revision, const Facts& f = {}) {
  return {{"time", time_at(f.time_ms)}, {"incident", id},       {"run", f.run},
          {"revision", revision},       {"class", f.fault_class}, {"state", f.state},
          {"job", f.job},               {"communicator", "0000000000000abc"}, {"op_seq", 17},
          {"onset_time", time_at(start_ms - 5000)}, {"suspected_time", time_at(start_ms)}};
}

inline Revision revision(uint64_t id, uint32_t number, const Facts& f = {}) { return *revision_of(verdict(id, number, f)); }

inline Run run_named(const std::string& id) { return {.id = id, .version = "0", .host = "node1", .pid = 1, .started_ms = start_ms}; }

}  // namespace ccld::test
