#include "benchmarks/strangers/announcer.h"

#include <utility>

namespace ccld::bench {
namespace {

constexpr int huge_ranks = 1 << 18;
constexpr int init_ranks = 100'000;
constexpr int lanes_of_channel = 8;
constexpr uint64_t known_processes = 8;

wire::OpSignature signature() {
  return {1,
          -1,
          static_cast<uint8_t>(abi::Function::all_reduce),
          0,
          0,
          static_cast<uint8_t>(abi::Algorithm::ring),
          static_cast<uint8_t>(abi::Protocol::simple),
          0,
          abi::channels_max};
}

}  // namespace

const char* name(Claim claim) {
  switch (claim) {
    case Claim::communicators: return "communicators";
    case Claim::whole: return "whole";
    case Claim::at_work: return "at_work";
    case Claim::ranks: return "ranks";
    case Claim::processes: return "processes";
    case Claim::initializations: return "initializations";
    case Claim::names: return "names";
    case Claim::repeated: return "repeated";
  }
  return "unknown";
}

Announcer::Announcer(std::vector<Claim> claims, uint64_t machines, uint32_t seed)
    : claims_(std::move(claims)), machines_(machines), random_(seed) {}

probe::CommUpMessage Announcer::comm_up(uint64_t comm, int rank, int rank_count) {
  probe::CommUpMessage m;
  m.identity.comm_uid = m.identity.comm_hash = comm;
  m.identity.node = m.identity.local_rank = 0;
  m.identity.node_count = 1;
  m.rank = rank;
  m.rank_count = rank_count;
  return m;
}

std::string Announcer::long_name() {
  std::string text(255, 'x');
  for (char& c : text) c = static_cast<char>('a' + random_() % 26);
  return text;
}

// With as many channels, endpoints and proxies as a message may have.
void Announcer::at_work(uint64_t comm, int rank) {
  probe::InFlightMessage m;
  m.comm_uid = comm;
  m.rank = rank;
  m.sample_monotonic_ns = static_cast<uint64_t>(monotonic_ns());
  m.entered_op_seq = m.launched_op_seq = 16;
  m.moved_age_ms = 60'000;
  m.late = true;
  for (uint64_t op = 1; op <= 16; ++op) {
    probe::OperationInFlight o;
    o.op_seq = op;
    o.signature = signature();
    o.plan = static_cast<uint32_t>(op);
    o.enter_age_ms = o.launch_age_ms = 60'000;
    o.launched = true;
    o.begun = op == 1;
    for (uint16_t c = 0; c < abi::channels_max; ++c)
      o.channels.emplace_back(1, c, true, false, 60'000, 1, random_(), random_());
    m.operations.push_back(o);
  }
  m.operations_total = 16;
  for (uint16_t c = 0; c < abi::channels_max; ++c)
    for (int lane = 0; lane < lanes_of_channel; ++lane) {
      const auto step = static_cast<uint32_t>(random_());
      m.lanes.emplace_back(1, step, 0, step, step, 1 - rank, 60'000, 1, 60'000, c, static_cast<uint8_t>(lane % 2),
                           uint8_t(lane / 2), 0, static_cast<uint8_t>(abi::WaitKind::data), 1, 0);
      if (lane < 2)
        m.proxies.emplace_back(random_(), random_(), random_(), random_(), random_(), 1, 1, 1 - rank, 0, 1, 60'000, c,
                               static_cast<uint8_t>(lane), uint8_t{0});
    }
  encoder_.add(m);
}

void Announcer::send(Line& line, uint64_t process) {
  probe::Sender sender;
  sender.job = "job" + std::to_string(process % 1000);
  sender.host = "stranger" + std::to_string(process % machines_);
  sender.boot_id = "boot of " + sender.host;
  sender.pid = static_cast<uint32_t>(1 + process % 4'000'000);
  sender.pid_start_ticks = 1 + process;
  sender.nccl_version = 22907;
  // Numbers of a process that speaks again go on; here all of them may.
  line.send(sender, ++batches_, encoder_);
}

void Announcer::next(Line& line) {
  const Claim claim = claims_[claimed_ % claims_.size()];
  const uint64_t comm = (uint64_t{1} << 40) + ++claimed_;
  const uint64_t process = known_processes + ++processes_;
  switch (claim) {
    case Claim::communicators:
      encoder_.add(comm_up(comm, static_cast<int>(random_() % 1000), 1000));
      return send(line, process);
    case Claim::whole:
    case Claim::at_work:
      for (int rank = 0; rank < 2; ++rank) {
        encoder_.add(comm_up(comm, rank, 2));
        if (claim == Claim::at_work) at_work(comm, rank);
        send(line, rank == 0 ? process : known_processes + ++processes_);
      }
      return;
    case Claim::ranks:
      encoder_.add(comm_up(1 + claimed_ % 16, static_cast<int>(random_() % huge_ranks), huge_ranks));
      return send(line, process);
    case Claim::processes: encoder_.add(probe::HealthMessage()); return send(line, process);
    case Claim::initializations: {
      probe::CommInitMessage m;
      m.number = 1;
      m.comm_hash = comm;
      m.rank = static_cast<int>(random_() % init_ranks);
      m.rank_count = init_ranks;
      m.stage = abi::InitStage::entered;
      m.stage_age_ms = m.enter_age_ms = 1000;
      encoder_.add(m);
      // And more ranks of one that is known, which cost no further initialization.
      m.comm_hash = 1;
      for (int i = 0; i < 64; ++i) {
        m.rank = static_cast<int>(random_() % init_ranks);
        encoder_.add(m);
      }
      return send(line, process);
    }
    case Claim::names: {
      probe::CommUpMessage up = comm_up(comm, 0, 2);
      up.identity.comm_name = up.identity.host = up.identity.gpu_bus_id = long_name();
      for (int c = 0; c < 16; ++c) up.connections.push_back({abi::Direction::send, c, 1, c, long_name()});
      encoder_.add(up);
      probe::MetricsMessage metrics;
      for (int i = 0; i < 64; ++i) metrics.metrics.push_back({abi::MetricId::gpu_sm_clock_mhz, long_name(), 1});
      encoder_.add(metrics);
      return send(line, process);
    }
    case Claim::repeated:
      for (int i = 0; i < 16; ++i) encoder_.add(comm_up(comm + (static_cast<uint64_t>(i) << 32), 0, 1000));
      return send(line, random_() % known_processes);
  }
}

}  // namespace ccld::bench
