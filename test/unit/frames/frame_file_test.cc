#include "probe/frames/frame_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "probe/counters/log.h"
#include "probe/frames/comm.h"
#include "probe/frames/new_file.h"
#include "probe/probe.h"
#include "test/unit/frames/temporary_folder.h"

namespace ccld::probe {
namespace {

CommSetup small_setup() {
  CommSetup setup{};
  setup.rank = 3;
  setup.rank_count = 8;
  setup.cuda_device = 5;
  setup.channel_count = 2;
  setup.nccl_version = 22907;
  return setup;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A frame as an outside reader gets it: a copy of the file's bytes.
abi::FrameHeader header_in(const std::string& bytes) {
  abi::FrameHeader header;
  REQUIRE(bytes.size() >= sizeof(header));
  memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

// Runs `body` in a child process; returns whether it ended by itself with status 0.
template <class Body>
bool succeeds_in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("A new frame file says whose it is and where its parts are") {
  TemporaryFolder folder;
  std::string error;
  Comm* comm = frame_create({folder.path(), "job 7", false, "node3"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  CHECK(error.empty());
  CHECK(folder.file_names() ==
        std::vector<std::string>{abi::frame_file_name(process_identity().name, comm->number)});

  const std::string bytes = bytes_of(comm->path);
  CHECK(bytes.size() == abi::frame_bytes(2));
  CHECK(frame_size(comm) == bytes.size());
  const abi::FrameHeader header = header_in(bytes);
  const abi::FrameIdentity& identity = header.identity;
  CHECK(identity.magic == abi::frame_magic);
  CHECK(identity.end_marker == abi::frame_magic);
  CHECK(identity.abi_major == abi::frame_abi_major);
  CHECK(identity.file_bytes == bytes.size());
  CHECK(identity.channel_count == 2);
  CHECK(identity.ops_offset == sizeof(abi::FrameHeader));
  CHECK(identity.ops_stride == sizeof(abi::OpRecord));
  CHECK(identity.p2ps_offset == identity.ops_offset + abi::ops_max * identity.ops_stride);
  CHECK(identity.p2ps_stride == sizeof(abi::P2pRecord));
  CHECK(identity.proxies_offset == identity.p2ps_offset + abi::p2ps_max * identity.p2ps_stride);
  CHECK(identity.proxies_stride == sizeof(abi::ProxyRecord));
  CHECK(identity.proxy_times_offset == identity.proxies_offset + abi::proxies_max * identity.proxies_stride);
  CHECK(identity.proxy_times_stride == sizeof(abi::ProxyTimes));
  CHECK(identity.channels_offset == identity.proxy_times_offset + abi::proxies_max * identity.proxy_times_stride);
  CHECK(identity.channels_offset == device_channels_offset(comm));
  CHECK(identity.channels_offset + 2 * identity.channels_stride == bytes.size());
  CHECK(identity.channels_offset % alignof(abi::DeviceChannel) == 0);
  CHECK(identity.nccl_version == 22907);
  CHECK(identity.mode == (abi::mode_operations | abi::mode_steps | abi::mode_proxies));
  CHECK(identity.rank == 3);
  CHECK(identity.rank_count == 8);
  CHECK(identity.cuda_device == 5);
  CHECK(identity.comm_number == comm->number);
  CHECK(identity.pid == static_cast<uint32_t>(getpid()));
  CHECK(identity.pid_namespace == abi::pid_namespace_of("/proc", std::to_string(getpid())));
  CHECK(identity.pid_start_ticks == process_start_ticks(static_cast<uint32_t>(getpid())));
  CHECK(identity.comm_uid == 0);
  CHECK(std::string(identity.job) == "job 7");
  CHECK(std::string(identity.host) == "node3");  // a neighbour knows whose it is while the communicator is made
  CHECK(std::string(identity.boot_id).size() == 36);
  CHECK(header.state.state == static_cast<uint32_t>(abi::CommState::initializing));

  frame_unlink(*comm);
  comm_release(comm);
}

TEST_CASE("Only its user may read a frame, unless others are asked in, and nobody may write to it by name") {
  TemporaryFolder folder;
  std::string error;
  const mode_t before = umask(077);
  for (const bool shared : {false, true}) {
    FrameOptions options{folder.path(), "job"};
    options.shared = shared;
    Comm* comm = frame_create(options, small_setup(), &error);
    REQUIRE(comm != nullptr);
    struct stat status {};
    REQUIRE(stat(comm->path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == (shared ? 0444 : 0400));
    frame_unlink(*comm);
    comm_release(comm);
  }
  umask(before);
}

TEST_CASE("A frame whose file is truncated is lost, and the training path goes on counting") {
  TemporaryFolder folder;
  std::string error;
  Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  CHECK_FALSE(comm->guard.lost());
  REQUIRE(chmod(comm->path.c_str(), 0600) == 0);  // its user may, if he means to
  REQUIRE(truncate(comm->path.c_str(), 0) == 0);
  comm->header->api.entered_op_seq = 5;
  CHECK(comm->header->api.entered_op_seq == 5);
  CHECK(comm->guard.lost());
  frame_unlink(*comm);
  comm_release(comm);
}

TEST_CASE("The memory of a file that was truncated is not intact, of one that was removed or replaced it is") {
  TemporaryFolder folder;
  std::string error;
  const std::string other = folder.path() + "/other";
  const auto intact_after = [&](const std::function<void(const std::string& path)>& happens) {
    Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
    REQUIRE(comm != nullptr);
    frame_hide(*comm);
    const std::string path = comm->path;
    FrameMemory* memory = comm_retire(comm);
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    happens(path);
    const bool intact = frame_memory_intact(memory);
    frame_memory_release(memory);
    return intact;
  };
  CHECK(intact_after([](const std::string&) {}));
  CHECK(intact_after([](const std::string& path) { REQUIRE(unlink(path.c_str()) == 0); }));
  CHECK(intact_after([&](const std::string& path) {
    std::ofstream(other) << "another file";
    REQUIRE(rename(other.c_str(), path.c_str()) == 0);
  }));
  for (const off_t bytes : {0, 4096})
    CHECK_FALSE(intact_after([bytes](const std::string& path) { REQUIRE(truncate(path.c_str(), bytes) == 0); }));

  Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  REQUIRE(chmod(comm->path.c_str(), 0600) == 0);
  REQUIRE(truncate(comm->path.c_str(), 0) == 0);
  comm->header->api.entered_op_seq = 5;
  REQUIRE(truncate(comm->path.c_str(), static_cast<off_t>(comm->bytes)) == 0);  // too late
  frame_hide(*comm);
  FrameMemory* memory = comm_retire(comm);
  CHECK_FALSE(frame_memory_intact(memory));
  frame_memory_release(memory);
}

TEST_CASE(
    "A frame that was removed, replaced or made unreadable is told from one that is there, also once its memory is "
    "used again") {
  TemporaryFolder folder;
  std::string error;
  Comm* first = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(first != nullptr);
  CHECK(what_became_of(first->path, first->file) == nullptr);
  frame_hide(*first);
  CommSetup setup = small_setup();
  setup.spare = comm_retire(first);
  Comm* comm = frame_create({folder.path(), "job"}, setup, &error);
  REQUIRE(comm != nullptr);
  const auto became = [comm] {
    const char* const what = what_became_of(comm->path, comm->file);
    return std::string(what != nullptr ? what : "nothing");
  };
  CHECK(became() == "nothing");
  REQUIRE(chmod(comm->path.c_str(), 0) == 0);
  CHECK(became() == "made unreadable");
  const std::string other = folder.path() + "/other";
  std::ofstream(other) << "another file";
  REQUIRE(rename(other.c_str(), comm->path.c_str()) == 0);
  CHECK(became() == "replaced");
  REQUIRE(unlink(comm->path.c_str()) == 0);
  CHECK(became() == "removed");
  comm_release(comm);
}

TEST_CASE("A frame starts without any valid record") {
  TemporaryFolder folder;
  std::string error;
  Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  const std::string bytes = bytes_of(comm->path);
  for (size_t i = sizeof(abi::FrameHeader); i < bytes.size(); ++i) {
    if (bytes[i] != 0) FAIL("byte " << i << " is not zero");
  }
  comm_release(comm);
}

TEST_CASE("Publishing the identity makes the communicator ready, and texts that are too long are cut") {
  TemporaryFolder folder;
  std::string error;
  Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  CommIdentity identity;
  identity.comm_uid = 0x1122334455667788u;
  identity.comm_hash = 42;
  identity.parent_uid = 41;
  identity.node = 1;
  identity.node_count = 2;
  identity.local_rank = 3;
  identity.gpu_bus_id = "0000:10:00.0";
  identity.host = std::string(200, 'h');
  identity.comm_name = "tensor parallel";
  frame_publish_identity(*comm, identity);

  const abi::FrameHeader header = header_in(bytes_of(comm->path));
  CHECK(header.identity.comm_uid == 0x1122334455667788u);
  CHECK(header.identity.comm_hash == 42);
  CHECK(header.identity.parent_uid == 41);
  CHECK(header.identity.node == 1);
  CHECK(header.identity.node_count == 2);
  CHECK(header.identity.local_rank == 3);
  CHECK(std::string(header.identity.gpu_bus_id) == "0000:10:00.0");
  CHECK(std::string(header.identity.host) == std::string(sizeof(header.identity.host) - 1, 'h'));
  CHECK(std::string(header.identity.comm_name) == "tensor parallel");
  CHECK(header.state.state == static_cast<uint32_t>(abi::CommState::ready));
  comm_release(comm);
}

TEST_CASE("A communicator's state never goes back") {
  TemporaryFolder folder;
  std::string error;
  Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  frame_set_state(*comm, abi::CommState::aborted);
  frame_set_state(*comm, abi::CommState::ready);
  CHECK(comm->header->state.state == static_cast<uint32_t>(abi::CommState::aborted));
  comm_release(comm);
}

TEST_CASE("The mapping outlives the file, which is gone from the folder at once") {
  TemporaryFolder folder;
  std::string error;
  Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  frame_unlink(*comm);
  CHECK(folder.file_names().empty());
  static_cast<abi::FrameHeader*>(frame_memory(comm))->api.entered_p2p = 1;
  comm_release(comm);
}

TEST_CASE("The memory of a communicator that has ended can be the frame of another one, cleared and under its own name") {
  TemporaryFolder folder;
  std::string error;
  Comm* first = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(first != nullptr);
  void* const memory = frame_memory(first);
  memset(first->channels, 7, sizeof(abi::DeviceChannel));
  const std::string spare_name = abi::spare_file_name(process_identity().name, first->number);
  frame_hide(*first);
  CHECK(folder.file_names() == std::vector<std::string>{spare_name});
  CommSetup setup = small_setup();
  setup.channel_count = 1;
  setup.rank = 6;
  setup.spare = comm_retire(first);
  REQUIRE(setup.spare != nullptr);
  CHECK(frame_memory_size(setup.spare) == abi::frame_bytes(2));

  Comm* second = frame_create({folder.path(), "job"}, setup, &error);
  REQUIRE(second != nullptr);
  CHECK(error.empty());
  CHECK(frame_memory(second) == memory);
  const std::string name = abi::frame_file_name(process_identity().name, second->number);
  CHECK(folder.file_names() == std::vector<std::string>{name});
  const std::string bytes = bytes_of(second->path);
  const abi::FrameHeader header = header_in(bytes);
  CHECK(header.identity.rank == 6);
  CHECK(header.identity.channel_count == 1);
  CHECK(header.identity.file_bytes == bytes.size());
  for (size_t i = sizeof(abi::FrameHeader); i < bytes.size(); ++i)
    if (bytes[i] != 0) FAIL("byte " << i << " is not zero");
  frame_hide(*second);
  comm_release(second);
  CHECK(folder.file_names().empty());
}

TEST_CASE("Spare memory that is too small is left alone") {
  TemporaryFolder folder;
  std::string error;
  Comm* first = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(first != nullptr);
  frame_hide(*first);
  CommSetup setup = small_setup();
  setup.channel_count = 3;
  setup.spare = comm_retire(first);
  Comm* second = frame_create({folder.path(), "job"}, setup, &error);
  REQUIRE(second != nullptr);
  CHECK(frame_memory(second) != frame_memory_address(setup.spare));
  frame_memory_release(setup.spare);
  comm_release(second);
}

TEST_CASE("A frame that moves into other memory keeps what it says and has no file") {
  TemporaryFolder folder;
  std::string error;
  Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  void* const memory = aligned_alloc(4096, frame_size(comm));
  comm_move(comm, memory);
  CHECK(folder.file_names().empty());
  CHECK(frame_memory(comm) == memory);
  CHECK(comm->header->identity.rank == 3);
  CHECK(static_cast<void*>(comm->header) == memory);
  const size_t bytes = frame_size(comm);
  frame_hide(*comm);
  comm_release(comm);
  memset(memory, 1, bytes);  // it is still the caller's
  free(memory);
}

TEST_CASE("Every communicator of a process has its own number and file") {
  TemporaryFolder folder;
  std::string error;
  Comm* first = frame_create({folder.path(), "job"}, small_setup(), &error);
  Comm* second = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(first->number != second->number);
  CHECK(first->path != second->path);
  comm_release(first);
  comm_release(second);
}

TEST_CASE("A file left behind under the same name is replaced, not written into") {
  TemporaryFolder folder;
  std::string error;
  Comm* earlier = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(earlier != nullptr);
  const std::string next = folder.path() + "/" + abi::frame_file_name(process_identity().name, earlier->number + 1);
  std::ofstream(next) << "left behind";
  const int left_behind = open(next.c_str(), O_RDONLY);
  Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  REQUIRE(comm->path == next);
  CHECK(header_in(bytes_of(next)).identity.magic == abi::frame_magic);
  char text[32] = {};
  CHECK(read(left_behind, text, sizeof(text)) == 11);
  CHECK(std::string(text) == "left behind");
  close(left_behind);
  comm_release(earlier);
  comm_release(comm);
}

// Every page can be written.
bool is_usable(Comm* comm) {
  if (comm == nullptr || !comm->path.empty() || comm->header->identity.magic != abi::frame_magic) return false;
  memset(comm->channels, 1, comm->setup.channel_count * sizeof(abi::DeviceChannel));
  frame_unlink(*comm);
  comm_release(comm);
  return true;
}

TEST_CASE("In a folder that cannot be written to the frame has no file, and the error names what could not be made") {
  std::string error;
  CHECK(is_usable(frame_create({"/proc/no such folder", "job"}, small_setup(), &error)));
  CHECK(error.find("/proc/no such folder/") != std::string::npos);
}

TEST_CASE("A small folder is never filled: NCCL needs it too") {
  const TemporaryFolder folder;
  struct Unmount {
    std::string path;
    ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
  } unmount{folder.path()};
  if (mount("ccld", folder.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
    WARN("not root: a small file system cannot be made");
    return;
  }
  std::string error;
  std::vector<Comm*> comms;
  size_t files = 0;
  do {
    comms.push_back(frame_create({folder.path(), "job"}, small_setup(), &error));
    REQUIRE(comms.back() != nullptr);
    files += !comms.back()->path.empty();
  } while (error.empty() && comms.size() < 100);
  CHECK(files > 0);
  CHECK(files < comms.size());
  CHECK(error.find("3 MiB are left to NCCL") != std::string::npos);
  struct statvfs status {};
  REQUIRE(statvfs(folder.path().c_str(), &status) == 0);
  CHECK(status.f_bavail >= status.f_blocks / 4 * 3);
  for (Comm* comm : comms) comm_release(comm);
}

TEST_CASE("A full disk is an error when the frame is made, not a crash when it is used") {
  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&path] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::string error;
    return is_usable(frame_create({path, "job"}, small_setup(), &error)) &&
           error.find("bytes for") != std::string::npos;
  }));
  CHECK(folder.file_names().empty());
}

TEST_CASE("A number of channels that no frame has is refused") {
  std::string error;
  CommSetup setup = small_setup();
  setup.channel_count = 0;
  CHECK(frame_create({"/tmp", "job"}, setup, &error) == nullptr);
  setup.channel_count = abi::channels_max + 1;
  CHECK(frame_create({"/tmp", "job"}, setup, &error) == nullptr);
  CHECK(error.find("65 channels") != std::string::npos);
}

TEST_CASE("A process's start time is the one of /proc, whatever its name looks like, and 0 for no process") {
  CHECK(process_start_ticks(static_cast<uint32_t>(getpid())) != 0);
  CHECK(process_identity().start_ticks == process_start_ticks(static_cast<uint32_t>(getpid())));
  CHECK(process_start_ticks(4194304 + 1) == 0);  // beyond the largest process id
}

// ---- comm_create: the settings of the process decide, so each case has a process of its own -----------------------

int warnings = 0;
std::string last_warning;
void count_warnings(LogLevel level, const char* line) {
  if (level != LogLevel::warning) return;
  ++warnings;
  last_warning = line;
}

TEST_CASE("A disabled probe creates nothing") {
  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&path] {
    setenv("NCCL_PROBE_ENABLE", "0", 1);
    setenv("NCCL_PROBE_FRAMES_DIR", path.c_str(), 1);
    set_log(&count_warnings);
    return !enabled() && comm_create(small_setup()) == nullptr && warnings == 0;
  }));
  CHECK(folder.file_names().empty());
}

TEST_CASE("A frames folder that cannot be written to is one warning for all communicators") {
  CHECK(succeeds_in_child([] {
    setenv("NCCL_PROBE_FRAMES_DIR", "/proc/no-such-folder", 1);
    unsetenv("NCCL_PROBE_ENABLE");
    set_log(&count_warnings);
    const bool both = comm_create(small_setup()) != nullptr && comm_create(small_setup()) != nullptr;
    return both && warnings == 1 && last_warning.find("/proc/no-such-folder") != std::string::npos;
  }));
}

TEST_CASE("The frames folder and the job of the environment are used") {
  TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(succeeds_in_child([&path] {
    setenv("NCCL_PROBE_FRAMES_DIR", path.c_str(), 1);
    setenv("NCCL_PROBE_JOB", "nightly", 1);
    unsetenv("NCCL_PROBE_ENABLE");
    set_log(&count_warnings);
    Comm* comm = comm_create(small_setup());
    return comm != nullptr && comm->path.rfind(path + "/", 0) == 0 &&
           std::string(comm->header->identity.job) == "nightly" && warnings == 0;
  }));
}

// ---- comm_uid -----------------------------------------------------------------------------------------------------

TEST_CASE("All members of a communicator compute the same identity, in one process and in several") {
  const std::vector<MemberId> members{{1, 2, 3}, {1, 5, 6}, {7, 8, 9}};
  CommUids one, other;
  const uint64_t uid = one.next(99, members.data(), members.size(), 0);
  CHECK(uid != 0);
  CHECK(one.next(99, members.data(), members.size(), 1) == uid);
  CHECK(other.next(99, members.data(), members.size(), 2) == uid);
}

TEST_CASE("The k-th communicator with equal hash and members has an identity of its own, the same on all ranks") {
  const std::vector<MemberId> members{{1, 2, 3}, {1, 5, 6}};
  CommUids one, other;
  std::set<uint64_t> uids;
  for (uint64_t k = 0; k < 100; ++k) {
    const uint64_t uid = one.next(99, members.data(), 2, 0);
    other.next(1000 + k, members.data(), 2, 1);  // this rank is in other communicators, too
    CHECK(other.next(99, members.data(), 2, 1) == uid);
    uids.insert(uid);
  }
  CHECK(uids.size() == 100);
}

TEST_CASE("Communicators that differ in anything have different identities") {
  const std::vector<MemberId> members{{1, 2, 3}, {1, 5, 6}};
  const auto uid_of = [](uint64_t hash, const std::vector<MemberId>& of, size_t count) {
    return CommUids().next(hash, of.data(), count, 0);
  };
  const uint64_t uid = uid_of(99, members, 2);
  CHECK(uid_of(98, members, 2) != uid);
  CHECK(uid_of(99, members, 1) != uid);
  for (size_t member = 0; member < 2; ++member) {
    for (int field = 0; field < 3; ++field) {
      std::vector<MemberId> changed = members;
      if (field == 0) changed[member].host_hash ^= 1;
      if (field == 1) changed[member].pid_hash ^= 1;
      if (field == 2) changed[member].bus_id ^= 1;
      CHECK(uid_of(99, changed, 2) != uid);
    }
  }
  // Two halves of one parent have equal hashes, and ranks that swap places are another communicator.
  CHECK(uid_of(99, {members[1], members[0]}, 2) != uid);
  // Values of members do not run into each other.
  CHECK(uid_of(5, {{1, 0, 0}, {0, 0, 0}}, 2) != uid_of(5, {{0, 0, 0}, {1, 0, 0}}, 2));
}

// ---- network connections ------------------------------------------------------------------------------------------

TEST_CASE("A network connection is kept once and counted in the version") {
  TemporaryFolder folder;
  std::string error;
  Comm* comm = frame_create({folder.path(), "job"}, small_setup(), &error);
  REQUIRE(comm != nullptr);
  net_connection(comm, abi::Direction::send, 0, 4, 1, "mlx5_1");
  net_connection(comm, abi::Direction::send, 0, 4, 1, "mlx5_1");
  net_connection(comm, abi::Direction::recv, 0, 4, 1, nullptr);
  REQUIRE(comm->connections.size() == 2);
  CHECK(comm->connections_version.load() == 2);
  CHECK(comm->connections[0].net_name == "mlx5_1");
  CHECK(comm->connections[1].net_name.empty());
  net_connection(nullptr, abi::Direction::send, 0, 4, 1, "no communicator");
  comm_release(comm);
}

}  // namespace
}  // namespace ccld::probe
