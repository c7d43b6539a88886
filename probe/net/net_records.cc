#include "probe/net/net_records.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "probe/monotonic.h"

namespace ccld::probe {
namespace {

constexpr uint32_t never = 0xffffffffu;

uint32_t age_ms(uint64_t now_ns, uint64_t then_ns) {
  if (then_ns == 0) return never;
  if (now_ns <= then_ns) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>((now_ns - then_ns) / ns_per_ms, never - 1));
}

uint64_t in_flight(uint64_t posted, uint64_t completed) { return posted > completed ? posted - completed : 0; }

// One writer: no read-modify-write is needed.
void add(uint64_t& word, uint64_t value) { store_relaxed(word, load_relaxed(word) + value); }

std::mutex records_mutex;  // opening and closing only

NetRecords* process_records() {
  ProcessFile* file = process_file();
  if (file == nullptr) return nullptr;
  static auto* const records = new NetRecords(*file);  // never destroyed: queues may close at the very end
  return records;
}

}  // namespace

NetQueue* NetRecords::open(abi::NetKind kind, uint64_t queue, uint32_t number, int device, const char* device_name) {
  if (queue == 0) return nullptr;
  std::lock_guard<std::mutex> lock(records_mutex);
  for (unsigned i = 0; i < abi::nets_max; ++i) {
    abi::NetRecord& record = file_.nets[i];
    if (load_relaxed(record.queue) != 0) continue;
    if (queues_[i] == nullptr) queues_[i].reset(new (std::nothrow) NetQueue);
    if (queues_[i] == nullptr) break;
    queues_[i]->record = &record;
    store_relaxed(record.number, number);
    store_relaxed(record.device, device);
    store_relaxed(record.kind, static_cast<uint8_t>(kind));
    for (uint64_t* word = &record.send_posted; word <= &record.errors; ++word) store_relaxed(*word, 0);
    memset(record.device_name, 0, sizeof(record.device_name));
    if (device_name != nullptr) {
      memcpy(record.device_name, device_name, std::min(strlen(device_name), sizeof(record.device_name) - 1));
    }
    store_release(record.queue, queue);
    return queues_[i].get();
  }
  metric_add(&file_, abi::MetricId::net_records_dropped, 1);
  return nullptr;
}

void NetRecords::close(NetQueue* queue) {
  if (queue == nullptr) return;
  std::lock_guard<std::mutex> lock(records_mutex);
  store_release(queue->record->queue, 0);
}

void NetTeller::collect(Instant now, std::vector<Message>* out) {
  NetQueuesMessage message;
  for (unsigned i = 0; i < abi::nets_max; ++i) {
    const abi::NetRecord& record = file_.nets[i];
    const uint64_t queue = load_acquire(record.queue);
    Seen& seen = seen_[i];
    if (queue == 0) {
      seen.queue = 0;
      continue;
    }
    const uint64_t send_posted = load_relaxed(record.send_posted);
    const uint64_t send_completed = load_relaxed(record.send_completed);
    const uint64_t recv_posted = load_relaxed(record.recv_posted);
    const uint64_t recv_completed = load_relaxed(record.recv_completed);
    const uint64_t errors = load_relaxed(record.errors);
    const uint64_t bytes = load_relaxed(record.send_bytes_completed) + load_relaxed(record.recv_bytes_completed);
    const uint64_t movement = send_posted + send_completed + recv_posted + recv_completed + errors + bytes;
    if (seen.queue != queue || movement < seen.movement) {  // another queue took the place
      seen = Seen{};
      seen.queue = queue;
    }
    const bool moved = movement != seen.movement;
    seen.movement = movement;
    // The oldest look that is kept is where the window begins.
    const unsigned place = seen.looks % window_looks;
    const bool full = seen.looks >= window_looks;
    const unsigned oldest = full ? place : 0;
    const uint64_t window_ns = seen.looks == 0 ? 0 : now.monotonic_ns - seen.at_ns[oldest];
    const uint64_t window_bytes = seen.looks == 0 ? 0 : bytes - seen.bytes[oldest];
    seen.bytes[place] = bytes;
    seen.at_ns[place] = now.monotonic_ns;
    ++seen.looks;

    const uint64_t sends_in_flight = in_flight(send_posted, send_completed);
    const uint64_t recvs_in_flight = in_flight(recv_posted, recv_completed);
    if (!moved && sends_in_flight == 0 && recvs_in_flight == 0) continue;
    const int32_t device = load_relaxed(record.device);
    message.queues.emplace_back(
        queue, sends_in_flight, send_posted, send_completed, window_bytes, recvs_in_flight, errors, device,
        load_relaxed(record.number), static_cast<uint32_t>(window_ns / ns_per_ms),
        age_ms(now.monotonic_ns, load_relaxed(record.post_monotonic_ns)),
        age_ms(now.monotonic_ns, load_relaxed(record.complete_monotonic_ns)), load_relaxed(record.kind));
    constexpr int32_t devices_named_max = 256;
    if (device < 0 || device >= devices_named_max) continue;
    if (message.device_names.size() <= static_cast<size_t>(device))
      message.device_names.resize(static_cast<size_t>(device) + 1);
    std::string& name = message.device_names[static_cast<size_t>(device)];
    if (name.empty()) name.assign(record.device_name, strnlen(record.device_name, sizeof(record.device_name)));
  }
  if (!message.queues.empty()) out->push_back(std::move(message));
}

