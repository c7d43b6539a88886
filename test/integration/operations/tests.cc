// The jobs of each ctest case and what the decision service must have heard of them.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "schemas/abi/frame.h"
#include "schemas/abi/process.h"
#include "test/integration/operations/expected_steps.h"
#include "test/integration/operations/suites.h"
#include "test/integration/operations/telemetry_sink.h"
#include "test/support/ranks/temporary_folder.h"

namespace ccld::operations_test {
namespace {

using ranks::TemporaryFolder;
using Environment = std::vector<std::pair<std::string, std::string>>;

constexpr int job_ranks = 4;
constexpr size_t f32_bytes = 4;
constexpr size_t buffer_bytes = 262144;

// One job, its telemetry, and what is wrong with it. Every check prints its own line.
class Job {
 public:
  // `ranks_of_node`: 0: all are on one node.
  Job(std::string name, std::string suite, int ranks, const Environment& more, int ranks_of_node = 0)
      : name_(std::move(name)) {
    const TemporaryFolder folder;
    const std::string buffer = std::to_string(buffer_bytes);
    ranks::JobSpec spec;
    spec.name = name_;
    spec.suite = std::move(suite);
    spec.ranks = ranks;
    spec.ranks_of_node = ranks_of_node;
    spec.environment = {{"NCCL_MIN_NCHANNELS", "1"},
                        {"NCCL_MAX_NCHANNELS", "1"},
                        {"NCCL_MAX_P2P_NCHANNELS", "1"},
                        {"NCCL_NTHREADS", "128"},
                        {"NCCL_LL128_NTHREADS", "128"},
                        {"NCCL_BUFFSIZE", buffer},
                        {"NCCL_LL_BUFFSIZE", buffer},
                        {"NCCL_LL128_BUFFSIZE", buffer},
                        {"NCCL_SOCKET_IFNAME", "lo"},
                        {"NCCL_IB_DISABLE", "1"},
                        {"NCCL_PAT_ENABLE", "0"},
                        {"NCCL_PROBE_ENABLE", "1"},
                        {"NCCL_PROBE_FRAMES_DIR", folder.path()},
                        {"NCCL_PROBE_HEARTBEAT_MS", "100"},
                        {"NCCL_PROBE_ENDPOINT", sink.endpoint()},
                        {meeting_folder_variable, folder.path()}};
    spec.environment.insert(spec.environment.end(), more.begin(), more.end());
    good_ = ranks::run_job(spec);
    sink.stop();
    check(sink.malformed == 0, "messages that are no valid Batch");
    check(sink.batches_lost.empty() && sink.dropped_batches == 0, "batches were lost");
    check(sink.lapped_rounds == 0, "rounds were lapped");
  }

  bool good() const { return good_; }
  void check(bool holds, const std::string& what) {
    if (holds) return;
    good_ = false;
    fprintf(stderr, "%s: %s\n", name_.c_str(), what.c_str());
  }
  template <class A, class B>
  void equal(const A& measured, const B& expected, const std::string& what) {
    check(static_cast<uint64_t>(measured) == static_cast<uint64_t>(expected),
          what + ": measured " + std::to_string(static_cast<uint64_t>(measured)) + ", expected " +
              std::to_string(static_cast<uint64_t>(expected)));
  }

  // The only communicator of that rank and size. An empty one if there are several or none.
  const SeenComm& only(int rank, int rank_count) {
    static const SeenComm none;
    const SeenComm* found = nullptr;
    int matches = 0;
    for (const auto& [key, comm] : sink.comms) {
      if (std::get<1>(key) != rank || comm.rank_count != rank_count) continue;
      found = &comm;
      ++matches;
    }
    equal(matches, 1, "communicators of rank " + std::to_string(rank));
    return matches == 1 ? *found : none;
  }

  // The round, which must have been reported once; `flags` it must and must not have are checked by the caller.
  SeenRound round(const SeenComm& comm, int rank, uint64_t op_seq, uint32_t replay = 0) {
    SeenRound found;
    int matches = 0;
    for (const SeenRound& round : comm.rounds) {
      if (round.op_seq != op_seq || round.replay != replay) continue;
      found = round;
      ++matches;
    }
    equal(matches, 1, label(rank, op_seq, replay) + " reports");
    return found;
  }

  static std::string label(int rank, uint64_t op_seq, uint32_t replay = 0) {
    std::string text = "rank " + std::to_string(rank) + ", operation " + std::to_string(op_seq);
    if (replay != 0) text += ", replay " + std::to_string(replay);
    return text;
  }

