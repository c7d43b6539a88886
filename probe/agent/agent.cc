#include "probe/agent/agent.h"

#include <algorithm>
#include <utility>

#include "probe/counters/log.h"
#include "probe/frames/doorbell.h"
#include "probe/frames/frame_file.h"
#include "probe/frames/new_file.h"
#include "probe/frames/recording.h"
#include "probe/frames/words.h"
#include "schemas/endpoints/endpoint_list.h"

namespace ccld::probe {
namespace {

using abi::ServiceState;

// Of the service, in its warning.
std::string trouble_text(ServiceState state, bool keys, uint64_t answer_ns) {
  const std::string answer_time = std::to_string(answer_ns / ns_per_s) + " s";
  switch (state) {
    case ServiceState::unresolved: return "cannot be reached: its name has no address";
    case ServiceState::refused: return "cannot be reached: nothing listens there, or there is no route";
    case ServiceState::unanswered: return "cannot be reached: nobody answers at that address";
    case ServiceState::mute:
      return "cannot be reached: what listens there does not answer as ZeroMQ does; it is stopped, or not ccld serve";
    case ServiceState::connected: return "is connected and takes no batches";
    case ServiceState::deaf:
      return "is connected and has acknowledged no batch for " + answer_time +
             ": it is stopped, older than this library, or not ccld serve";
    case ServiceState::stalled:
      return "is connected and has acknowledged no batch for " + answer_time + ": it is stopped or overloaded";
    case ServiceState::rejected:
      return "does not accept the key of this process (NCCL_PROBE_KEY_FILE): it is not in the service's list";
    case ServiceState::one_sided:
      return keys ? "uses no keys, and NCCL_PROBE_SERVER_KEY demands that it proves its own"
                  : "accepts only processes with a key: NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE are not set";
    case ServiceState::other_key:
      return "ends the handshake: its key is not that of NCCL_PROBE_SERVER_KEY, it uses no keys, or it is not ccld serve";
    default: return "cannot be reached: no connection comes about, or none lasts";
  }
}

// Nothing waits for such a service: libzmq has no queue for it.
bool refuses_us(ServiceState state) {
  return state == ServiceState::rejected || state == ServiceState::one_sided || state == ServiceState::other_key;
}

}  // namespace

struct Agent::Attached {
  Attached(Comm* c, const abi::FrameView& frame, const TrackerOptions& options, Instant now)
      : comm(c), tracker(frame, c->identity.comm_uid, c->setup.rank, options, now) {}

  Comm* const comm;
  CommTracker tracker;
  uint64_t samples = 0;
  uint64_t events = 0;
  uint64_t next_up_ns = 0, up_repeat_ns = comm_up_repeat_ns_min;
  uint32_t up_connections_version = 0;
  uint64_t next_late_ns = 0;
  uint64_t next_flush_ns = 0;
  uint64_t next_publish_ns = 0;
  bool lost = false;  // and told

