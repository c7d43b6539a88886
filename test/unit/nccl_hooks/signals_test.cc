#include "nccl/hooks/signals.h"

#include <catch2/catch.hpp>

namespace ccld::hooks {
namespace {

constexpr uint8_t times = abi::signal_times;
constexpr uint8_t everything = abi::signal_times | abi::signal_steps | abi::signal_waits;

TEST_CASE("Kernels whose primitives count promise times, steps and waits") {
  for (abi::Algorithm algorithm :
       {abi::Algorithm::ring, abi::Algorithm::tree, abi::Algorithm::pat, abi::Algorithm::collnet_direct,
        abi::Algorithm::collnet_chain, abi::Algorithm::nvls, abi::Algorithm::nvls_tree})
    CHECK(signals_of_collective(algorithm, false, false) == everything);
}

TEST_CASE("Proxies are promised only to kernels that have work for them") {
  CHECK(signals_of_collective(abi::Algorithm::ring, false, true) == (everything | abi::signal_proxy));
  CHECK(signals_of_point_to_point(false, true) == (everything | abi::signal_proxy));
  CHECK(signals_of_point_to_point(false, false) == everything);
}

TEST_CASE("Steps that the network device does alone are not promised where nothing counts them") {
  for (abi::Algorithm algorithm :
       {abi::Algorithm::collnet_direct, abi::Algorithm::collnet_chain, abi::Algorithm::nvls, abi::Algorithm::nvls_tree})
    CHECK(signals_of_collective(algorithm, true, true) == (times | abi::signal_proxy));
  // A ring's primitives count also what they only hand over.
  CHECK(signals_of_collective(abi::Algorithm::ring, true, false) == everything);
}

TEST_CASE("A copy to itself and an algorithm that nobody has looked at promise times only") {
  CHECK(signals_of_point_to_point(true, true) == times);
  CHECK(signals_of_collective(abi::Algorithm::unknown, false, false) == times);
}

TEST_CASE("Nothing is promised of symmetric kernels and copies unless the user asks the stream for it") {
  for (bool captured : {false, true})
    for (bool can_write : {false, true}) CHECK(signals_of_stream(false, captured, can_write) == 0);
  CHECK(signals_of_stream(true, false, true) == abi::signal_stream);
  CHECK(signals_of_stream(true, true, true) == 0);
  CHECK(signals_of_stream(true, false, false) == 0);
}

}  // namespace
}  // namespace ccld::hooks
