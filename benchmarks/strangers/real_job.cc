#include "benchmarks/strangers/real_job.h"

#include <unistd.h>

namespace ccld::bench {
namespace {

constexpr int64_t ns_per_ms = 1'000'000;
constexpr uint64_t ticks_per_heartbeat = 10, ticks_per_announcement = 50;
constexpr uint64_t comm = 0x7ea1;

// Rank 3 of 8 is process 3 of node 0, whatever this program's own process is.
uint32_t pid_of(int rank) { return 4000 + static_cast<uint32_t>(rank); }
std::string host_of(int rank) { return "node" + std::to_string(rank / RealJob::per_host); }

wire::OpSignature signature() {
  return {1 << 20,
          -1,
          static_cast<uint8_t>(abi::Function::all_reduce),
          static_cast<uint8_t>(abi::Datatype::float32),
          static_cast<uint8_t>(abi::Reduction::sum),
          static_cast<uint8_t>(abi::Algorithm::ring),
          static_cast<uint8_t>(abi::Protocol::simple),
          0,
          1};
}

uint64_t u64(int64_t ns) { return static_cast<uint64_t>(ns); }
uint32_t ms(int64_t ns) { return static_cast<uint32_t>(ns / ns_per_ms); }

}  // namespace

RealJob::RealJob(zmq::context_t& context, const std::string& endpoint) : processes_(ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    Process& p = processes_[static_cast<size_t>(rank)];
    p.line = std::make_unique<Line>(context, endpoint);
    p.sender.job = "real";
    p.sender.host = host_of(rank);
    p.sender.boot_id = "boot of " + host_of(rank);
    p.sender.pid = pid_of(rank);
    p.sender.pid_start_ticks = static_cast<uint64_t>(getpid());  // another run is another job
    p.sender.nccl_version = 22907;
  }
}

void RealJob::announce(int rank, probe::BatchEncoder& out) const {
  probe::CommUpMessage m;
  m.identity.comm_uid = m.identity.comm_hash = comm;
  m.identity.node = rank / per_host;
  m.identity.node_count = ranks / per_host;
  m.identity.local_rank = rank % per_host;
  m.identity.gpu_bus_id = "0000:1" + std::to_string(rank % per_host) + ":00.0";
  m.identity.host = host_of(rank);
  m.identity.comm_name = "default_pg";
  m.identity.channels = {{0, (rank + ranks - 1) % ranks, (rank + 1) % ranks, -1, {-1, -1, -1}, -1}};
  m.comm_number = 1;
  m.rank = rank;
  m.rank_count = ranks;
  m.cuda_device = rank % per_host;
  out.add(m);
}

void RealJob::finish_operation(int rank, probe::BatchEncoder& out) const {
  const int64_t now = monotonic_ns();
  probe::FinishedRound r;
  r.op_seq = op_;
  r.signature = signature();
  r.enter_monotonic_ns = r.launch_monotonic_ns = u64(now - 50 * ns_per_ms);
  r.begin_device_ns = u64(now - 40 * ns_per_ms);
  r.end_device_ns = u64(now - 10 * ns_per_ms);
  r.send_steps = r.recv_steps = 2 * (ranks - 1);
  r.samples = 30;
  r.send_changes = r.recv_changes = 2 * (ranks - 1);
  r.flags = static_cast<uint8_t>(wire::RoundFlags::counts_valid);
  r.signals = abi::signal_times | abi::signal_steps | abi::signal_waits;
  probe::RoundsMessage m;
  m.comm_uid = comm;
  m.rank = rank;
  m.rounds = {r};
  out.add(m);
}

void RealJob::stand_still(int rank, probe::BatchEncoder& out) const {
  const int64_t now = monotonic_ns();
  const uint32_t age = stopped_ == no_rank ? 50 : ms(now - stopped_ns_);
  const bool inside = stopped_ != no_rank && rank != stopped_;
  probe::InFlightMessage m;
  m.comm_uid = comm;
  m.rank = rank;
  m.sample_monotonic_ns = u64(now);
  m.completed_op_seq = op_;
  m.entered_op_seq = m.launched_op_seq = op_ + (inside ? 1 : 0);
  m.movement = op_ * 100;
  m.moved_age_ms = age;
  m.late = age >= 1000;
  m.state = static_cast<uint32_t>(abi::CommState::ready);
  m.proxy_tick_age_ms = 1;
  if (inside) {
    const auto token = static_cast<uint32_t>(op_ + 1);
    probe::OperationInFlight o;
    o.op_seq = op_ + 1;
    o.signature = signature();
    o.plan = m.kernel_plan = token;
    o.enter_age_ms = o.launch_age_ms = age;
    o.launched = o.begun = true;
    o.signals = abi::signal_times | abi::signal_steps | abi::signal_waits;
    const int distance = (rank - stopped_ + ranks) % ranks;  // behind the absent rank each has data for so many steps
    const auto steps = static_cast<uint32_t>(distance - 1);
    o.channels.emplace_back(token, uint16_t{0}, true, false, age, 1, steps + 1, steps);
    m.lanes.emplace_back(token, 1000 + steps, 1000, 1001 + steps, 1000 + steps, (rank + ranks - 1) % ranks, age, 1, age,
                         uint16_t{0}, static_cast<uint8_t>(abi::Direction::recv), 0, 0,
                         static_cast<uint8_t>(abi::WaitKind::data), 1, 0);
    m.lanes.emplace_back(token, 1001 + steps, 1000, 0, 0, (rank + 1) % ranks, 0, 1, age, uint16_t{0},
                         static_cast<uint8_t>(abi::Direction::send), 0, 0, static_cast<uint8_t>(abi::WaitKind::none), 0,
                         0);
    m.operations = {o};
    m.operations_total = 1;
  }
  out.add(m);
}

void RealJob::heartbeat(int rank, probe::BatchEncoder& out) const {
  probe::HealthMessage health;
  const int first = rank / per_host * per_host;
  for (int other = first; other < first + per_host; ++other)
    if (other != rank) health.siblings.push_back({pid_of(other), processes_[0].sender.pid_start_ticks, 'S', 20, {}});
  out.add(health);
}

void RealJob::tick() {
  ++ticks_;
  if (stopped_ == no_rank) ++op_;
  for (int rank = 0; rank < ranks; ++rank) {
    Process& p = processes_[static_cast<size_t>(rank)];
    // As probes do: at once, then again and again for a service that was restarted.
    if (ticks_ <= 2 || ticks_ % ticks_per_announcement == static_cast<uint64_t>(rank)) announce(rank, encoder_);
    if (stopped_ == no_rank) finish_operation(rank, encoder_);
    const bool beats = (ticks_ + static_cast<uint64_t>(rank)) % ticks_per_heartbeat == 0;
    if (beats || stopped_ != no_rank) stand_still(rank, encoder_);
    if (beats) heartbeat(rank, encoder_);
    if (!encoder_.empty()) p.line->send(p.sender, ++p.batches, encoder_);
  }
}

void RealJob::stop(int rank) {
  stopped_ = rank;
  stopped_ns_ = monotonic_ns();
}

}  // namespace ccld::bench
