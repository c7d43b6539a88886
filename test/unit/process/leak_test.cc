// Ten thousand communicators come and go; nothing of them stays: no file, descriptor, mapping, thread or memory.
#include <dirent.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "probe/frames/comm.h"
#include "probe/probe.h"
#include "test/unit/frames/temporary_folder.h"

namespace ccld::probe {
namespace {

size_t entries_of(const char* folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder), closedir);
  size_t count = 0;
  while (listing != nullptr && readdir(listing.get()) != nullptr) ++count;
  return count;
}

size_t lines_of(const char* path) {
  std::ifstream file(path);
  size_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

struct Held {
  size_t descriptors = entries_of("/proc/self/fd");
  size_t threads = entries_of("/proc/self/task");
  size_t mappings = lines_of("/proc/self/maps");
  size_t heap_bytes = mallinfo2().uordblks;
};

void cycle(uint64_t comm_hash, bool fails) {
  const uint64_t initialization = init_entered(comm_hash, 0, 2, 0);
  init_reached(initialization, abi::InitStage::bootstrapped, 0, 0);
  CommSetup setup{};
  setup.rank_count = 2;
  setup.channel_count = 1;
  Comm* comm = comm_create(setup);
  if (comm == nullptr) exit(3);
  NetQueue* queue = net_queue(abi::NetKind::socket, comm_hash, 0, 0, "eth0");
  if (fails) {
    init_reached(initialization, abi::InitStage::failed, 2, 0);
    comm_end(comm, abi::CommState::init_failed);
  } else {
    CommIdentity identity;
    const MemberId members[] = {{1, 2, 3}, {1, 2, 4}};
    identity.comm_uid = comm_uid(comm_hash, members, 2, 0);
    identity.comm_hash = comm_hash;
    identity.channels.resize(2);
    comm_ready(comm, identity);
    net_connection(comm, abi::Direction::send, 0, 1, 0, "eth0");
    comm_end(comm, abi::CommState::destroyed);
  }
  net_queue_closed(queue);
  comm_release(comm);
}

TEST_CASE("Ten thousand communicators leave nothing behind") {
  constexpr uint64_t warm_up = 5000, cycles = 10000;  // the first 4096 identities are remembered
  constexpr size_t heap_slack_bytes = 64 * 1024;
  TemporaryFolder folder;
  const std::string path = folder.path();
  const pid_t child = fork();
  if (child == 0) {
    setenv("NCCL_PROBE_FRAMES_DIR", path.c_str(), 1);
    unsetenv("NCCL_PROBE_ENABLE");
    unsetenv("NCCL_PROBE_ENDPOINT");
    for (uint64_t i = 1; i <= warm_up; ++i) cycle(i, i % 7 == 0);
    const Held before;
    for (uint64_t i = 1; i <= cycles; ++i) cycle(warm_up + i, i % 7 == 0);
    const Held after;
    const bool good = after.descriptors == before.descriptors && after.threads == before.threads &&
                      after.mappings <= before.mappings + 2 &&
                      after.heap_bytes <= before.heap_bytes + heap_slack_bytes &&
                      entries_of(path.c_str()) == 3;  // ., .. and the process file
    if (!good)
      fprintf(stderr,
              "descriptors %zu -> %zu, threads %zu -> %zu, mappings %zu -> %zu, heap %zu -> %zu bytes, files %zu\n",
              before.descriptors, after.descriptors, before.threads, after.threads, before.mappings, after.mappings,
              before.heap_bytes, after.heap_bytes, entries_of(path.c_str()));
    exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(folder.file_names().empty());
}

}  // namespace
}  // namespace ccld::probe
