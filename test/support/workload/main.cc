// ccld-workload: one rank of a collective workload. Exit status: 0 done, 1 failed, 2 wrong option, 3 wrong results.
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "test/support/workload/options.h"
#include "test/support/workload/rank_loop.h"

int main(int argc, char** argv) {
  const ccld::workload::Options options = ccld::workload::parse(argc, argv);
  try {
    return ccld::workload::run_rank(options) == 0 ? 0 : 3;
  } catch (const std::exception& error) {
    fprintf(stderr, "ccld-workload: rank %d: %s\n", options.rank, error.what());
    // The other threads (NCCL's proxies, the device) may be stuck: leave without waiting for them.
    fflush(nullptr);
    _exit(1);
  }
}