  // The service is another one, which knows nothing.
  void announce_again() {
    next_up_ns = 0;
    up_repeat_ns = comm_up_repeat_ns_min;
  }
  // What readers of the frame see of this agent.
  void publish(Instant now) {
    abi::AgentLine& line = comm->header->agent;
    store_relaxed(line.heartbeat_monotonic_ns, now.monotonic_ns);
    store_relaxed(line.completed_op_seq, tracker.completed_op_seq());
    store_relaxed(line.samples, samples);
    store_relaxed(line.lapped_rounds, tracker.lapped_rounds());
    const SummedRuns summed = tracker.summed_kernels();
    store_relaxed(line.summed_kernels, summed.runs);
    store_relaxed(line.summed_busy_ns, summed.busy_ns);
    store_relaxed(line.summed_send_steps, summed.send_steps);
    store_relaxed(line.summed_recv_steps, summed.recv_steps);
    next_publish_ns = now.monotonic_ns + publish_idle_ns;
  }
  void add_losses(Health* health) const {
    health->lapped_rounds += tracker.lapped_rounds();
    health->p2p_lapped += tracker.lapped_calls();
    health->forgotten_captures += tracker.forgotten_captures();
    health->dropped_rounds += tracker.dropped_rounds();
    health->reported_rounds += tracker.finished_rounds();
    health->unseen_operations += tracker.unseen_while_stopped();
    health->proxies_dropped += load_relaxed(comm->header->proxy.dropped);
    const SummedRuns summed = tracker.summed_kernels();
    health->summed_kernels += summed.runs;
    health->summed_busy_ns += summed.busy_ns;
    health->summed_send_steps += summed.send_steps;
    health->summed_recv_steps += summed.recv_steps;
  }
};

Agent::Agent(const Settings& settings, const Sender& sender, const Clock& clock)
    : settings_(settings),
      clock_(clock),
      sender_(sender),
      tells_(!settings.endpoint.empty()),
      pace_({static_cast<uint64_t>(settings.sample_us) * ns_per_us, 0, 0, 0}) {
  batch_sender_ = sender;
  in_force_.sample_us = static_cast<uint32_t>(settings.sample_us);
  in_force_.log = static_cast<uint32_t>(abi::LogVerbosity::info);
  in_force_.budget_ppm = static_cast<uint32_t>(settings.budget_ppm);
  in_force_.period_us = in_force_.sample_us;
  in_force_.endpoint = settings.endpoint;
  pace_.set(pace_options());
}

Agent::~Agent() = default;

void Agent::set_transport(std::unique_ptr<Transport> transport) { change_transport(std::move(transport)); }

void Agent::change_transport(std::unique_ptr<Transport> transport) {
  give_up_waiting();
  service_.restart();
  undelivered_when_there_ = deliveries_.undelivered();
  unconfirmed_when_there_ = deliveries_.unconfirmed_when_answered();
  queues_lost_ = moves_ = 0;
  endpoint_ = 0;
  transport_ = std::move(transport);
  announce_again();  // who listens there knows nothing
  endpoints_ = transport_ != nullptr ? endpoints_in(in_force_.endpoint) : std::vector<std::string>();
}

PaceOptions Agent::pace_options() const {
  PaceOptions options;
  options.sample_ns = uint64_t{in_force_.sample_us} * ns_per_us;
  options.idle_ns = static_cast<uint64_t>(settings_.idle_ms) * ns_per_ms;
  options.rest_ns = static_cast<uint64_t>(settings_.rest_ms) * ns_per_ms;
  options.budget_ppm = in_force_.budget_ppm;
  return options;
}

// ---- communicators that come and go
// ----------------------------------------------------------------------------------

void Agent::attach(Comm* comm) {
  const Instant now = clock_.now();
  TrackerOptions options;
  options.late_ns = static_cast<uint64_t>(settings_.late_ms) * ns_per_ms;
  options.poll_fresh_ns = static_cast<uint64_t>(settings_.poll_fresh_ms) * ns_per_ms;
  const auto frame = abi::FrameView::open(comm->memory, comm->bytes, nullptr);
  if (!frame) return;
  auto attached = std::make_unique<Attached>(comm, *frame, options, now);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    attached->tracker.keep_rounds(tells_);
    if (!comm->identity.host.empty()) sender_.host = comm->identity.host;
    if (sender_.nccl_version == 0) sender_.nccl_version = comm->setup.nccl_version;
    comm->agent_state = attached.get();
    comms_.push_back(std::move(attached));
    wakes_ = true;
  }
  ring_if_resting();
}

void Agent::detach(Comm* comm, abi::CommState end_state) {
  const Instant now = clock_.now();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    detach_locked(comm, end_state, now);
  }
  ring_if_resting();
}

void Agent::detach_locked(Comm* comm, abi::CommState end_state, Instant now) {
  const auto found = std::find_if(comms_.begin(), comms_.end(), [comm](const auto& a) { return a->comm == comm; });
  if (found == comms_.end()) return;
  Attached& attached = **found;
  CommTracker& tracker = attached.tracker;
  tracker.sample(now);
  ++attached.samples;
  attached.publish(now);
  if (tells_ && outbox_.size() >= outbox_messages_max) {
    ++outbox_refused_;
  } else if (tells_) {
    // A communicator that lived shorter than the agent's period was never announced.
    // And what was found out since its last announcement would never be told.
    const bool news = attached.up_connections_version != comm->connections_version.load(std::memory_order_relaxed);
    if (attached.next_up_ns == 0 || news) outbox_.emplace_back(comm_up(attached));
    if (tracker.has_rounds()) outbox_.emplace_back(tracker.take_rounds(now, true));
    if (tracker.has_p2p()) outbox_.emplace_back(tracker.take_p2p(now, true));
    CommDownMessage down;
    down.comm_uid = comm->identity.comm_uid;
    down.rank = comm->setup.rank;
    down.state = static_cast<uint32_t>(end_state);
    down.last_entered_op_seq = tracker.entered_op_seq();
    outbox_.emplace_back(down);
  }
  attached.add_losses(&gone_);
  comm->agent_state = nullptr;
  comms_.erase(found);
  wakes_ = true;
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
  m.hidden = __atomic_load_n(&comm.header->state.hidden, __ATOMIC_RELAXED);
  std::lock_guard<std::mutex> lock(comm.connections_mutex);
  m.connections = comm.connections;
  return m;
}

