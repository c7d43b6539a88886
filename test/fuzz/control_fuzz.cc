// What a service answers to a probe: decoded and judged, as the diagnostic thread does it.
#include <cstdint>
#include <cstdlib>

#include "probe/control/control.h"
#include "schemas/abi/validation_library.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::probe;
  ServiceWord word;
  if (!decode_control_request(data, size, &word)) return 0;
  if (int{word.wish.has_value()} + word.acknowledgement.has_value() + word.validation.has_value() > 1) std::abort();
  if (word.validation && (word.validation->comm_uid == 0 || word.validation->meet.empty() ||
                          word.validation->hold_ms == 0 || word.validation->hold_ms > ccld::abi::hold_ms_max))
    std::abort();
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
