#include "decision/locate/host_or_gpu.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

TEST_CASE("A late rank of which nobody else says anything else is what its communicator says") {
  const Component component = GENERATE(Component::process, Component::gpu);
  const LateWord own{component, 0.1, 0.3};
  CHECK(host_or_gpu(own, {}) == component);
  CHECK(host_or_gpu(own, {{component, 0.9, 0.3}}) == component);
}

TEST_CASE("A host that launches late where another communicator saw its GPU busy waits for its GPU") {
  const LateWord own{Component::process, 0.08, 0.3};
  CHECK(host_or_gpu(own, {{Component::gpu, 1, 0.3}}) == Component::gpu);
  // Where the GPU was busy for an instant it is not the cause.
  CHECK(host_or_gpu(own, {{Component::gpu, 0.2, 0.3}}) == Component::process);
  // Nor where hardly anything is lost by it.
  CHECK(host_or_gpu(own, {{Component::gpu, 1, 0.03}}) == Component::process);
}

TEST_CASE("A GPU that is busy for an instant after its host was late everywhere is a late host") {
  const LateWord own{Component::gpu, 0.07, 0.22};
  CHECK(host_or_gpu(own, {{Component::process, 0, 0.2}, {Component::process, 0, 0.15}}) == Component::process);
  CHECK(host_or_gpu({Component::gpu, 0.3, 0.22}, {{Component::process, 0, 0.2}}) == Component::gpu);
}

}  // namespace ccld::decision
