// Three ranks, of which the last calls with another count, under any names: the service finds a mismatch and its
// culprit.
//
// Usage: differing_ranks TELEMETRY_ENDPOINT COMMUNICATOR_ID JOB HOST COMMUNICATOR_NAME
//        runs until its standard input ends
#include <cstdio>
#include <cstdlib>
#include <string>

#include "test/unit/server/wire_batch.h"
#include "zmq.hpp"

namespace ccld::test {
namespace {

struct Names {
  std::string job, host, comm;
};

constexpr int32_t rank_count = 3;

Bytes batch_of(uint64_t comm_uid, int32_t rank, const Names& names) {
  WireBatch b;
  add_comm_up(b, {.comm_uid = comm_uid,
                  .rank = rank,
                  .rank_count = rank_count,
                  .local_rank = rank,
                  .cuda_device = rank,
                  .ring_next = (rank + 1) % rank_count,
                  .name = names.comm,
                  .host = names.host});
  WireRounds rounds;
  rounds.comm_uid = comm_uid;
  rounds.rank = rank;
  rounds.signatures = {wire_signature(rank == rank_count - 1 ? 2048 : 1024)};
  add_rounds(b, rounds);
  add_in_flight(b, {.comm_uid = comm_uid, .rank = rank});
  return b.finish({.job = names.job, .host = names.host, .pid = 4711u + static_cast<uint32_t>(rank)});
}

void send(const std::string& endpoint, uint64_t comm_uid, const Names& names) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect(endpoint);
  for (int32_t rank = 0; rank < rank_count; ++rank)
    socket.send(zmq::buffer(batch_of(comm_uid, rank, names)), zmq::send_flags::none);
  while (std::getchar() != EOF) {
  }
}

}  // namespace
}  // namespace ccld::test

int main(int argc, char** argv) {
  if (argc != 6)
    return std::fprintf(stderr,
                        "usage: differing_ranks TELEMETRY_ENDPOINT COMMUNICATOR_ID JOB HOST COMMUNICATOR_NAME\n"),
           2;
  ccld::test::send(argv[1], std::strtoull(argv[2], nullptr, 10), {argv[3], argv[4], argv[5]});
  return 0;
}