// ---- a pass over all communicators
// -----------------------------------------------------------------------------------

// NCCL may have aborted or revoked it without a call that the hooks see.
void Agent::refresh_state(Attached& attached) {
  const CommIdentity& identity = attached.comm->identity;
  if (identity.current_state == nullptr) return;
  const abi::CommState state = identity.current_state(identity.state_context);
  if (state > abi::CommState::ready) frame_set_state(*attached.comm, state);
}

void Agent::report(Attached& attached, Instant now, bool beat, std::vector<Message>* out) {
  const uint64_t t = now.monotonic_ns;
  CommTracker& tracker = attached.tracker;
  const bool first = attached.next_up_ns == 0;
  const bool news =
      attached.up_connections_version != attached.comm->connections_version.load(std::memory_order_relaxed);
  // New connections come in bursts: they are told with the next heartbeat.
  if (first || t >= attached.next_up_ns || (news && beat)) {
    out->emplace_back(comm_up(attached));
    attached.next_up_ns = t + attached.up_repeat_ns;
    attached.up_repeat_ns = std::min(2 * attached.up_repeat_ns, comm_up_repeat_ns_max);
  }
  if ((tracker.has_rounds() || tracker.has_p2p()) && t >= attached.next_flush_ns) {
    const size_t before = out->size();
    RoundsMessage rounds = tracker.take_rounds(now, false);
    if (!rounds.rounds.empty()) out->emplace_back(std::move(rounds));
    P2pRoundsMessage calls = tracker.take_p2p(now, false);
    if (!calls.rounds.empty()) out->emplace_back(std::move(calls));
    if (out->size() != before) attached.next_flush_ns = t + static_cast<uint64_t>(settings_.flush_ms) * ns_per_ms;
  }
  const bool late_beat = tracker.late(now) && t >= attached.next_late_ns;
  if (beat || first || late_beat) {
    InFlightMessage snapshot = tracker.in_flight_message(now);
    snapshot.held = holds_();
    out->emplace_back(std::move(snapshot));
    attached.next_late_ns = t + static_cast<uint64_t>(settings_.late_report_ms) * ns_per_ms;
  }
}

// Its file was truncated: the training path goes on in other memory, which a GPU does not know. Like one that an operator
// has stopped, it accuses nobody.
void Agent::tell_lost(Attached& attached, Instant now, bool beat, std::vector<Message>* out) {
  CommTracker& tracker = attached.tracker;
  tracker.take_rounds(now, true);
  tracker.take_p2p(now, true);
  if (!std::exchange(attached.lost, true)) {
    comm_unwatched();
    warn_once(Warning::file_lost, "a communicator is not watched any more: somebody has truncated " + attached.comm->path);
  }
  if (beat && sends()) out->emplace_back(tracker.stopped_message(now));
}

// Who stops this process, or looks at it, finds no frame any more, or somebody else's. This process itself goes on: it
// has the memory. Not under the mutex: a folder may be on a file system that does not answer, and the training path
// waits for the mutex when a communicator comes or goes.
void Agent::look_at_files() {
  struct File {
    uint32_t comm_number;
    std::string path;
    FileId made;
  };
  std::vector<File> files;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& attached : comms_)
      if (!attached->comm->path.empty())
        files.push_back({attached->comm->number, attached->comm->path, attached->comm->file});
  }
  for (const File& file : files) {
    const char* const what = what_became_of(file.path, file.made);
    if (what == nullptr) continue;
    {
      // The file of a communicator that has ended meanwhile went with it.
      std::lock_guard<std::mutex> lock(mutex_);
      const auto is_its = [&file](const auto& attached) { return attached->comm->number == file.comm_number; };
      if (std::none_of(comms_.begin(), comms_.end(), is_its)) continue;
    }
    file_gone_told_ = true;
    warn_once(Warning::file_gone,
              "ccld frames and the other processes of this host cannot see a communicator any more: somebody has " +
                  std::string(what) + " " + file.path + "; this process reports it as before");
    return;
  }
}