  // A round whose kernel was measured.
  SeenRound measured(const SeenComm& comm, int rank, uint64_t op_seq, uint32_t replay = 0) {
    const SeenRound r = round(comm, rank, op_seq, replay);
    const std::string who = label(rank, op_seq, replay);
    check(r.has(wire::RoundFlags::counts_valid), who + ": its counts are not valid");
    check(!r.has(wire::RoundFlags::lapped) && !r.has(wire::RoundFlags::no_kernel) &&
              !r.has(wire::RoundFlags::not_measured) && !r.has(wire::RoundFlags::aborted),
          who + ": flags " + std::to_string(r.flags));
    check(r.begin_device_ns != 0 && r.end_device_ns >= r.begin_device_ns, who + ": no duration");
    return r;
  }

  void expect_steps(const SeenRound& r, int rank, const Steps& expected) {
    const std::string who = label(rank, r.op_seq, r.replay);
    equal(r.send_steps, expected.send, who + ": sent steps");
    equal(r.recv_steps, expected.recv, who + ": received steps");
  }

  TelemetrySink sink;

 private:
  const std::string name_;
  bool good_ = false;
};

Environment ring(const std::string& protocol) { return {{"NCCL_ALGO", "RING"}, {"NCCL_PROTO", protocol}}; }

const char* const protocols[] = {"Simple", "LL", "LL128"};

// Ranks of the ring follow one another in the order of their numbers only if they are on one node and NCCL finds nothing
// better, which holds for the CPU device: its GPUs are all alike.
bool ring_job(const std::string& name, const char* protocol, const Environment& more) {
  Environment environment = ring(protocol);
  environment.insert(environment.end(), more.begin(), more.end());
  Job job(name, "collectives", job_ranks, environment);
  const Channel channel{protocol, buffer_bytes};
  struct Call {
    RingOperation operation;
    size_t count;
    int root;
  };
  const Call calls[] = {{RingOperation::all_reduce, small_count, 0},
                        {RingOperation::all_reduce, large_count, 0},
                        {RingOperation::all_gather, small_count, 0},
                        {RingOperation::all_gather, large_count / 3, 0},
                        {RingOperation::reduce_scatter, small_count, 0},
                        {RingOperation::reduce_scatter, large_count / 3, 0},
                        {RingOperation::broadcast, small_count, broadcast_root},
                        {RingOperation::broadcast, large_count, broadcast_root},
                        {RingOperation::reduce, small_count, reduce_root},
                        {RingOperation::reduce, large_count, reduce_root},
                        {RingOperation::all_reduce, 0, 0},
                        {RingOperation::all_reduce, small_count, 0}};
  for (int rank = 0; rank < job_ranks; ++rank) {
    const SeenComm& comm = job.only(rank, job_ranks);
    uint64_t op_seq = 0;
    for (const Call& call : calls) {
      ++op_seq;
      if (call.count == 0) {
        job.check(job.round(comm, rank, op_seq).has(wire::RoundFlags::no_kernel),
                  "a call with nothing to do must be reported as one without a kernel");
        continue;
      }
      job.expect_steps(job.measured(comm, rank, op_seq), rank,
                       ring_steps(channel, call.operation, rank, job_ranks, call.count, f32_bytes, call.root));
    }
    job.check(comm.down, "rank " + std::to_string(rank) + " did not say that its communicator ended");
  }
  return job.good();
}

bool ring_test() {
  bool good = true;
  for (const char* protocol : protocols) good = ring_job(std::string("ring ") + protocol, protocol, {}) && good;
  return good;
}

// Where CUDA does not take the pages of a file, all is measured as usual.
bool refused_registration_test() {
  return ring_job("refused registration", "Simple", {{"CCLD_CPU_DEVICE_REFUSE", "registration"}});
}

bool tree_test() {
  bool good = true;
  for (const char* protocol : protocols) {
    Job job(std::string("tree ") + protocol, "all_reduces", job_ranks,
            {{"NCCL_ALGO", "RING;allreduce:TREE"}, {"NCCL_PROTO", protocol}});
    const Channel channel{protocol, buffer_bytes};
    const size_t counts[] = {large_count, small_count, small_count, small_count};
    uint64_t op_seq = 0;
    for (const size_t count : counts) {
      ++op_seq;
      uint64_t sent = 0, received = 0;
      for (int rank = 0; rank < job_ranks; ++rank) {
        const SeenRound r = job.measured(job.only(rank, job_ranks), rank, op_seq);
        sent += r.send_steps;
        received += r.recv_steps;
      }
      const uint64_t expected = tree_all_reduce_steps(channel, job_ranks, count, f32_bytes);
      job.equal(sent, expected, "operation " + std::to_string(op_seq) + ": sent steps of all ranks");
      job.equal(received, expected, "operation " + std::to_string(op_seq) + ": received steps of all ranks");
    }
    good = job.good() && good;
  }
  return good;
}

bool types_test() {
  Job job("types", "types", 2, ring("Simple"));
  const Channel channel{"Simple", buffer_bytes};
  constexpr uint64_t reduces = 6, gathers = 6;
  for (int rank = 0; rank < 2; ++rank) {
    const SeenComm& comm = job.only(rank, 2);
    std::set<int> types;
    for (uint64_t op_seq = 1; op_seq <= reduces + gathers; ++op_seq) {
      const SeenRound r = job.measured(comm, rank, op_seq);
      types.insert(r.signature.datatype() + (op_seq > reduces ? 1000 : 0));
      const RingOperation operation = op_seq <= reduces ? RingOperation::all_reduce : RingOperation::all_gather;
      job.expect_steps(r, rank, ring_steps(channel, operation, rank, 2, small_count, 8, 0));  // one pass in any type
    }
    job.equal(types.size(), reduces + gathers, "distinct data types");
  }
  return job.good();
}

bool fused_test() {
  bool good = true;
  for (const char* protocol : protocols) {
    Job job(std::string("fused ") + protocol, "fused", job_ranks, ring(protocol));
    const Channel channel{protocol, buffer_bytes};
    for (int rank = 0; rank < job_ranks; ++rank) {
      const SeenComm& comm = job.only(rank, job_ranks);
      const auto steps = [&](RingOperation operation, size_t count) {
        return ring_steps(channel, operation, rank, job_ranks, count, f32_bytes, 0);
      };
      const Steps alone = steps(RingOperation::all_reduce, small_count);
      for (const uint64_t op_seq : {1, 6}) {
        const SeenRound r = job.measured(comm, rank, op_seq);
        job.expect_steps(r, rank, alone);
        job.check(!r.has(wire::RoundFlags::shared_kernel), job.label(rank, op_seq) + ": shares no kernel");
      }
      Steps together = steps(RingOperation::all_gather, small_count);
      for (const size_t count : shared_counts) {
        const Steps one = steps(RingOperation::all_reduce, count);
        together.send += one.send;
        together.recv += one.recv;
      }
      // Operations that share a kernel show the kernel's counts and times; NCCL decides which ones do.
      std::map<uint64_t, Steps> kernels;
      std::map<uint64_t, int> operations;
      for (uint64_t op_seq = 2; op_seq <= 5; ++op_seq) {
        const SeenRound r = job.measured(comm, rank, op_seq);
        kernels[r.begin_device_ns] = {r.send_steps, r.recv_steps};
        ++operations[r.begin_device_ns];
        job.check((r.signature.flags() & abi::op_grouped) != 0, job.label(rank, op_seq) + ": was grouped");
      }
      for (uint64_t op_seq = 2; op_seq <= 5; ++op_seq) {
        const SeenRound r = job.round(comm, rank, op_seq);
        job.equal(r.has(wire::RoundFlags::shared_kernel), operations[r.begin_device_ns] > 1,
                  job.label(rank, op_seq) + ": shares a kernel");
      }
      job.check(kernels.size() < 4, "no two operations of the group share a kernel: the test tests nothing");
      Steps sum;
      for (const auto& [begin, steps_of_kernel] : kernels) {
        sum.send += steps_of_kernel.send;
        sum.recv += steps_of_kernel.recv;
      }
      job.check(sum == together, job.label(rank, 2) + " to 5: " + std::to_string(sum.send) + " steps sent together, " +
                                     std::to_string(together.send) + " expected");
    }
    good = job.good() && good;
  }
  return good;
}

// Calls of this size take one step at either end; what a rank sends itself takes none.
void expect_steps_of_calls(Job& job, const SeenComm& comm, int rank) {
  struct Kernel {
    Steps measured, expected;
  };
  std::map<std::pair<uint32_t, uint32_t>, Kernel> kernels;
  for (const SeenP2p& call : comm.p2ps) {
    Kernel& kernel = kernels[{call.plan, call.replay}];
    kernel.measured = {call.send_steps, call.recv_steps};
    if (call.peer != rank) ++(call.is_send ? kernel.expected.send : kernel.expected.recv);
    job.check((call.flags & static_cast<uint8_t>(wire::RoundFlags::counts_valid)) != 0, "a call without counts");
  }
  for (const auto& [plan, kernel] : kernels)
    job.check(kernel.measured == kernel.expected, "rank " + std::to_string(rank) + ": a kernel with calls sent " +
                                                      std::to_string(kernel.measured.send) + " steps, expected " +
                                                      std::to_string(kernel.expected.send));
}

// All calls between two ranks, as both ends report them, have equal keys and sizes.
void expect_pairs(Job& job, int ranks) {
  std::map<std::tuple<int, int, uint64_t, uint32_t>, uint64_t> sends, receives;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const SeenP2p& call : job.only(rank, ranks).p2ps) {
      auto& side = call.is_send ? sends : receives;
      const int source = call.is_send ? rank : call.peer, destination = call.is_send ? call.peer : rank;
      const bool is_new = side.emplace(std::make_tuple(source, destination, call.pair_seq, call.replay), call.bytes).second;
      job.check(is_new, "a call between " + std::to_string(source) + " and " + std::to_string(destination) +
                            " was reported twice");
      job.check(call.begin_device_ns != 0 && call.end_device_ns >= call.begin_device_ns, "a call without duration");
    }
  }
  job.check(!sends.empty(), "no call was reported");
  job.check(sends == receives, "sends and receives do not match in source, destination, number and size: " +
                                   std::to_string(sends.size()) + " and " + std::to_string(receives.size()));
}