ProcessSource* net_source() {
  ProcessFile* file = process_file();
  if (file == nullptr) return nullptr;
  static auto* const teller = new NetTeller(*file);
  return teller;
}

// ---- probe/probe.h ------------------------------------------------------------------------------------------------

NetQueue* net_queue(abi::NetKind kind, uint64_t queue, uint32_t number, int device, const char* device_name) {
  if (!enabled()) return nullptr;
  NetRecords* records = process_records();
  return records != nullptr ? records->open(kind, queue, number, device, device_name) : nullptr;
}

void net_posted(NetQueue* queue, abi::Direction direction, uint32_t requests, uint64_t bytes) {
  if (queue == nullptr) return;
  abi::NetRecord& record = *queue->record;
  if (direction == abi::Direction::recv) {
    add(record.recv_posted, requests);
  } else {
    const uint64_t total_bytes = load_relaxed(record.send_bytes_posted) + bytes;
    const uint64_t posted = load_relaxed(record.send_posted);
    for (uint32_t i = 0; i < requests; ++i)
      queue->send_bytes_until[(posted + i) % posted_sends_remembered] = total_bytes;
    store_relaxed(record.send_bytes_posted, total_bytes);
    store_relaxed(record.send_posted, posted + requests);
  }
  store_relaxed(record.post_monotonic_ns, monotonic_ns());
}

void net_completed(NetQueue* queue, abi::Direction direction, uint32_t requests, uint64_t bytes, bool failed) {
  if (queue == nullptr) return;
  abi::NetRecord& record = *queue->record;
  if (failed) add(record.errors, requests);
  if (direction == abi::Direction::recv) {
    store_relaxed(record.recv_completed,
                  std::min(load_relaxed(record.recv_completed) + requests, load_relaxed(record.recv_posted)));
    if (!failed) add(record.recv_bytes_completed, bytes);
  } else {
    // More completions than posts: a failing device reports unsignalled requests too.
    const uint64_t completed =
        std::min(load_relaxed(record.send_completed) + requests, load_relaxed(record.send_posted));
    store_relaxed(record.send_completed, completed);
    if (bytes != net_bytes_as_posted) {
      if (!failed) add(record.send_bytes_completed, bytes);
    } else if (!failed && completed != 0) {
      store_relaxed(record.send_bytes_completed, queue->send_bytes_until[(completed - 1) % posted_sends_remembered]);
    }
  }
  store_relaxed(record.complete_monotonic_ns, monotonic_ns());
}

void net_queue_closed(NetQueue* queue) {
  if (queue == nullptr) return;
  if (NetRecords* records = process_records()) records->close(queue);
}

}  // namespace ccld::probe
