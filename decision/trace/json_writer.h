// A trace as Chrome's trace JSON (the "Trace Event Format"), which chrome://tracing and ui.perfetto.dev read.
//
// Contract: bytes go to `put` event by event; nothing is held. Whole and valid only after finish(). Times are microseconds
// with three decimals. Errors: none here; `put` keeps its own. Threads: one.
#pragma once

#include <string>

#include "decision/trace/perfetto_writer.h"

namespace ccld::decision::trace {

class JsonWriter final : public Writer {
 public:
  explicit JsonWriter(Put put) : put_(std::move(put)) {}
  void group(const Group&) override;
  void row(const Row&) override;
  void slice(const Slice&) override;
  void instant(const Instant&) override;
  void counter(const Row&, Nanoseconds at_ns, double value) override;
  void arrow(uint64_t id, absl::Span<const ArrowPoint>) override;
  void finish() override;

 private:
  void event(const std::string& members);
  void describe(const char* what, uint32_t group, uint32_t row, const std::string& args);

  Put put_;
  bool begun_ = false;
};

}  // namespace ccld::decision::trace