void Agent::sample_all(Instant now, bool beat, std::vector<Message>* out) {
  uint64_t events = 0;
  late_ = false;
  activity_.in_flight = activity_.replays = false;
  bool moving = false;
  uint64_t gpus = 0;  // a bit each
  for (const auto& attached : comms_) {
    gpus |= uint64_t{1} << (static_cast<unsigned>(attached->comm->setup.cuda_device) % 64);
    CommTracker& tracker = attached->tracker;
    const uint64_t movement = tracker.movement();
    tracker.sample(now);
    ++attached->samples;
    if (attached->comm->guard.lost()) {
      tell_lost(*attached, now, beat, out);
      continue;
    }
    if (tracker.busy() || tracker.movement() != movement || now.monotonic_ns >= attached->next_publish_ns)
      attached->publish(now);
    if (beat) refresh_state(*attached);
    const uint64_t seen = tracker.events();
    events = std::max(events, seen - attached->events);
    attached->events = seen;
    const bool late = tracker.late(now);
    late_ |= late;
    // What began and ended between two passes was in flight too.
    activity_.in_flight |= tracker.busy() || tracker.movement() != movement;
    moving |= tracker.busy() && !late;
    activity_.replays |= tracker.replays();
    if (sends())
      report(*attached, now, beat, out);
    else if (tracker.has_rounds() || tracker.has_p2p()) {  // nobody to tell
      tracker.take_rounds(now, true);
      tracker.take_p2p(now, true);
    }
  }
  activity_.stuck = activity_.in_flight && !moving;
  idle_at_ns_.store(activity_.in_flight ? 0 : now.monotonic_ns, std::memory_order_release);
  activity_.events += events;
  activity_.gpus = static_cast<unsigned>(__builtin_popcountll(gpus));
}

// Recording is stopped: the process says that it is there, and nothing else.
void Agent::stand_by(Instant now, bool beat, std::vector<Message>* out) {
  late_ = false;
  activity_.in_flight = activity_.replays = activity_.stuck = false;
  idle_at_ns_.store(0, std::memory_order_release);
  if (!beat) return;
  for (const auto& attached : comms_) {
    attached->publish(now);
    refresh_state(*attached);
    if (transport_ != nullptr) out->emplace_back(attached->tracker.stopped_message(now));
  }
}

bool Agent::anything_new() {
  std::lock_guard<std::mutex> lock(mutex_);
  return wakes_ || (in_force_.running &&
                    std::any_of(comms_.begin(), comms_.end(), [](const auto& a) { return a->tracker.news(); }));
}

uint64_t Agent::wait_ns(Instant now) {
  const uint64_t slowdowns = pace_.slowdowns();
  const Pace::Step step =
      pace_.next(now.monotonic_ns, pace_.wants_cpu(now.monotonic_ns) ? clock_.thread_cpu_ns() : 0, activity_);
  if (pace_.slowdowns() != slowdowns) {
    const std::string line =
        "sampling slows down to stay within NCCL_PROBE_BUDGET_PPM=" + std::to_string(in_force_.budget_ppm) +
        ": every " + std::to_string(pace_.period_ns() / ns_per_us) + " us";
    if (!std::exchange(slowdown_told_, true))
      log_line(LogLevel::info, line + "; this is said once, the metrics go on counting");
    else
      log_trace(line);
  }
  health_.period_us = in_force_.period_us = static_cast<uint32_t>(pace_.period_ns() / ns_per_us);
  health_.budget_slowdowns = pace_.slowdowns();
  resting_ = step.rest && in_force_.running;
  // Nobody records, so nobody would ring.
  if (!in_force_.running) return control_poll_ns;
  // Without a service only readers of the frames profit, and they look at most that often.
  if (!step.rest && transport_ == nullptr)
    return std::max(step.wait_ns, static_cast<uint64_t>(settings_.idle_ms) * ns_per_ms);
  // Several heartbeats do not need several wake-ups.
  if (step.rest && next_beat_ns_ > now.monotonic_ns)
    return std::min(step.wait_ns, std::max(next_beat_ns_ - now.monotonic_ns, uint64_t{ns_per_ms}));
  return step.wait_ns;
}

