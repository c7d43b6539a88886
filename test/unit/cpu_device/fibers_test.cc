#include "nccl/cpu_device/engine/fibers.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>

#include "test/unit/cpu_device/launch.h"
#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

namespace {

void* test_context;
void* fiber_context;
int steps;

void two_steps() {
  steps = 1;
  ccld_cpu_device_switch(&fiber_context, test_context);
  steps = 2;
  ccld_cpu_device_switch(&fiber_context, test_context);
}

int recurse(int depth) {
  volatile char frame[1024];
  memset(const_cast<char*>(frame), depth, sizeof frame);
  return depth == 0 ? frame[5] : recurse(depth - 1) + frame[7];
}

}  // namespace

TEST_CASE("A fiber runs on its own stack and continues where it left", "[engine]") {
  StackPool stacks(64 << 10);
  stacks.reserve(1);
  steps = 0;
  ccld_cpu_device_switch(&test_context, prepare_context(stacks.end_of(0), two_steps));
  REQUIRE(steps == 1);
  ccld_cpu_device_switch(&test_context, fiber_context);
  REQUIRE(steps == 2);
}

TEST_CASE("Growing a stack pool keeps the stacks it had", "[engine]") {
  StackPool stacks(64 << 10);
  stacks.reserve(3);
  char* third = stacks.end_of(2);
  third[-1] = 'x';
  stacks.reserve(500);
  REQUIRE(stacks.end_of(2) == third);
  REQUIRE(third[-1] == 'x');
  REQUIRE(stacks.end_of(499) != nullptr);
}

TEST_CASE("A CUDA thread has room for deep calls", "[engine]") {
  int result = 0;
  run(1, 64, [&] { result = recurse(150); });
  REQUIRE(result != -1);
}

SCENARIO_PROCESS(stack_overflow) {
  run(1, 64, [] {
    if (thread_index() == 9) recurse(1000);
  });
  return 0;
}

TEST_CASE("A stack overflow ends the process instead of corrupting a neighbour", "[engine]") {
  REQUIRE(run_scenario("stack_overflow").signal == SIGSEGV);
}
