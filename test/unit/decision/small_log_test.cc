#include "decision/model/small_log.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

TEST_CASE("A byte keeps small numbers exactly and large ones to within one part in sixteen") {
  using Log = SmallLog<3>;
  for (uint64_t n = 0; n < 8; ++n) CHECK(Log::decode(Log::encode(n)) == n);
  for (uint64_t n = 8; n < uint64_t{1} << 33; n = n * 5 / 4 + 1) {
    const auto back = static_cast<double>(Log::decode(Log::encode(n)));
    CHECK(back == Approx(static_cast<double>(n)).epsilon(1.0 / 16));
  }
}

TEST_CASE("Codes rise with the numbers, and none of them is the one for not known") {
  using Log = SmallLog<4>;
  uint8_t before = 0;
  for (uint64_t n = 0; n < 1'000'000; n = n * 9 / 8 + 1) {
    CHECK(Log::encode(n) >= before);
    before = Log::encode(n);
  }
  CHECK(Log::encode(UINT64_MAX) == Log::largest);
  CHECK(Log::largest != Log::none);
}

}  // namespace ccld::decision
