#include "nccl/cpu_device/control/control_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <string>

#include "nccl/cpu_device/base/clock.h"
#include "nccl/cpu_device/control/faults.h"
#include "test/unit/cpu_device/launch.h"
#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

namespace {

class TemporaryFile {
 public:
  TemporaryFile() : path_("/tmp/ccld-control-test-" + std::to_string(getpid())) {}
  ~TemporaryFile() {
    remove();
    set_faults({});
  }
  void write(const std::string& text) { std::ofstream(path_) << text; }
  void remove() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("A text takes effect once two readings agree on it", "[control]") {
  TemporaryFile file;
  ControlFile control(file.path());
  control.apply_now();
  REQUIRE_FALSE(faults_planted);
  file.write("clock_slowdown 2\n");
  control.poll();
  REQUIRE_FALSE(faults_planted);
  control.poll();
  REQUIRE(clock_slowdown() == 2.0);
  file.write("");  // caught in the middle of being rewritten
  control.poll();
  REQUIRE(clock_slowdown() == 2.0);
  file.write("clock_slowdown 3\n");
  control.poll();
  control.poll();
  REQUIRE(clock_slowdown() == 3.0);
  file.remove();
  control.poll();
  control.poll();
  REQUIRE_FALSE(faults_planted);
}

// The argument is the control file. Shows what the real thread does: a kernel that would never end is frozen, thawed
// and told to end by the file alone.
SCENARIO_PROCESS(obey_control_file) {
  const auto write = [](const char* text) {
    const std::string temporary = scenario_argument() + ".new";
    std::ofstream(temporary) << text;
    rename(temporary.c_str(), scenario_argument().c_str());
  };
  std::atomic<long> progress{0};
  std::atomic<bool> stop{false};
  write("freeze_block 0\nfreeze everything\n");
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  const KernelBody body = [&] {
    while (!stop) {
      ++progress;
      poll_yield();
    }
  };
  launch(stream, 1, 1, &body);
  sleep_ns(50'000'000);
  if (progress != 0) return 10;  // in force from the start
  write("# thawed\n");
  while (progress < 1000) sleep_ns(1'000'000);
  write("freeze_device\n");
  long before;
  do {
    before = progress;
    sleep_ns(50'000'000);
  } while (progress != before);
  stop = true;
  write("");
  return cudaStreamSynchronize(stream) == cudaSuccess ? 0 : 11;
}

TEST_CASE("A process obeys its control file while it runs and reports a bad line once", "[control]") {
  TemporaryFile file;
  const ScenarioResult result =
      run_scenario("obey_control_file", {{"CCLD_CPU_DEVICE_CONTROL", file.path()}}, file.path());
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.says("control file " + file.path() + ": line 2 \"freeze everything\": unknown command"));
  REQUIRE(result.errors.find("unknown command") == result.errors.rfind("unknown command"));
}

SCENARIO_PROCESS(count_threads_of_the_device) {
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaStreamSynchronize(stream);
  int threads = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "Threads:") status >> threads;
  }
  return threads;
}

TEST_CASE("Without a control file there is no thread for it", "[control]") {
  REQUIRE(run_scenario("count_threads_of_the_device").exit_code == 1);
  TemporaryFile file;
  REQUIRE(run_scenario("count_threads_of_the_device", {{"CCLD_CPU_DEVICE_CONTROL", file.path()}}).exit_code == 2);
}