bool point_to_point_test() {
  bool good = true;
  for (const char* protocol : {"Simple", "LL"}) {
    Job job(std::string("point to point ") + protocol, "point_to_point", job_ranks, ring(protocol));
    expect_pairs(job, job_ranks);
    for (int rank = 0; rank < job_ranks; ++rank) {
      const SeenComm& comm = job.only(rank, job_ranks);
      // 1 exchange, one with everybody (oneself included), several with the next.
      job.equal(comm.p2ps.size(), 2 * (1 + job_ranks + pair_calls), "calls of rank " + std::to_string(rank));
      expect_steps_of_calls(job, comm, rank);
      std::map<std::pair<int, bool>, std::set<uint64_t>> numbers;
      for (const SeenP2p& call : comm.p2ps) numbers[{call.peer, call.is_send}].insert(call.pair_seq);
      for (const auto& [pair, seen] : numbers)
        job.check(*seen.begin() == 1 && *seen.rbegin() == seen.size(), "numbers of a pair have gaps");
      job.expect_steps(job.measured(comm, rank, 1), rank,
                       ring_steps({protocol, buffer_bytes}, RingOperation::all_reduce, rank, job_ranks, small_count,
                                  f32_bytes, 0));
    }
    good = job.good() && good;
  }
  return good;
}