uint64_t Agent::heartbeat_ns() const {
  const uint64_t period_ns = static_cast<uint64_t>(settings_.heartbeat_ms) * ns_per_ms;
  return resting_ ? std::max(period_ns, std::min(2 * period_ns, rest_heartbeat_ns)) : period_ns;
}

uint64_t Agent::tick() {
  const Instant now = clock_.now();
  ++health_.samples;
  if (due_ns_ != 0 && now.monotonic_ns > due_ns_ + wait_ns_) ++health_.late_samples;
  if (now.monotonic_ns >= next_control_ns_) poll_control(now);
  const bool beat = now.monotonic_ns >= next_beat_ns_;
  if (beat) {
    const uint64_t period_ns = heartbeat_ns();
    const bool on_grid = next_beat_ns_ != 0 && now.monotonic_ns - next_beat_ns_ < period_ns;
    next_beat_ns_ = (on_grid ? next_beat_ns_ : now.monotonic_ns) + period_ns;
  }
  std::vector<Message> messages;
  uint64_t refused = 0;
  bool woken = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    messages.swap(outbox_);
    refused = std::exchange(outbox_refused_, 0);
    if (in_force_.running)
      sample_all(now, beat, &messages);
    else
      stand_by(now, beat, &messages);
    woken = std::exchange(wakes_, false);
    if (woken || beat) {
      batch_sender_ = sender_;
      Health losses = gone_;
      for (const auto& attached : comms_) attached->add_losses(&losses);
      health_.lapped_rounds = losses.lapped_rounds;
      health_.p2p_lapped = losses.p2p_lapped;
      health_.dropped_rounds = losses.dropped_rounds;
      health_.reported_rounds = losses.reported_rounds;
      health_.unseen_operations = losses.unseen_operations;
      health_.proxies_dropped = losses.proxies_dropped;
      health_.summed_kernels = losses.summed_kernels;
      health_.summed_busy_ns = losses.summed_busy_ns;
      health_.summed_send_steps = losses.summed_send_steps;
      health_.summed_recv_steps = losses.summed_recv_steps;
    }
  }
  skip_batches(refused);
  if (woken) scan_ns_ = siblings_scan_ns_min;
  if (beat && !file_gone_told_) look_at_files();
  // Its own process may leave next: what is known is told at once.
  const bool news = in_force_.running && watch_siblings(now);
  if (beat || news) health_.cpu_ns = clock_.thread_cpu_ns();
  if (beat) publish_health(&messages);
  if ((beat || news) && sends() && siblings_ != nullptr) {
    HealthMessage m;
    m.health = health_;
    m.siblings = siblings_->states(now);
    messages.emplace_back(std::move(m));
  }
  if (beat && sends())
    for (ProcessSource* source : sources_) source->collect(now, &messages);
  send(messages);
  uint64_t wait = wait_ns(now);
  if (woken) {  // soon a first operation
    wait = pace_.period_ns();
    resting_ = false;
  }
  // The rest is over.
  next_beat_ns_ = std::min(next_beat_ns_, now.monotonic_ns + heartbeat_ns());
  // The grid is kept as long as the thread keeps up with it.
  const uint64_t next = due_ns_ + wait;
  due_ns_ = due_ns_ != 0 && next > now.monotonic_ns && next <= now.monotonic_ns + wait ? next : now.monotonic_ns + wait;
  wait_ns_ = wait;
  return due_ns_;
}

// ---- what is not about communicators
// ---------------------------------------------------------------------------------

