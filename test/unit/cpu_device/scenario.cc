#include "test/unit/cpu_device/scenario.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

extern char** environ;

namespace ccld::cpu_device {
namespace {

constexpr const char* flag = "--scenario";

std::map<std::string, ScenarioFunction>& scenarios() {
  static std::map<std::string, ScenarioFunction> all;
  return all;
}

std::string& argument_text() {
  static std::string text;
  return text;
}

std::vector<std::string> merged_environment(const Environment& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // The device's settings come from the scenario alone.
    if (strncmp(*entry, "CCLD_CPU_DEVICE_", 16) != 0 && strncmp(*entry, "CUDA_VISIBLE_DEVICES=", 21) != 0) {
      result.push_back(*entry);
    }
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

std::string read_all(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t length; (length = read(file, buffer, sizeof buffer)) > 0;) text.append(buffer, length);
  return text;
}

}  // namespace

ScenarioRegistration::ScenarioRegistration(const char* name, ScenarioFunction function) {
  scenarios()[name] = function;
}

const std::string& scenario_argument() { return argument_text(); }

ScenarioResult run_scenario(const std::string& name, const Environment& environment, const std::string& argument) {
  int errors[2];
  if (pipe2(errors, O_CLOEXEC) != 0) abort();
  const std::vector<std::string> texts = merged_environment(environment);
  std::vector<char*> variables;
  for (const std::string& text : texts) variables.push_back(const_cast<char*>(text.c_str()));
  variables.push_back(nullptr);
  char* arguments[] = {const_cast<char*>("scenario"), const_cast<char*>(flag), const_cast<char*>(name.c_str()),
                       const_cast<char*>(argument.c_str()), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  pid_t child;
  if (posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, variables.data()) != 0) abort();
  posix_spawn_file_actions_destroy(&actions);
  close(errors[1]);
  ScenarioResult result;
  result.errors = read_all(errors[0]);
  close(errors[0]);
  int status;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

bool run_requested_scenario(int argc, char** argv, int* exit_code) {
  if (argc != 4 || strcmp(argv[1], flag) != 0) return false;
  const auto found = scenarios().find(argv[2]);
  if (found == scenarios().end()) {
    fprintf(stderr, "no scenario %s\n", argv[2]);
    *exit_code = 3;
    return true;
  }
  argument_text() = argv[3];
  alarm(120);  // a scenario that hangs fails
  *exit_code = found->second();
  return true;
}

}  // namespace ccld::cpu_device
