#include "probe/process/process_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "probe/agent/sources.h"
#include "probe/counters/log.h"
#include "probe/frames/frame_file.h"
#include "probe/probe.h"
#include "schemas/abi/process_build.h"
#include "schemas/build_id/build_id.h"
#include "test/unit/frames/temporary_folder.h"

namespace {
bool is_child = false;
}

#ifdef __SANITIZE_ADDRESS__
// At the end of a forked process the leak checker would wait for ever for the allocator's locks, if another thread of its
// parent held them when it forked. Children of a program with threads are checked by nobody, their parents are.
extern "C" int __lsan_is_turned_off() { return is_child; }
#endif

namespace ccld::probe {
namespace {

using abi::MetricId;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Runs `body` in a child process; returns whether it ended by itself with status 0. exit() in the body runs handlers.
template <class Body>
bool succeeds_in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    is_child = true;
    exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("A process file says whose it is and where its parts are") {
  TemporaryFolder folder;
  std::string error;
  ProcessFile* file = process_file_create({folder.path(), "job 7", "node-3"}, &error);
  REQUIRE(file != nullptr);
  CHECK(error.empty());
  const std::string name = abi::process_file_name(process_identity().name);
  CHECK(folder.file_names() == std::vector<std::string>{name});
  const std::string bytes = bytes_of(file->path);
  REQUIRE(bytes.size() == abi::process_file_bytes_with_build());
  abi::ProcessIdentityPart identity;
  memcpy(&identity, bytes.data(), sizeof(identity));
  CHECK(identity.magic == abi::process_magic);
  CHECK(identity.end_marker == abi::process_magic);
  CHECK(identity.abi_major == abi::process_abi_major);
  CHECK(identity.file_bytes == bytes.size());
  CHECK(identity.pid == static_cast<uint32_t>(getpid()));
  CHECK(identity.pid_namespace == abi::pid_namespace_of("/proc", "self"));
  CHECK(identity.pid_start_ticks == process_start_ticks(identity.pid));
  CHECK(identity.metrics_offset == sizeof(abi::ProcessHeader));
  CHECK(identity.inits_offset == identity.metrics_offset + abi::metrics_max * sizeof(uint64_t));
  CHECK(identity.nets_offset + abi::nets_max * identity.nets_stride == abi::process_file_bytes());
  const abi::ProcessBuild build = abi::process_build(bytes.data(), identity);
  CHECK(std::string(build.release) == release_version());
  CHECK(std::string(build.build_id) == build_id());
  CHECK(std::string(identity.host) == "node-3");
  CHECK(std::string(identity.job) == "job 7");
  for (size_t i = sizeof(identity); i < abi::process_file_bytes(); ++i) {
    if (bytes[i] != 0) FAIL("byte " << i << " is not zero");
  }
  struct stat status {};
  REQUIRE(stat(file->path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  process_file_unlink(*file);
  CHECK(folder.file_names().empty());
  metric_set(file, MetricId::agent_samples, 1);  // the memory outlives the name
  process_file_release(file);
}

TEST_CASE("Without room for the file counting goes on in memory, and the error names the file") {
  std::string error;
  ProcessFile* file = process_file_create({"/proc/no such folder", "job", "host"}, &error);
  REQUIRE(file != nullptr);
  CHECK(file->path.empty());
  CHECK(error.find("/proc/no such folder/") != std::string::npos);
  metric_add(file, MetricId::net_records_dropped, 2);
  CHECK(metric_get(file, MetricId::net_records_dropped) == 2);
  CHECK(metric_get(file, MetricId::gpu_sm_clock_mhz) == 0);  // has no word
  process_file_release(file);

  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&path] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::string no_room;
    const ProcessFile* full = process_file_create({path, "job", "host"}, &no_room);
    return full != nullptr && full->path.empty() && no_room.find("bytes for") != std::string::npos;
  }));
  CHECK(folder.file_names().empty());
}

TEST_CASE("A new program image removes what the one before it left, and nothing of others") {
  TemporaryFolder folder;
  std::string error;
  ProcessFile* before = process_file_create({folder.path(), "job", "host"}, &error);
  CommSetup setup{};
  setup.rank_count = 2;
  setup.channel_count = 1;
  Comm* frame = frame_create({folder.path(), "job"}, setup, &error);
  Comm* ended = frame_create({folder.path(), "job"}, setup, &error);
  REQUIRE((before != nullptr && frame != nullptr && ended != nullptr));
  frame_hide(*ended);
  const abi::ProcessName own = process_identity().name;
  // Of another process, of one of another container with our id, and what only has the name of one of ours.
  std::string bytes = bytes_of(before->path);
  auto* identity = reinterpret_cast<abi::ProcessIdentityPart*>(bytes.data());
  for (const abi::ProcessName& other :
       {abi::ProcessName{own.pid + 1, own.pid_namespace}, abi::ProcessName{own.pid, own.pid_namespace + 1}}) {
    identity->pid = other.pid;
    identity->pid_namespace = other.pid_namespace;
    std::ofstream(folder.path() + "/" + abi::process_file_name(other), std::ios::binary) << bytes;
  }
  std::ofstream(folder.path() + "/" + abi::frame_file_name(own, 4000)) << "no frame at all";
  CHECK(remove_files_of_previous_image(folder.path()) == 3);
  CHECK(folder.file_names().size() == 3);
  comm_release(ended);
  process_file_release(before);
  comm_release(frame);
}

