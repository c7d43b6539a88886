// Scenarios that need a process of their own: because they die, or because the CPU device reads its settings once.
//
// SCENARIO_PROCESS(name) { ... } defines one; run_scenario("name", {...}) runs it in a fresh process of this program
// and returns how it ended and what it said on stderr. A scenario fails by returning non-zero.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ccld::cpu_device {

struct ScenarioResult {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string errors;  // stderr

  bool says(const std::string& text) const { return errors.find(text) != std::string::npos; }
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// `argument` reaches the scenario as scenario_argument().
ScenarioResult run_scenario(const std::string& name, const Environment& environment = {},
                            const std::string& argument = "");

using ScenarioFunction = int (*)();
struct ScenarioRegistration {
  ScenarioRegistration(const char* name, ScenarioFunction function);
};

const std::string& scenario_argument();

// For main(): runs the scenario named on the command line, if there is one; returns whether there was.
bool run_requested_scenario(int argc, char** argv, int* exit_code);

}  // namespace ccld::cpu_device

#define SCENARIO_PROCESS(name)                                                                       \
  static int scenario_##name();                                                                      \
  static const ::ccld::cpu_device::ScenarioRegistration registration_##name{#name, scenario_##name}; \
  static int scenario_##name()
