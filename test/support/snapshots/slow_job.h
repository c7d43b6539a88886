// Snapshots of jobs that are too large to be run in a test: what the documents and the page are made of.
#pragma once

#include <memory>
#include <string>

#include "decision/report/status_json.h"

namespace ccld::test {

constexpr uint64_t slow_job_comm = 0xabc;
constexpr char slow_job_comm_text[] = "0000000000000abc";

struct SlowJob {
  int ranks = 8, culprit = 6;
  std::string host_prefix = "node";  // and the number of the host, of 8 ranks
  double others_ms = 0.5;            // how late the others are
};

// One communicator, of which the culprit comes 80 ms late to each of 100 calls.
inline decision::report::Snapshot slow_job(const SlowJob& job) {
  using namespace decision;
  constexpr int ranks_per_host = 8;
  constexpr uint64_t ns_per_ms_u = 1000;  // of Micros
  report::Snapshot s;
  s.now_ns = 100'003 * ns_per_s;
  s.silent_ns = 5 * ns_per_s;
  CommStatus comm;
  comm.comm = CommUid{slow_job_comm};
  comm.name = "world";
  comm.job = "large";
  comm.rank_count = comm.ranks_seen = job.ranks;
  for (int r = 0; r < job.ranks; ++r) {
    RankStatus rank;
    rank.rank = Rank{r};
    rank.host = job.host_prefix + std::to_string(r / ranks_per_host);
    rank.cuda_device = r % ranks_per_host;
    rank.up = true;
    comm.ranks.push_back(rank);
  }
  s.status.communicators.push_back(std::move(comm));
  CommCalls calls{CommUid{slow_job_comm}, {}};
  for (uint64_t op = 1; op <= CallRecord::calls_max; ++op) {
    auto call = std::make_shared<RecordedCall>();
    call->heard_ns = s.now_ns - static_cast<Nanoseconds>(CallRecord::calls_max - op) * 90 * ns_per_ms;
    call->op = OpSeq{op};
    call->signature.function = abi::Function::all_reduce;
    call->signature.datatype = abi::Datatype::float32;
    call->signature.count = 1024;
    call->times = {84 * ns_per_ms, 4 * ns_per_ms};
    call->late.assign(static_cast<size_t>(job.ranks),
                      RecordedCall::Micros::encode(static_cast<uint64_t>(job.others_ms * ns_per_ms_u)));
    call->late[static_cast<size_t>(job.culprit)] = RecordedCall::Micros::encode(80 * ns_per_ms_u);
    calls.calls.push_back(std::move(call));
  }
  s.status.calls.push_back(std::move(calls));
  return s;
}

}  // namespace ccld::test
