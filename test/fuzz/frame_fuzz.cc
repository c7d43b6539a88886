// A frame as `ccld frames` reports it, and as the probe of a sibling reads it.
#include <cstdint>
#include <string>

#include "decision/cli/frames_report.h"
#include "nlohmann/json.hpp"
#include "probe/agent/last_operations.h"
#include "test/fuzz/patches.h"
#include "test/fuzz/require.h"
#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::decision {
namespace {

// A rank in its second operation, on two channels.
test::SyntheticFrame& working_rank() {
  static test::SyntheticFrame& frame = *[] {
    auto* const f = new test::SyntheticFrame(2);
    f->plan(f->enter(), 1, 3);
    f->plan(f->enter(), 2, 3);
    return f;
  }();
  return frame;
}

void show(const fuzz::PatchedFile& file) {
  std::string error;
  const auto view = abi::FrameView::open(file.memory.get(), file.bytes, &error);
  if (!view) {
    FUZZ_REQUIRE(!error.empty());
    return;
  }
  (void)probe::last_operations(*view);
  static const LocalProcesses nobody("/nonexistent");
  const frames::Look look = frames::look_at(*view);
  for (const bool all : {false, true}) {
    const std::vector<frames::FrameReport> reports = {
        frames::report_frame(nobody, "/dev/shm/a.frame", *view, look, all)};
    FUZZ_REQUIRE(fuzz::is_harmless(frames::to_text(reports)));
    FUZZ_REQUIRE(nlohmann::json::accept(frames::to_json(reports, {}, true)));
  }
}

}  // namespace
}  // namespace ccld::decision

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ccld::fuzz::ByteReader input(data, size);
  auto& frame = ccld::decision::working_rank();
  ccld::decision::show(ccld::fuzz::patched(frame.memory(), frame.bytes(), input));
  return 0;
}