bool gather_scatter_test() {
  Job job("gather and scatter", "gather_scatter", job_ranks, ring("Simple"));
  constexpr uint64_t others = job_ranks - 1;
  for (int rank = 0; rank < job_ranks; ++rank) {
    const SeenComm& comm = job.only(rank, job_ranks);
    job.expect_steps(job.measured(comm, rank, 1), rank, {others, others});
    const bool gathers = rank == reduce_root, scatters = rank == broadcast_root;
    job.expect_steps(job.measured(comm, rank, 2), rank, gathers ? Steps{0, others} : Steps{1, 0});
    job.expect_steps(job.measured(comm, rank, 3), rank, scatters ? Steps{others, 0} : Steps{0, 1});
    job.measured(comm, rank, 4);
    job.check(comm.p2ps.empty(), "a collective must not be reported as calls of Send and Recv");
    const abi::Function functions[] = {abi::Function::all_to_all, abi::Function::gather, abi::Function::scatter};
    for (uint64_t op_seq = 1; op_seq <= 3; ++op_seq)
      job.equal(job.round(comm, rank, op_seq).signature.function(), functions[op_seq - 1], job.label(rank, op_seq));
  }
  return job.good();
}

// What all ranks sent of an operation and what they received is the same; returns it.
uint64_t expect_conserved(Job& job, int ranks, uint64_t op_seq) {
  uint64_t sent = 0, received = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const SeenRound r = job.measured(job.only(rank, ranks), rank, op_seq);
    sent += r.send_steps;
    received += r.recv_steps;
  }
  job.equal(sent, received, "operation " + std::to_string(op_seq) + ": steps sent and received by all ranks");
  return sent;
}

bool all_gather_v_test() {
  Job job("AllGatherV", "all_gather_v", job_ranks, ring("Simple"));
  // Every part passes all edges of the ring but the last, one step each.
  const uint64_t steps = expect_conserved(job, job_ranks, 1);
  job.equal(steps, job_ranks * (job_ranks - 1), "steps of the whole group");
  for (uint64_t op_seq = 2; op_seq <= job_ranks; ++op_seq)
    job.equal(expect_conserved(job, job_ranks, op_seq), steps, "steps of the shared kernel");
  return job.good();
}

