// What a service answers to a probe: decoded and judged, as the diagnostic thread does it.
#include <cstdint>
#include <cstdlib>

#include "probe/control/control.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::probe;
  ServiceWord word;
  if (!decode_control_request(data, size, &word)) return 0;
  if (word.wish && word.acknowledgement) std::abort();  // at most one
  if (!word.wish) return 0;
  ControlInForce now;
  now.sample_us = 1000;
  now.budget_ppm = 3000;
  const ControlInForce then = judge_wish(now, *word.wish);
  // What is refused stays as it was, and what is taken is what a probe can do.
  if (then.sample_us < 100 || then.sample_us > 1'000'000) std::abort();
  if (then.budget_ppm > 1'000'000) std::abort();
  return 0;
}
