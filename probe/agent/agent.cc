#include "probe/agent/agent.h"

#include <algorithm>
#include <utility>

#include "probe/frames/frame_file.h"
#include "probe/frames/words.h"

namespace ccld::probe {

struct Agent::Attached {
  Attached(Comm* c, const abi::FrameView& frame, const TrackerOptions& options, Instant now)
      : comm(c), tracker(frame, c->identity.comm_uid, c->setup.rank, options, now) {}

  Comm* const comm;
  CommTracker tracker;
  uint64_t samples = 0;
  uint64_t next_up_ns = 0;
  uint32_t up_connections_version = 0;
  uint64_t next_heartbeat_ns = 0;
  uint64_t next_late_ns = 0;
  uint64_t next_flush_ns = 0;

  // What readers of the frame see of this agent.
  void publish(Instant now) {
    abi::AgentLine& line = comm->header->agent;
    store_relaxed(line.heartbeat_monotonic_ns, now.monotonic_ns);
    store_relaxed(line.completed_op_seq, tracker.completed_op_seq());
    store_relaxed(line.samples, ++samples);
    store_relaxed(line.lapped_rounds, tracker.lapped_rounds());
  }
};

Agent::Agent(const Settings& settings, const Sender& sender, const Clock& clock)
    : settings_(settings),
      clock_(clock),
      sender_(sender),
      period_ns_(static_cast<uint64_t>(settings.sample_us) * ns_per_us) {}

Agent::~Agent() = default;

void Agent::set_transport(std::unique_ptr<Transport> transport) { transport_ = std::move(transport); }

void Agent::attach(Comm* comm) {
  const Instant now = clock_.now();
  TrackerOptions options;
  options.late_ns = static_cast<uint64_t>(settings_.late_ms) * ns_per_ms;
  options.poll_fresh_ns = static_cast<uint64_t>(settings_.poll_fresh_ms) * ns_per_ms;
  options.keep_rounds = !settings_.endpoint.empty();
  const auto frame = abi::FrameView::open(comm->memory, comm->bytes, nullptr);
  if (!frame) return;
  auto attached = std::make_unique<Attached>(comm, *frame, options, now);
  attached->next_heartbeat_ns = now.monotonic_ns;
  std::lock_guard<std::mutex> lock(mutex_);
  if (sender_.host.empty()) sender_.host = comm->identity.host;
  if (sender_.nccl_version == 0) sender_.nccl_version = comm->setup.nccl_version;
  comm->agent_state = attached.get();
  comms_.push_back(std::move(attached));
  wakes_ = true;
}

void Agent::detach(Comm* comm, abi::CommState end_state) {
  const Instant now = clock_.now();
  std::lock_guard<std::mutex> lock(mutex_);
  detach_locked(comm, end_state, now);
}

void Agent::detach_locked(Comm* comm, abi::CommState end_state, Instant now) {
  const auto found = std::find_if(comms_.begin(), comms_.end(), [comm](const auto& a) { return a->comm == comm; });
  if (found == comms_.end()) return;
  Attached& attached = **found;
  CommTracker& tracker = attached.tracker;
  tracker.sample(now);
  attached.publish(now);
  if (!settings_.endpoint.empty()) {
    // A communicator that lived shorter than the agent's period was never announced.
    if (attached.next_up_ns == 0) outbox_.emplace_back(comm_up(attached));
    if (tracker.has_rounds()) outbox_.emplace_back(tracker.take_rounds(now, true));
    CommDownMessage down;
    down.comm_uid = comm->identity.comm_uid;
    down.rank = comm->setup.rank;
    down.state = static_cast<uint32_t>(end_state);
    down.last_entered_op_seq = tracker.entered_op_seq();
    outbox_.emplace_back(down);
  }
  lapped_of_detached_ += tracker.lapped_rounds();
  dropped_of_detached_ += tracker.dropped_rounds();
  comm->agent_state = nullptr;
  comms_.erase(found);
}

CommUpMessage Agent::comm_up(Attached& attached) const {
  Comm& comm = *attached.comm;
  CommUpMessage m;
  m.identity = comm.identity;
  m.comm_number = comm.number;
  m.rank = comm.setup.rank;
  m.rank_count = comm.setup.rank_count;
  m.cuda_device = comm.setup.cuda_device;
  m.mode = comm.header->identity.mode;
  attached.up_connections_version = comm.connections_version.load(std::memory_order_acquire);
  std::lock_guard<std::mutex> lock(comm.connections_mutex);
  m.connections = comm.connections;
  return m;
}

void Agent::report(Attached& attached, Instant now, std::vector<Message>* out) {
  const uint64_t t = now.monotonic_ns;
  CommTracker& tracker = attached.tracker;
  const bool news =
      attached.up_connections_version != attached.comm->connections_version.load(std::memory_order_relaxed);
  const bool beat = t >= attached.next_heartbeat_ns;
  // New connections come in bursts: they are told with the next heartbeat.
  if (attached.next_up_ns == 0 || t >= attached.next_up_ns || (news && beat)) {
    out->emplace_back(comm_up(attached));
    attached.next_up_ns = t + comm_up_repeat_ns;
  }
  if (tracker.has_rounds() && t >= attached.next_flush_ns) {
    RoundsMessage rounds = tracker.take_rounds(now, false);
    if (!rounds.rounds.empty()) {
      out->emplace_back(std::move(rounds));
      attached.next_flush_ns = t + static_cast<uint64_t>(settings_.flush_ms) * ns_per_ms;
    }
  }
  const bool late_beat = tracker.late(now) && t >= attached.next_late_ns;
  if (beat || late_beat) {
    out->emplace_back(tracker.in_flight_message(now));
    if (beat) attached.next_heartbeat_ns = t + static_cast<uint64_t>(settings_.heartbeat_ms) * ns_per_ms;
    attached.next_late_ns = t + static_cast<uint64_t>(settings_.late_report_ms) * ns_per_ms;
  }
}

void Agent::sample_all(Instant now, std::vector<Message>* out) {
  uint64_t lapped = lapped_of_detached_, dropped = dropped_of_detached_;
  for (const auto& attached : comms_) {
    attached->tracker.sample(now);
    attached->publish(now);
    lapped += attached->tracker.lapped_rounds();
    dropped += attached->tracker.dropped_rounds();
    if (sends())
      report(*attached, now, out);
    else if (attached->tracker.has_rounds())
      attached->tracker.take_rounds(now, true);  // nobody to tell
  }
  health_.lapped_rounds = lapped;
  health_.dropped_rounds = dropped;
}

uint64_t Agent::period_ns(Instant now) {
  const uint64_t idle_ns = static_cast<uint64_t>(settings_.idle_ms) * ns_per_ms;
  const uint64_t sample_ns = static_cast<uint64_t>(settings_.sample_us) * ns_per_us;
  // Without a service only readers of the frames profit, and they look at most that often.
  if (!sends()) return std::max(idle_ns, sample_ns);
  bool busy = false, moving = false;
  for (const auto& attached : comms_) {
    busy |= attached->tracker.busy();
    moving |= attached->tracker.busy() && !attached->tracker.late(now);
  }
  if (moving) return sample_ns;
  if (busy) return std::max(sample_ns, stuck_period_ns);
  return std::max(sample_ns, std::min(period_ns_ * 2, idle_ns));
}

void Agent::watch_siblings(Instant now) {
  if (now.monotonic_ns < next_poll_ns_ && now.monotonic_ns < next_scan_ns_) return;
  if (siblings_ == nullptr) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (sender_.host.empty()) return;  // no communicator yet
    SiblingOptions options;
    options.frames_dir = settings_.frames_dir;
    options.boot_id = sender_.boot_id;
    options.host = sender_.host;
    options.own_pid = sender_.pid;
    options.keep_ns = static_cast<uint64_t>(settings_.stale_keep_s) * ns_per_s;
    siblings_ = std::make_unique<Siblings>(options);
  }
  if (now.monotonic_ns >= next_scan_ns_) {
    siblings_->scan(now);
    next_scan_ns_ = now.monotonic_ns + siblings_scan_ns;
  }
  if (now.monotonic_ns >= next_poll_ns_) {
    if (sends()) siblings_->poll(now);
    next_poll_ns_ = now.monotonic_ns + static_cast<uint64_t>(settings_.siblings_ms) * ns_per_ms;
  }
}

