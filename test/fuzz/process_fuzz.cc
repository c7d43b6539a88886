// A process file as `ccld frames` reports it.
#include <cstdint>
#include <string>

#include "decision/cli/frames_report.h"
#include "nlohmann/json.hpp"
#include "test/fuzz/patches.h"
#include "test/fuzz/require.h"
#include "test/unit/frames_command/process_file.h"

namespace ccld::decision {
namespace {

void show(const fuzz::PatchedFile& file) {
  std::string error;
  const auto view = abi::ProcessView::open(file.memory.get(), file.bytes, &error);
  if (!view) {
    FUZZ_REQUIRE(!error.empty());
    return;
  }
  static const LocalProcesses nobody("/nonexistent");
  const frames::ProcessLook look = frames::look_at(*view);
  for (const bool all : {false, true}) {
    const std::vector<frames::ProcessReport> reports = {
        frames::report_process(nobody, "/dev/shm/a.process", *view, look, all)};
    FUZZ_REQUIRE(fuzz::is_harmless(frames::to_text(reports)));
    FUZZ_REQUIRE(nlohmann::json::accept(frames::to_json({}, reports, true)));
  }
}

}  // namespace
}  // namespace ccld::decision

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ccld::fuzz::ByteReader input(data, size);
  static ccld::test::SyntheticProcessFile& whole = *new ccld::test::SyntheticProcessFile;
  ccld::decision::show(ccld::fuzz::patched(whole.memory(), whole.bytes(), input));
  return 0;
}