bool Agent::watch_siblings(Instant now) {
  if (now.monotonic_ns < next_poll_ns_ && now.monotonic_ns < next_scan_ns_ && !late_) return false;
  if (siblings_ == nullptr) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (sender_.host.empty()) return false;  // no communicator yet
    SiblingOptions options;
    options.frames_dir = settings_.frames_dir;
    options.boot_id = sender_.boot_id;
    options.host = sender_.host;
    options.own = {sender_.pid, sender_.pid_namespace};
    options.keep_ns = static_cast<uint64_t>(settings_.stale_keep_s) * ns_per_s;
    siblings_ = std::make_unique<Siblings>(options);
  }
  if (now.monotonic_ns >= next_scan_ns_) {
    siblings_->scan(now);
    next_scan_ns_ = now.monotonic_ns + scan_ns_;
    scan_ns_ = std::min(scan_ns_ * 2, siblings_scan_ns_max);
  }
  // Somebody waits: what the others do is evidence now.
  const uint64_t usual_ns = static_cast<uint64_t>(settings_.siblings_ms) * ns_per_ms;
  if (late_) next_poll_ns_ = std::min(next_poll_ns_, now.monotonic_ns + usual_ns);
  bool news = false;
  if (now.monotonic_ns >= next_poll_ns_) {
    news = sends() && siblings_->poll(now);
    next_poll_ns_ = now.monotonic_ns + usual_ns * (late_      ? 1
                                                   : resting_ ? siblings_poll_factor_at_rest
                                                              : siblings_poll_factor_in_time);
  }
  return news;
}

// Own counters: into the process file, and to the service with those that others count there.
void Agent::publish_health(std::vector<Message>* out) {
  count_deliveries();
  MetricsMessage message;
  for (const HealthMetric& metric : health_metrics) {
    if (board_ != nullptr) board_->set_metric(metric.id, health_.*metric.value);
    message.metrics.push_back({metric.id, "", static_cast<int64_t>(health_.*metric.value)});
  }
  if (board_ != nullptr) {
    for (unsigned i = 1; i < abi::metrics_max; ++i) {
      const auto id = static_cast<abi::MetricId>(i);
      const auto own = [id](const HealthMetric& m) { return m.id == id; };
      if (std::any_of(std::begin(health_metrics), std::end(health_metrics), own)) continue;
      if (id == abi::MetricId::agent_service_state || id == abi::MetricId::agent_service_monotonic_ns ||
          id == abi::MetricId::agent_service_keys)
        continue;
      const uint64_t value = board_->metric(id);
      if (value != 0 || id == abi::MetricId::proxy_away_ns)
        message.metrics.push_back({id, "", static_cast<int64_t>(value)});
    }
    ControlInForce now = shown(in_force_);
    now.applied_sequence = board_sequence_;
    board_->show_control(now);
    publish_service();
  }
  if (sends()) out->emplace_back(std::move(message));
}

// ---- wishes of an operator
// ---------------------------------------------------------------------------------------------

void Agent::poll_control(Instant now) {
  next_control_ns_ = now.monotonic_ns + control_poll_ns;
  hear_service();
  if (transport_ != nullptr) look_for_service(clock_.now());  // an answer to it may have been sent meanwhile
  ControlWish wish;
  std::unique_ptr<Transport> next_transport;
  if (board_ != nullptr && board_->read_control(board_sequence_, &wish)) {
    board_sequence_ = wish.sequence;
    const ControlInForce result = apply(wish, &next_transport);
    answer(shown(result));
    if (next_transport != nullptr || in_force_.endpoint.empty()) change_transport(std::move(next_transport));
    if (transport_ != nullptr) look_for_service(clock_.now());  // which of several it begins with
    board_->show_control(shown(result));
  }
}

// A handful at a time: a service that talks without end does not keep the thread.
void Agent::hear_service() {
  for (int i = 0; i < 4 && transport_ != nullptr && transport_->receive(&received_); ++i) {
    ServiceWord word;
    if (!decode_control_request(received_.data(), received_.size(), &word)) {
      ++health_.control_refused;
      continue;
    }
    if (word.validation) {
      if (validate_)
        validate_(*word.validation);
      else
        ++health_.control_refused;
    }
    if (word.acknowledgement && deliveries_.answered(*word.acknowledgement)) {
      service_.answered();
      if (deliveries_.newcomer_lacks() >= announced_batch_) announce_again();
    }
    if (!word.wish) continue;
    std::unique_ptr<Transport> next_transport;
    const ControlInForce result = apply(*word.wish, &next_transport);
    answer(shown(result));
    if (next_transport != nullptr || in_force_.endpoint.empty()) change_transport(std::move(next_transport));
  }
}

