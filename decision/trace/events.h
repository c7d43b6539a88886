// What a trace consists of, whatever its format: rows in groups, and on them slices, instants, counters and arrows.
//
// Contract: plain values. Nanoseconds since the trace's zero, not negative; slices have begin <= end. A group and a row are
// described before the first event on them. Events may come in any order of time: both viewers sort.
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "decision/model/types.h"

namespace ccld::decision::trace {

struct Arg {
  const char* name;
  std::variant<int64_t, uint64_t, double, std::string> value;
};
using Args = std::vector<Arg>;

// A collapsible group of rows: what both viewers call a process.
struct Group {
  uint32_t id = 0;     // also its number in the viewer; not 0, which viewers keep for themselves
  std::string name;    // "rank 5"
  std::string labels;  // "node1, GPU 5, pid 4711"
  int32_t order = 0;
};

struct Row {
  uint32_t id = 0;  // from 1, unique in the trace
  uint32_t group = 0;
  std::string name;
  int32_t order = 0;
  bool counter = false;
};

struct Slice {
  const Row* row = nullptr;
  Nanoseconds begin_ns = 0, end_ns = 0;
  std::string name;
  const char* category = "";
  Args args;
  std::vector<uint64_t> arrows;  // that come or go here
};

struct Instant {
  const Row* row = nullptr;
  Nanoseconds at_ns = 0;
  std::string name;
  const char* category = "";
  Args args;
  std::vector<uint64_t> arrows;  // that end here
};

// Where an arrow begins, passes or ends: an instant of a slice.
struct ArrowPoint {
  const Row* row = nullptr;
  Nanoseconds at_ns = 0;
};

class Writer {
 public:
  virtual ~Writer() = default;
  virtual void group(const Group&) = 0;
  virtual void row(const Row&) = 0;
  virtual void slice(const Slice&) = 0;
  virtual void instant(const Instant&) = 0;
  virtual void counter(const Row&, Nanoseconds at_ns, double value) = 0;
  // All points of an arrow, in the order in which it passes them. Perfetto's format has arrows with the slices instead.
  virtual void arrow(uint64_t id, absl::Span<const ArrowPoint>) = 0;
  virtual void finish() = 0;
};

}  // namespace ccld::decision::trace