uint64_t Agent::tick() {
  const Instant now = clock_.now();
  ++health_.samples;
  if (due_ns_ != 0 && now.monotonic_ns > due_ns_ + period_ns_) ++health_.late_samples;
  std::vector<Message> messages;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    messages.swap(outbox_);
    sample_all(now, &messages);
    period_ns_ = wakes_ ? static_cast<uint64_t>(settings_.sample_us) * ns_per_us : period_ns(now);
    wakes_ = false;
    batch_sender_ = sender_;
  }
  watch_siblings(now);
  if (sends() && now.monotonic_ns >= next_health_ns_ && siblings_ != nullptr) {
    health_.cpu_ns = clock_.thread_cpu_ns();
    HealthMessage m;
    m.health = health_;
    m.siblings = siblings_->states(now);
    messages.emplace_back(std::move(m));
    next_health_ns_ = now.monotonic_ns + static_cast<uint64_t>(settings_.heartbeat_ms) * ns_per_ms;
  }
  send(messages);
  // The grid is kept as long as the thread keeps up with it.
  const uint64_t next = due_ns_ + period_ns_;
  due_ns_ = due_ns_ != 0 && next > now.monotonic_ns && next <= now.monotonic_ns + period_ns_
                ? next
                : now.monotonic_ns + period_ns_;
  return due_ns_;
}

void Agent::send(const std::vector<Message>& messages) {
  if (!sends()) return;
  for (const Message& message : messages) {
    encoder_.add(message);
    if (encoder_.bytes() >= batch_bytes_max) send_batch();
  }
  if (!messages.empty()) send_batch();
}

void Agent::send_batch() {
  if (encoder_.empty()) return;
  const Instant now = clock_.now();
  const BatchEncoder::Bytes bytes = encoder_.finish(batch_sender_, ++batch_seq_, now.realtime_ns, now.monotonic_ns);
  switch (transport_->send(bytes.data, bytes.size)) {
    case SendResult::sent:
      ++health_.sent_batches;
      health_.sent_bytes += bytes.size;
      break;
    case SendResult::full: ++health_.dropped_batches; break;
    case SendResult::error: ++health_.send_errors; break;
  }
}

void Agent::close() {
  const Instant now = clock_.now();
  std::vector<Message> messages;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    while (!comms_.empty()) {
      Comm* comm = comms_.front()->comm;
      frame_unlink(*comm);
      detach_locked(comm, static_cast<abi::CommState>(load_relaxed(comm->header->state.state)), now);
    }
    messages.swap(outbox_);
    batch_sender_ = sender_;
  }
  send(messages);
}

}  // namespace ccld::probe