bool pat_test() {
  Job job("PAT", "pat", job_ranks,
          {{"NCCL_ALGO", "allreduce:RING;allgather:PAT;reducescatter:PAT"}, {"NCCL_PROTO", "Simple"}, {"NCCL_PAT_ENABLE", "1"}});
  for (uint64_t op_seq = 1; op_seq <= 4; ++op_seq) {
    const uint64_t steps = expect_conserved(job, job_ranks, op_seq);
    // Every rank sends to as many peers as the number of ranks has binary digits.
    job.check(steps >= 2 * job_ranks, "operation " + std::to_string(op_seq) + ": " + std::to_string(steps) + " steps");
    for (int rank = 0; rank < job_ranks; ++rank)
      job.equal(job.round(job.only(rank, job_ranks), rank, op_seq).signature.algorithm(), abi::Algorithm::pat, "algorithm");
  }
  return job.good();
}

bool nvls_test() {
  constexpr size_t chunk_bytes = 32768;
  bool good = true;
  const auto nvls_job = [&](const std::string& suite, const std::vector<std::pair<RingOperation, size_t>>& calls) {
    Job job("NVLS " + suite, suite, job_ranks,
            {{"CCLD_CPU_DEVICE_NVSWITCH", "1"},
             {"NCCL_ALGO", "NVLS"},
             {"NCCL_NVLS_NCHANNELS", "1"},
             {"NCCL_NVLS_CHUNKSIZE", std::to_string(chunk_bytes)}});
    for (int rank = 0; rank < job_ranks; ++rank) {
      uint64_t op_seq = 0;
      for (const auto& [operation, count] : calls) {
        const SeenRound r = job.measured(job.only(rank, job_ranks), rank, ++op_seq);
        job.equal(r.signature.algorithm(), abi::Algorithm::nvls, "algorithm");
        job.expect_steps(r, rank, nvls_steps(operation, job_ranks, count, f32_bytes, chunk_bytes));
      }
    }
    good = job.good() && good;
  };
  nvls_job("all_reduces", {{RingOperation::all_reduce, large_count},
                           {RingOperation::all_reduce, small_count},
                           {RingOperation::all_reduce, small_count},
                           {RingOperation::all_reduce, small_count}});
  nvls_job("pat", {{RingOperation::all_gather, small_count},
                   {RingOperation::reduce_scatter, small_count},
                   {RingOperation::all_gather, large_count / 3},
                   {RingOperation::reduce_scatter, large_count / 3}});
  return good;
}

// Two nodes of two ranks, of which so many are heads.
bool two_nodes(const std::string& algorithm, abi::Algorithm number, int heads,
               uint64_t (*steps)(int, int, int, size_t, size_t, size_t), const Environment& more) {
  constexpr int nodes = 2;
  constexpr size_t chunk_bytes = buffer_bytes / 8;  // one of NCCL's slots
  Environment environment = {{"NCCL_ALGO", "RING;allreduce:" + algorithm},
                             {"NCCL_NET_PLUGIN", CCLD_TEST_COLLNET},
                             {"CCLD_TEST_NET_DEVICES", std::to_string(heads)},
                             {"NCCL_NVLS_NCHANNELS", "1"},
                             {"NCCL_NVLS_CHUNKSIZE", std::to_string(chunk_bytes)}};
  environment.insert(environment.end(), more.begin(), more.end());
  Job job(algorithm, "all_reduces", job_ranks, environment, job_ranks / nodes);
  uint64_t op_seq = 0;
  for (const size_t count : {large_count, small_count, small_count, small_count}) {
    const std::string operation = "operation " + std::to_string(++op_seq);
    job.equal(expect_conserved(job, job_ranks, op_seq), steps(job_ranks, nodes, heads, count, f32_bytes, chunk_bytes),
              operation + ": steps of all ranks");
    for (int rank = 0; rank < job_ranks; ++rank)
      job.equal(job.round(job.only(rank, job_ranks), rank, op_seq).signature.algorithm(), number,
                operation + ": algorithm");
  }
  return job.good();
}

bool nvls_tree_test() {
  return two_nodes("NVLSTREE", abi::Algorithm::nvls_tree, 2, nvls_tree_all_reduce_steps,
                   {{"CCLD_CPU_DEVICE_NVSWITCH", "1"}});
}

