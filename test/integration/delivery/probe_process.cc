// A training process as the service sees it: the probe with one communicator, without NCCL. Prints what the probe logs,
// a line each, and ends on SIGTERM.
#include <cstdio>
#include <cstdlib>

#include <signal.h>

#include "probe/frames/comm.h"
#include "probe/probe.h"

int main() {
  using namespace ccld::probe;
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigprocmask(SIG_BLOCK, &end, nullptr);
  set_log([](LogLevel level, const char* line) {
    std::printf("%s %s\n", level == LogLevel::warning ? "WARN" : "INFO", line);
    std::fflush(stdout);
  });
  Comm* comm = comm_create({0, 2, 0, 2, 22907});
  if (comm == nullptr) return 1;
  CommIdentity identity{};
  identity.comm_uid = 5;
  identity.host = "node0";
  comm_ready(comm, identity);
  int number = 0;
  sigwait(&end, &number);
  comm_end(comm, ccld::abi::CommState::destroyed);
  comm_release(comm);
  return 0;
}
