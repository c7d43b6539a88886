#include "benchmarks/overhead/frames.h"

namespace ccld::bench {

probe::Comm* make_communicator(uint64_t number) {
  probe::Comm* const comm = probe::comm_create({0, 2, 0, frame_channels, 22907});
  if (comm == nullptr) return nullptr;
  probe::CommIdentity identity{};
  identity.comm_uid = number;
  identity.comm_hash = number;
  identity.node_count = 1;
  identity.gpu_bus_id = "0000:10:00.0";
  identity.host = "bench";
  probe::comm_ready(comm, identity);
  return comm;
}

}  // namespace ccld::bench