bool collnet_test() {
  bool good = two_nodes("COLLNETCHAIN", abi::Algorithm::collnet_chain, 1, collnet_all_reduce_steps,
                        {{"NCCL_COLLNET_ENABLE", "1"}});
  return two_nodes("COLLNETDIRECT", abi::Algorithm::collnet_direct, 1, collnet_all_reduce_steps,
                   {{"NCCL_COLLNET_ENABLE", "1"}, {"CCLD_CPU_DEVICE_NVSWITCH", "1"}}) &&
         good;
}

bool graph_test() {
  Job job("graph", "graph", job_ranks, ring("Simple"));
  const Channel channel{"Simple", buffer_bytes};
  expect_pairs(job, job_ranks);
  for (int rank = 0; rank < job_ranks; ++rank) {
    const SeenComm& comm = job.only(rank, job_ranks);
    const Steps reduce = ring_steps(channel, RingOperation::all_reduce, rank, job_ranks, small_count, f32_bytes, 0);
    const Steps gather = ring_steps(channel, RingOperation::all_gather, rank, job_ranks, small_count, f32_bytes, 0);
    for (uint32_t replay = 1; replay <= graph_replays; ++replay) {
      job.expect_steps(job.measured(comm, rank, 1, replay), rank, reduce);
      job.expect_steps(job.measured(comm, rank, 2, replay), rank, gather);
      job.expect_steps(job.measured(comm, rank, 2 + replay), rank, reduce);
    }
    job.equal(comm.p2ps.size(), 2 * graph_replays, "calls of rank " + std::to_string(rank));
    expect_steps_of_calls(job, comm, rank);
    for (const SeenRound& r : comm.rounds)
      job.check(r.op_seq > 2 || r.replay != 0 || !r.has(wire::RoundFlags::counts_valid), "a capture is no run");
  }
  return job.good();
}

// A rank that has simulated calls counts as the others do, or it would seem to call other operations than they.
bool simulated_test() {
  Job job("simulated", "simulated", job_ranks, ring("Simple"));
  expect_pairs(job, job_ranks);
  for (int rank = 0; rank < job_ranks; ++rank) {
    const SeenComm& comm = job.only(rank, job_ranks);
    for (const uint64_t op_seq : {1, 2}) job.measured(comm, rank, op_seq);
    job.equal(comm.rounds.size(), 2, "rounds of rank " + std::to_string(rank));
    job.equal(comm.p2ps.size(), 4, "calls of rank " + std::to_string(rank));
  }
  return job.good();
}

bool one_rank_test() {
  Job job("one rank", "one_rank", 1, {});
  const SeenComm& comm = job.only(0, 1);
  for (const uint64_t op_seq : {1, 2})
    job.check(job.round(comm, 0, op_seq).has(wire::RoundFlags::no_kernel), job.label(0, op_seq) + ": no kernel runs");
  return job.good();
}

void expect_hidden(Job& job, int rank, uint32_t expected) {
  job.equal(job.only(rank, job_ranks).hidden, expected, "rank " + std::to_string(rank) + ": what is not measured");
}

// Kernels of a program that use the device API are not NCCL's: nothing of them is seen, and the telemetry says so.
bool device_api_test() {
  Job job("device API", "device_api", job_ranks, ring("Simple"));
  for (int rank = 0; rank < job_ranks; ++rank) {
    const SeenComm& comm = job.only(rank, job_ranks);
    for (const uint64_t op_seq : {1, 2}) job.measured(comm, rank, op_seq);
    expect_hidden(job, rank, abi::hidden_device_api);
  }
  return job.good();
}

bool gin_test() {
  Environment environment = ring("Simple");
  environment.emplace_back("NCCL_NET_PLUGIN", CCLD_STANDIN_NET);
  environment.emplace_back("CCLD_CPU_DEVICE_GPU_DIRECT", "1");
  Job job("GIN", "gin", job_ranks, environment);
  for (int rank = 0; rank < job_ranks; ++rank) {
    const SeenComm& comm = job.only(rank, job_ranks);
    for (const uint64_t op_seq : {1, 2}) job.measured(comm, rank, op_seq);
    expect_hidden(job, rank, abi::hidden_device_api | abi::hidden_gin);
  }
  return job.good();
}

