#include "decision/cli/tune_local.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <thread>

#include "schemas/abi/file_names.h"
#include "test/unit/frames_command/process_file.h"

namespace ccld::decision {

namespace {

struct Folder {
  Folder() {
    char text[] = "/tmp/ccld-tune-XXXXXX";
    path = mkdtemp(text);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

// That of this process.
std::string file_name() {
  return abi::process_file_name({static_cast<uint32_t>(getpid()), abi::pid_namespace_of("/proc", "self")});
}

// The process of the test with a probe: a thread that does what an agent does with the control line.
class Probe {
 public:
  explicit Probe(const Folder& folder, uint32_t refuses = 0)
      : path(folder.path + "/" + file_name()) {
    test::SyntheticProcessFile file;
    file.header().identity.pid = static_cast<uint32_t>(getpid());
    file.write(path);
    const int fd = open(path.c_str(), O_RDWR);
    header_ = static_cast<abi::ProcessHeader*>(mmap(nullptr, file.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    agent_ = std::thread([this, refuses] {
      while (!over_) {
        abi::ControlLine& line = header_->control;
        abi::ControlStateLine& state = header_->control_state;
        const uint64_t sequence = __atomic_load_n(&line.sequence, __ATOMIC_ACQUIRE);
        if (sequence % 2 == 0 && sequence > state.applied_sequence) {
          if ((line.fields & abi::control_running) != 0) state.running = line.running;
          if ((line.fields & abi::control_sample_us) != 0 && (refuses & abi::control_sample_us) == 0)
            state.sample_us = line.sample_us;
          if ((line.fields & abi::control_endpoint) != 0)
            std::memcpy(state.endpoint, line.endpoint, sizeof state.endpoint);
          state.refused_fields = line.fields & refuses;
          __atomic_store_n(&state.applied_sequence, sequence, __ATOMIC_RELEASE);
        }
        std::this_thread::yield();
      }
    });
  }
  ~Probe() {
    over_ = true;
    agent_.join();
    munmap(header_, test::SyntheticProcessFile::bytes());
  }
  abi::ProcessHeader& header() { return *header_; }
  const std::string path;

 private:
  abi::ProcessHeader* header_;
  std::atomic<bool> over_{false};
  std::thread agent_;
};

TuneLocal request(const Folder& folder, std::vector<std::string> wishes) {
  TuneLocal r;
  r.dir = folder.path;
  r.pid = static_cast<uint32_t>(getpid());
  for (const std::string& wish : wishes) REQUIRE(set_wish(r.wishes, wish).ok());
  return r;
}

}  // namespace

TEST_CASE("A process on this machine is tuned through its control line and says what is in force") {
  const Folder folder;
  Probe probe(folder);
  const auto first = tune_process(request(folder, {"sample_us=500", "endpoint=tcp://127.0.0.1:1"}));
  REQUIRE(first.ok());
  CHECK(first->sample_us == 500);
  CHECK(first->running == 1);
  CHECK(first->refused_fields == 0);
  CHECK(std::string(first->endpoint) == "tcp://127.0.0.1:1");
  CHECK(probe.header().control.sequence % 2 == 0);
  const auto second = tune_process(request(folder, {"running=0"}));
  REQUIRE(second.ok());
  CHECK(second->running == 0);
  CHECK(second->sample_us == 500);
}

TEST_CASE("What the probe refuses is told") {
  const Folder folder;
  Probe probe(folder, abi::control_sample_us);
  const auto state = tune_process(request(folder, {"running=0", "sample_us=500"}));
  REQUIRE(state.ok());
  CHECK(state->refused_fields == abi::control_sample_us);
  CHECK(state->sample_us == 1000);
  CHECK(state->running == 0);
}

TEST_CASE("A writer that died within a request does not block the next one") {
  const Folder folder;
  Probe probe(folder);
  __atomic_store_n(&probe.header().control.sequence, 5, __ATOMIC_RELEASE);
  const auto state = tune_process(request(folder, {"sample_us=700"}));
  REQUIRE(state.ok());
  CHECK(state->sample_us == 700);
  CHECK(state->applied_sequence == 6);
}

TEST_CASE("A process without a probe, another version, a lock and a probe that does not answer are one line each") {
  const Folder folder;
  const auto error = [](const TuneLocal& r) {
    const auto state = tune_process(r);
    REQUIRE_FALSE(state.ok());
    return std::string(state.status().message());
  };
  TuneLocal r = request(folder, {"sample_us=500"});
  r.timeout = std::chrono::milliseconds(20);
  CHECK(error(r).find("has no probe") != std::string::npos);

  test::SyntheticProcessFile file;
  const std::string path = folder.path + "/" + file_name();
  file.write(path);
  CHECK(error(r).find("did not answer within 20 ms") != std::string::npos);
  const int fd = open(path.c_str(), O_RDWR);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  CHECK(error(r).find("somebody else holds its lock") != std::string::npos);
  close(fd);
  file.header().identity.abi_major = 9;
  file.write(path);
  CHECK(error(r).find("process file version 9.0, this program reads 1.x") != std::string::npos);
  std::filesystem::resize_file(path, 10);
  CHECK(error(r).find("truncated") != std::string::npos);
}

}  // namespace ccld::decision
