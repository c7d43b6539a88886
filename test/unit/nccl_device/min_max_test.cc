#include <catch2/catch.hpp>
#include <type_traits>

namespace {

TEST_CASE("min and max of one type compare as that type") {
  CHECK(::min(-1, 2) == -1);
  CHECK(::max(-1L, 2L) == 2L);
  CHECK(::min(1.5f, -2.5f) == -2.5f);
  CHECK(::max(3ull, 4ull) == 4ull);
}

TEST_CASE("a signed and an unsigned operand compare as unsigned, as in CUDA") {
  CHECK(::min(-1, 2u) == 2u);
  CHECK(::max(2u, -1) == 0xffffffffu);
  static_assert(std::is_same_v<decltype(::min(1L, 1UL)), unsigned long>);
}

TEST_CASE("float and double compare as double") { static_assert(std::is_same_v<decltype(::max(1.0f, 2.0)), double>); }

}  // namespace