// With PXN the proxy of the rank beside the network device sends for the other one. No proxy of the latter is seen.
Environment pxn_environment() {
  Environment environment = ring("Simple");
  for (const auto& [name, value] : Environment{{two_nodes_variable, "1"},
                                               {"CCLD_CPU_DEVICE_NVSWITCH", "1"},
                                               {"NCCL_NVLS_ENABLE", "0"},
                                               {"NCCL_TOPO_FILE", CCLD_TEST_TOPOLOGIES "/pxn.xml"},
                                               {"NCCL_NET_PLUGIN", CCLD_STANDIN_NET},
                                               {"CCLD_CPU_DEVICE_GPU_DIRECT", "1"}}) {
    environment.emplace_back(name, value);
  }
  return environment;
}

uint32_t hidden_by_pxn(int rank) { return abi::hidden_network | (rank % 2 == 0 ? 0u : abi::hidden_pxn); }

bool pxn_test() {
  Job job("PXN", "all_reduces", job_ranks, pxn_environment());
  for (int rank = 0; rank < job_ranks; ++rank) {
    const SeenComm& comm = job.only(rank, job_ranks);
    for (const uint64_t op_seq : {1, 2, 3, 4}) job.measured(comm, rank, op_seq);
    expect_hidden(job, rank, hidden_by_pxn(rank));
  }
  return job.good();
}

// Each communicator says what its connections hide, whichever of those that share them has made them; but nothing of
// connections to ranks that it does not have.
bool shared_connections_test() {
  Job job("shared connections", "shared_connections", job_ranks, pxn_environment());
  int of_all_ranks = 0, of_nodes = 0;
  for (const auto& [key, comm] : job.sink.comms) {
    const int rank = std::get<1>(key);
    const bool all_ranks = comm.rank_count == job_ranks;
    ++(all_ranks ? of_all_ranks : of_nodes);
    job.measured(comm, rank, 1);
    job.equal(comm.hidden, all_ranks ? hidden_by_pxn(rank) : 0u,
              "rank " + std::to_string(rank) + " of " + std::to_string(comm.rank_count) + ": what is not measured");
    if (all_ranks) job.check(comm.net_connections != 0, "no network device is known of rank " + std::to_string(rank));
  }
  job.equal(of_all_ranks, 3 * job_ranks, "communicators of all ranks");
  job.equal(of_nodes, job_ranks, "communicators of nodes");
  return job.good();
}

// An external network plugin: proxies are seen as ever, the queues of its device are not. Without runtime connections
// NCCL connects before the communicator has a frame.
bool network_plugin_test() {
  bool good = true;
  for (const char* const connects_at_runtime : {"1", "0"}) {
    Environment environment = ring("Simple");
    for (const auto& [name, value] : Environment{{two_nodes_variable, "1"},
                                                 {"NCCL_NET_PLUGIN", CCLD_STANDIN_NET},
                                                 {"NCCL_RUNTIME_CONNECT", connects_at_runtime}})
      environment.emplace_back(name, value);
    Job job(std::string("network plugin, connects at run time: ") + connects_at_runtime, "all_reduces", job_ranks,
            environment);
    for (int rank = 0; rank < job_ranks; ++rank) {
      const SeenComm& comm = job.only(rank, job_ranks);
      for (const uint64_t op_seq : {1, 2, 3, 4}) {
        const SeenRound r = job.measured(comm, rank, op_seq);
        job.check((r.signals & abi::signal_proxy) != 0, job.label(rank, op_seq) + ": no proxy");
      }
      expect_hidden(job, rank, abi::hidden_network);
      job.check(comm.net_connections != 0, "no network device is known of rank " + std::to_string(rank));
    }
    job.check(job.sink.net_queues == 0, "queues were reported that nobody can have counted");
    good = job.good() && good;
  }
  return good;
}

bool streams_test() {
  Job job("streams", "streams", 2, ring("Simple"));
  for (int rank = 0; rank < 2; ++rank) {
    const Steps expected = ring_steps({"Simple", buffer_bytes}, RingOperation::all_reduce, rank, 2, small_count, f32_bytes, 0);
    int used = 0;
    for (const auto& [key, comm] : job.sink.comms) {
      if (std::get<1>(key) != rank || comm.rounds.empty()) continue;
      ++used;
      for (uint64_t op_seq = 1; op_seq <= 20; ++op_seq) job.expect_steps(job.measured(comm, rank, op_seq), rank, expected);
    }
    job.equal(used, 4, "communicators of rank " + std::to_string(rank) + " with rounds");
  }
  return job.good();
}