ControlInForce Agent::apply(const ControlWish& wish, std::unique_ptr<Transport>* next_transport) {
  ControlInForce next = judge_wish(in_force_, wish);
  if (next.endpoint != in_force_.endpoint && !next.endpoint.empty()) {
    if (open_transport_) *next_transport = open_transport_(next.endpoint);
    if (*next_transport == nullptr) {
      next.refused_fields |= abi::control_endpoint;
      next.endpoint = in_force_.endpoint;
    }
  }
  const bool resumed = next.running && !in_force_.running;
  ++(next.refused_fields == 0 ? health_.control_applied : health_.control_refused);
  log_set_verbosity(static_cast<abi::LogVerbosity>(next.log));
  log_line(LogLevel::info, "tuned by an operator: running " + std::to_string(next.running) + ", every " +
                               std::to_string(next.sample_us) + " us, budget " + std::to_string(next.budget_ppm) +
                               " ppm, endpoint \"" + next.endpoint + "\"" +
                               (next.refused_fields != 0 ? "; some fields were refused" : ""));
  if (next.running != in_force_.running) set_recording(next.running);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    tells_ = !next.endpoint.empty() && next.running;
    for (const auto& attached : comms_) {
      attached->tracker.keep_rounds(tells_);
      if (resumed) attached->tracker.resumed();
    }
    in_force_ = next;
  }
  pace_.set(pace_options());
  in_force_.period_us = static_cast<uint32_t>(pace_.period_ns() / ns_per_us);
  next.period_us = in_force_.period_us;
  return next;
}

void Agent::answer(const ControlInForce& state) {
  if (transport_ == nullptr) return;
  encoder_.add(ControlStateMessage{state});
  send_batch();
}

// ---- sending
// -----------------------------------------------------------------------------------------------------------

void Agent::send(const std::vector<Message>& messages) {
  if (transport_ == nullptr || messages.empty()) return;
  for (const Message& message : messages) {
    encoder_.add(message);
    if (encoder_.bytes() >= batch_bytes_max) send_batch();
  }
  send_batch();
}

void Agent::send_batch() {
  if (encoder_.empty()) return;
  const Instant now = clock_.now();
  const bool connected = look_for_service(now);
  const bool asks = service_.wants_answer(now.monotonic_ns);
  const BatchEncoder::Bytes bytes =
      encoder_.finish(batch_sender_, ++batch_seq_, now.realtime_ns, now.monotonic_ns, asks);
  if (asks) service_.offered();
  switch (transport_->send(bytes.data, bytes.size)) {
    case SendResult::sent:
      ++(connected ? health_.sent_batches : health_.waiting_batches);
      (connected ? health_.sent_bytes : waiting_bytes_) += bytes.size;
      if (asks) {
        deliveries_.asked(batch_seq_);
        service_.asked(now.monotonic_ns);
      }
      return;
    case SendResult::full: ++health_.dropped_batches; break;
    case SendResult::error: ++health_.send_errors; break;
  }
  deliveries_.refused(1);
}

// Whether there is a connection.
bool Agent::look_for_service(Instant now, bool process_ends) {
  const bool connected = look_at_connection(now, process_ends);
  if (!service_.unanswered()) return connected;
  transport_->unanswered();
  return look_at_connection(now, process_ends);  // another endpoint may be in use now
}

bool Agent::look_at_connection(Instant now, bool process_ends) {
  const Transport::Connection connection = transport_->connection(now.monotonic_ns);
  const bool connected = connection.link == Link::up;
  if (std::exchange(queues_lost_, connection.queues_lost) != connection.queues_lost) give_up_waiting();
  if (connected) {
    health_.sent_batches += std::exchange(health_.waiting_batches, 0);
    health_.sent_bytes += std::exchange(waiting_bytes_, 0);
  }
  endpoint_ = connection.endpoint;
  if (std::exchange(moves_, connection.moves) != connection.moves) announce_again();
  const ServiceState before = service_.state();
  say(service_.look(connection, now.monotonic_ns, process_ends));
  if (service_.state() != before && board_ != nullptr) publish_service();
  if (service_.state() == ServiceState::reached) {
    undelivered_when_there_ = deliveries_.undelivered();
    unconfirmed_when_there_ = deliveries_.unconfirmed_when_answered();
    reached_endpoint_ = endpoint_in_use();
  }
  return connected;
}