TEST_CASE("The file of the process appears with the first initialization, and goes with the process") {
  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&path] {
    setenv("NCCL_PROBE_FRAMES_DIR", path.c_str(), 1);
    unsetenv("NCCL_PROBE_ENABLE");
    if (init_entered(77, 1, 4, 0) != 1) return false;
    const std::string bytes = bytes_of(path + "/" + abi::process_file_name(process_identity().name));
    return bytes.size() == abi::process_file_bytes_with_build();
  }));
  CHECK(folder.file_names().empty());
}

TEST_CASE("A forked child neither writes nor removes its parent's files") {
  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&path] {
    setenv("NCCL_PROBE_FRAMES_DIR", path.c_str(), 1);
    unsetenv("NCCL_PROBE_ENABLE");
    const uint64_t initialization = init_entered(77, 1, 4, 0);
    const std::string file = path + "/" + abi::process_file_name(process_identity().name);
    const bool child_is_quiet = succeeds_in_child([&] {
      init_reached(initialization, abi::InitStage::failed, 3, 0);
      comm_unwatched();
      return process_file() == nullptr && init_entered(78, 0, 2, 0) == 0 &&
             net_queue(abi::NetKind::socket, 1, 0, 0, "eth0") == nullptr;
    });
    const bool still_there = access(file.c_str(), F_OK) == 0;
    return child_is_quiet && still_there && process_file()->inits[initialization % abi::inits_max].stage == 1 &&
           metric_get(process_file(), MetricId::agent_comms_unwatched) == 0;
  }));
  CHECK(folder.file_names().empty());
}

TEST_CASE("A program that replaces itself leaves nothing of its earlier image") {
  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&] {
    // Twice: this process has cached its parent's identity.
    setenv("NCCL_PROBE_FRAMES_DIR", path.c_str(), 1);
    unsetenv("NCCL_PROBE_ENABLE");
    setenv("CCLD_TEST_IMAGE", "first", 1);
    execl("/proc/self/exe", "process_test", "An image that is replaced", nullptr);
    return false;
  }));
  CHECK(folder.file_names().empty());
}

TEST_CASE("An image that is replaced", "[.]") {
  const char* image = getenv("CCLD_TEST_IMAGE");
  REQUIRE(image != nullptr);
  const std::string path = getenv("NCCL_PROBE_FRAMES_DIR");
  const auto files = [&path] {
    const std::filesystem::directory_iterator listing(path);
    return std::distance(begin(listing), end(listing));
  };
  REQUIRE(init_entered(1, 0, 2, 0) != 0);
  CommSetup setup{};
  setup.rank_count = 2;
  setup.channel_count = 1;
  if (std::string(image) == "first") {
    for (int i = 0; i < 3; ++i) REQUIRE(comm_create(setup) != nullptr);
    CHECK(files() == 4);
    setenv("CCLD_TEST_IMAGE", "second", 1);
    execl("/proc/self/exe", "process_test", "An image that is replaced", nullptr);
    FAIL("no exec");
  }
  CHECK(files() == 1);  // its own process file
}

TEST_CASE("A disabled probe makes no process file") {
  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&path] {
    setenv("NCCL_PROBE_FRAMES_DIR", path.c_str(), 1);
    setenv("NCCL_PROBE_ENABLE", "0", 1);
    return init_entered(77, 1, 4, 0) == 0 && process_file() == nullptr && process_board() == nullptr;
  }));
  CHECK(folder.file_names().empty());
}

TEST_CASE("A communicator that gets no frame is counted") {
  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&path] {
    setenv("NCCL_PROBE_FRAMES_DIR", path.c_str(), 1);
    unsetenv("NCCL_PROBE_ENABLE");
    CommSetup setup{};
    setup.rank_count = 2;
    setup.channel_count = abi::channels_max + 1;
    const bool none = comm_create(setup) == nullptr && comm_create(setup) == nullptr;
    return none && metric_get(process_file(), MetricId::agent_comms_unwatched) == 2;
  }));
}

TEST_CASE("A wish of an operator is read once it is whole, and the answer shows the newest sequence last") {
  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&path] {
    setenv("NCCL_PROBE_FRAMES_DIR", path.c_str(), 1);
    unsetenv("NCCL_PROBE_ENABLE");
    ProcessBoard* board = process_board();
    if (board == nullptr) return false;
    abi::ControlLine& line = process_file()->header->control;
    ControlWish wish;
    if (board->read_control(0, &wish)) return false;  // nobody wished anything
    line.sequence = 1;
    line.fields = abi::control_sample_us | abi::control_endpoint;
    line.sample_us = 500;
    strcpy(line.endpoint, "tcp://h:1");
    if (board->read_control(0, &wish)) return false;  // it is being written
    line.sequence = 2;
    if (!board->read_control(0, &wish)) return false;
    if (wish.sequence != 2 || wish.sample_us != 500 || wish.endpoint != "tcp://h:1") return false;
    if (board->read_control(2, &wish)) return false;  // seen
    ControlInForce state;
    state.applied_sequence = 2;
    state.sample_us = 500;
    board->show_control(state);
    const abi::ControlStateLine& shown = process_file()->header->control_state;
    return shown.applied_sequence == 2 && shown.sample_us == 500 && shown.running == 1;
  }));
}

}  // namespace
}  // namespace ccld::probe
