// A trace as Perfetto's protobuf (https://perfetto.dev/docs/reference/trace-packet-proto): the few messages that a trace of
// rows needs, by their published field numbers, which never change.
//
// Contract: bytes go to `put` packet by packet; nothing is held but the names that were used (names_max). Text must be
// UTF-8. Errors: none here; `put` keeps its own. Threads: one.
#pragma once

#include <functional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "decision/trace/events.h"

namespace ccld::decision::trace {

using Put = std::function<void(absl::string_view bytes)>;

class PerfettoWriter final : public Writer {
 public:
  explicit PerfettoWriter(Put put) : put_(std::move(put)) {}
  void group(const Group&) override;
  void row(const Row&) override;
  void slice(const Slice&) override;
  void instant(const Instant&) override;
  void counter(const Row&, Nanoseconds at_ns, double value) override;
  void arrow(uint64_t, absl::Span<const ArrowPoint>) override {}
  void finish() override {}

 private:
  // Text that packets refer to by number, told once.
  struct Names {
    uint32_t field;  // of InternedData
    absl::flat_hash_map<std::string, uint64_t> numbers;
  };
  uint64_t number_of(Names&, absl::string_view text);
  std::string named(absl::string_view name, const char* category, const Args&);
  void packet(Nanoseconds at_ns, const std::string& event);
  void descriptor(const std::string& track);

  Put put_;
  bool begun_ = false;
  std::string new_names_;  // InternedData of the next packet
  Names categories_{1, {}}, events_{2, {}}, args_{3, {}};
};

}  // namespace ccld::decision::trace