void Agent::announce_again() {
  std::lock_guard<std::mutex> lock(mutex_);
  announced_batch_ = batch_seq_ + 1;
  for (const auto& attached : comms_) attached->announce_again();
}

const std::string& Agent::endpoint_in_use() const {
  return endpoint_ < endpoints_.size() ? endpoints_[endpoint_] : in_force_.endpoint;
}

ControlInForce Agent::shown(const ControlInForce& state) const {
  ControlInForce shown = state;
  if (endpoints_in(state.endpoint) == endpoints_) shown.endpoint = endpoint_in_use();  // no others are wished yet
  return shown;
}

std::string Agent::meanwhile() const {
  const uint64_t unconfirmed = deliveries_.unconfirmed_when_answered();
  const uint64_t unknown = unconfirmed - std::min(unconfirmed, unconfirmed_when_there_);
  return "; meanwhile " + std::to_string(deliveries_.undelivered() - undelivered_when_there_) +
         " batches were not delivered" +
         (unknown != 0 ? ", and of " + std::to_string(unknown) + " it is not known" : "");
}

void Agent::say(ServiceWatch::News news) {
  if (news == ServiceWatch::News::none) return;
  const std::string service = "the service at " + endpoint_in_use();
  const size_t count = endpoints_.size();
  switch (news) {
    case ServiceWatch::News::none: break;
    case ServiceWatch::News::trouble: {
      const std::string setting =
          count > 1 ? " (one of " + std::to_string(count) + " of NCCL_PROBE_ENDPOINT) " : " (NCCL_PROBE_ENDPOINT) ";
      const std::string batches =
          count > 1 ? "; the others are tried in turn, and what waits is dropped and counted each time"
          : refuses_us(service_.said())
              ? "; batches are dropped and counted until it does"
              : "; batches wait where there is room for them (NCCL_PROBE_QUEUE_MAX=" +
                    std::to_string(settings_.queue_max) + "), then they are dropped and counted";
      log_line(LogLevel::warning,
               service + setting + trouble_text(service_.said(), !settings_.server_key.empty(), service_.answer_ns()) +
                   batches);
      break;
    }
    // As loud as what it ends.
    case ServiceWatch::News::back: log_line(LogLevel::warning, service + " is there" + meanwhile()); break;
    case ServiceWatch::News::reached: log_line(LogLevel::info, service + " is there"); break;
    case ServiceWatch::News::moved:
      log_line(LogLevel::info, service + " is used instead of the one at " + reached_endpoint_ + meanwhile());
      break;
  }
}

void Agent::count_deliveries() {
  health_.acknowledged_batches = deliveries_.acknowledged();
  health_.undelivered_batches = deliveries_.undelivered();
  health_.unconfirmed_batches = deliveries_.unconfirmed(batch_seq_, health_.waiting_batches);
}

// For `ccld frames`.
void Agent::publish_service() {
  const ServiceState state = transport_ != nullptr        ? service_.state()
                             : in_force_.endpoint.empty() ? ServiceState::none
                                                          : ServiceState::unusable;
  board_->set_metric(abi::MetricId::agent_service_state, static_cast<uint64_t>(state));
  board_->set_metric(abi::MetricId::agent_service_monotonic_ns, transport_ != nullptr ? service_.since_ns() : 0);
  board_->set_metric(abi::MetricId::agent_service_keys, transport_ != nullptr && !settings_.server_key.empty());
}

void Agent::give_up_waiting() {
  const uint64_t given_up = std::exchange(health_.waiting_batches, 0);
  health_.dropped_batches += given_up;
  deliveries_.refused(given_up);
  waiting_bytes_ = 0;
}

// What was never made a batch: the service sees the gap.
void Agent::skip_batches(uint64_t count) {
  batch_seq_ += count;
  health_.dropped_batches += count;
  deliveries_.refused(count);
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
    skip_batches(std::exchange(outbox_refused_, 0));
    batch_sender_ = sender_;
  }
  if (sends())
    for (ProcessSource* source : sources_) source->collect(now, &messages);
  send(messages);
  if (transport_ != nullptr) look_for_service(clock_.now(), true);
}

}  // namespace ccld::probe