bool communicators_test() {
  Job job("communicators", "communicators", job_ranks, ring("Simple"));
  std::map<uint64_t, int> members;
  std::map<uint64_t, uint64_t> parents;
  for (const auto& [key, comm] : job.sink.comms) {
    const auto& [uid, rank] = key;
    ++members[uid];
    if (parents.count(uid) != 0) job.check(parents[uid] == comm.parent_uid, "ranks name different parents");
    parents[uid] = comm.parent_uid;
    job.check(comm.up && comm.down, "a communicator that was not announced, or whose end was not");
    const Steps expected = ring_steps({"Simple", buffer_bytes}, RingOperation::all_reduce, rank, comm.rank_count, small_count, f32_bytes, 0);
    job.expect_steps(job.measured(comm, rank, 1), rank, expected);
  }
  std::multiset<int> sizes;
  uint64_t root = 0;
  for (const auto& [uid, count] : members) {
    sizes.insert(count);
    if (parents[uid] == 0) root = uid;
  }
  // The parent, two halves, and two shrunk ones that NCCL's own hash does not tell apart.
  job.check(sizes == std::multiset<int>{2, 2, 3, 3, 4}, "communicators were mixed up");
  for (const auto& [uid, parent] : parents) job.check(uid == root || parent == root, "a child does not name its parent");
  return job.good();
}

bool ended_test(const std::string& suite, abi::CommState state) {
  Job job(suite, suite, 3, ring("Simple"));
  for (int rank = 0; rank < 3; ++rank) {
    const SeenComm& comm = job.only(rank, 3);
    job.measured(comm, rank, 1);
    job.check(comm.down, "the end was not reported");
    job.equal(comm.end_state, state, "state at the end of rank " + std::to_string(rank));
  }
  return job.good();
}

bool abort_test() { return ended_test("abort", abi::CommState::aborted); }
bool revoke_test() { return ended_test("revoke", abi::CommState::revoked); }

bool init_incomplete_test() {
  Job job("init without the last rank", "init_incomplete", 3, {});
  std::set<int> heard;
  for (const auto& [key, init] : job.sink.inits) {
    heard.insert(std::get<1>(key));
    job.equal(init.rank_count, 3, "ranks that are expected");
    job.check(init.stage == static_cast<uint8_t>(abi::InitStage::entered) ||
                  init.stage == static_cast<uint8_t>(abi::InitStage::failed),
              "rank " + std::to_string(std::get<1>(key)) + " is said to have got to stage " + std::to_string(init.stage));
  }
  job.check(heard == std::set<int>{0, 1}, "ranks 0 and 1 wait for rank 2, and nobody heard of rank 2");
  return job.good();
}

bool create_destroy_test() {
  Job job("create and destroy", "create_destroy", 1, {});
  int up = 0, down = 0;
  for (const auto& [key, comm] : job.sink.comms) {
    up += comm.up;
    down += comm.down;
  }
  job.equal(up, 40, "communicators announced");
  job.equal(down, 40, "ends announced");
  return job.good();
}

bool fork_and_exec_test() {
  // A child that ends by exit() takes NCCL's own RAS thread of its parent with it, with or without a probe.
  Environment environment = ring("Simple");
  environment.emplace_back("NCCL_RAS_ENABLE", "0");
  Job job("fork and exec", "fork_and_exec", 2, environment);
  for (int rank = 0; rank < 2; ++rank) {
    const SeenComm& comm = job.only(rank, 2);
    for (const uint64_t op_seq : {1, 2, 3}) job.measured(comm, rank, op_seq);
  }
  return job.good();
}

}  // namespace

int run_test(const std::string& name) {
  static const std::map<std::string, bool (*)()> tests = {
      {"ring", ring_test},
      {"refused_registration", refused_registration_test},
      {"tree", tree_test},
      {"types", types_test},
      {"fused", fused_test},
      {"point_to_point", point_to_point_test},
      {"gather_scatter", gather_scatter_test},
      {"all_gather_v", all_gather_v_test},
      {"pat", pat_test},
      {"nvls", nvls_test},
      {"nvls_tree", nvls_tree_test},
      {"collnet", collnet_test},
      {"graph", graph_test},
      {"simulated", simulated_test},
      {"one_rank", one_rank_test},
      {"device_api", device_api_test},
      {"gin", gin_test},
      {"pxn", pxn_test},
      {"network_plugin", network_plugin_test},
      {"streams", streams_test},
      {"communicators", communicators_test},
      {"shared_connections", shared_connections_test},
      {"abort", abort_test},
      {"revoke", revoke_test},
      {"init_incomplete", init_incomplete_test},
      {"create_destroy", create_destroy_test},
      {"fork_and_exec", fork_and_exec_test},
  };
  const auto found = tests.find(name);
  if (found == tests.end()) return -1;
  return found->second() ? 0 : 1;
}

}  // namespace ccld::operations_test
