#include "decision/ingest/connection_room.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "decision/ingest/limits.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::ingest {
namespace {

constexpr Nanoseconds look_every_ns = 100 * ns_per_ms;
// Once some were cut, for a while: 2,000 connections a second are 20 in that time.
constexpr Nanoseconds look_soon_ns = 10 * ns_per_ms, short_for_ns = 10 * ns_per_s;
// For memory: what a fast network brings in that time is 25 MB. A look at one descriptor takes 2 us; a tenth of the
// time at most goes there.
constexpr Nanoseconds memory_look_every_ns = 20 * ns_per_ms, memory_look_ns_per_descriptor = 20'000;
constexpr Nanoseconds told_every_ns = 60 * ns_per_s;
// A sixteenth, for what comes between two looks: files, questions, and probes that connect.
constexpr size_t reserve_part = 16, reserve_least = 32, reserve_most = 4096;

size_t reserve_of(size_t descriptors_max) {
  return std::min(std::clamp(descriptors_max / reserve_part, reserve_least, reserve_most), descriptors_max / 2);
}

size_t quiet_most_of(uint64_t memory_max_bytes) {
  const double bytes = ConnectionRoom::quiet_part * static_cast<double>(memory_max_bytes);
  return static_cast<size_t>(bytes / static_cast<double>(ConnectionRoom::connection_bytes));
}

int port_of(absl::string_view endpoint) {
  int port = 0;
  if (!absl::StartsWith(endpoint, "tcp://")) return 0;
  return absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port) ? port : 0;
}

int port_of(const sockaddr_storage& a) {
  if (a.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(a).sin_port);
  if (a.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(a).sin6_port);
  return 0;
}

std::string address_of(const sockaddr_storage& a) {
  if (a.ss_family == AF_INET)
    return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in&>(a).sin_addr), sizeof(in_addr)};
  return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr), sizeof(in6_addr)};
}

tcp_info info_of(int descriptor) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length);
  return info;
}

}  // namespace

ConnectionRoom::ConnectionRoom(const std::string& endpoint, size_t descriptors_max, uint64_t memory_max_bytes)
    : port_(port_of(endpoint)),
      reserve_(reserve_of(descriptors_max)),
      quiet_most_(quiet_most_of(memory_max_bytes)),
      held_bytes_most_(static_cast<uint64_t>(held_part * static_cast<double>(memory_max_bytes))),
      probe_(eventfd(0, EFD_CLOEXEC)),
      descriptors_(opendir("/proc/self/fd")) {
  counters_.descriptors_max = descriptors_max;
}

ConnectionRoom::~ConnectionRoom() {
  if (probe_ >= 0) close(probe_);
  if (descriptors_ != nullptr) closedir(descriptors_);
}

ConnectionRoom::Account& ConnectionRoom::account(int descriptor) {
  const auto at = static_cast<size_t>(descriptor);
  if (at >= accounts_.size()) accounts_.resize(std::max(at + 1, 2 * accounts_.size()));
  return accounts_[at];
}

void ConnectionRoom::spoke(int descriptor, uint64_t bytes, Nanoseconds now_ns) {
  const std::lock_guard lock(mutex_);
  if (descriptor < 0 || static_cast<size_t>(descriptor) >= counters_.descriptors_max) return;
  Account& a = account(descriptor);
  a.spoke_ns = now_ns;
  a.taken_since_look_bytes += bytes;
}

// What came over the connection and was no batch. It is counted from the last look before its newest batch: a message
// that stops in the middle came after that batch. Where no look was early enough, one that still speaks is taken to hold
// nothing, and one that has fallen silent to hold a whole message.
uint64_t ConnectionRoom::held_bytes(Account& a, uint64_t received_bytes, bool speaks) {
  if (a.received_bytes > received_bytes) a = {};  // the number has gone to another connection
  if (a.taken_since_look_bytes > 0) {
    a.base_bytes = a.received_bytes;
    a.taken_bytes = std::exchange(a.taken_since_look_bytes, 0);
  }
  a.received_bytes = received_bytes;
  if (a.spoke_ns == 0) return received_bytes;
  if (!a.base_bytes.has_value()) return speaks ? 0 : std::min<uint64_t>(received_bytes, message_bytes_max);
  return received_bytes - std::min(received_bytes, *a.base_bytes + a.taken_bytes);
}

void ConnectionRoom::look(Nanoseconds now_ns, Memory memory) {
  if (port_ == 0) return;
  const std::lock_guard lock(mutex_);
  if (memory != Memory::enough && now_ns >= next_memory_ns_) free_memory(now_ns, memory);
  if (now_ns < next_look_ns_) return;
  if (is_short_of_descriptors()) free_descriptors(now_ns);
  next_look_ns_ = now_ns + (now_ns < short_until_ns_ ? look_soon_ns : look_every_ns);
}

Nanoseconds ConnectionRoom::look_again_ns() const {
  const std::lock_guard lock(mutex_);
  return next_look_ns_ < short_until_ns_ ? next_look_ns_ : INT64_MAX;
}

ConnectionCounters ConnectionRoom::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

// Numbers are given from the lowest on, so the first of the reserve is in use only if all others were.
bool ConnectionRoom::is_short_of_descriptors() const {
  const auto first = static_cast<int>(counters_.descriptors_max - reserve_);
  const int got = fcntl(probe_, F_DUPFD_CLOEXEC, first);
  if (got >= 0) close(got);
  return got != first;
}

ConnectionRoom::Found ConnectionRoom::find(Nanoseconds now_ns) {
  Found found;
  if (descriptors_ == nullptr) return found;
  // ZeroMQ's handshakes, headers and heartbeats come on top of the batches. After a long time without a look they are
  // too many to count as held: the count begins anew.
  if (now_ns - std::exchange(found_ns_, now_ns) > quiet_ns)
    for (Account& a : accounts_) a.received_bytes.reset(), a.base_bytes.reset();
  absl::flat_hash_map<std::pair<std::string, bool>, size_t> of_address;
  rewinddir(descriptors_);
  while (const dirent* const entry = readdir(descriptors_)) {
    int fd = 0;
    if (!absl::SimpleAtoi(entry->d_name, &fd)) continue;  // "."
    ++found.used;
    if (static_cast<size_t>(fd) >= counters_.descriptors_max) continue;
    sockaddr_storage own{}, peer{};
    socklen_t own_length = sizeof(own), peer_length = sizeof(peer);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 || port_of(own) != port_ ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0)
      continue;
    const tcp_info info = info_of(fd);
    Account& a = account(fd);
    const Nanoseconds since_batch_ns = a.spoke_ns == 0 ? INT64_MAX : now_ns - a.spoke_ns;
    const bool speaks = since_batch_ns <= quiet_ns;
    // One that has never said a batch may be new: then it says its first one now.
    Connection c{fd, address_of(peer), speaks,
                 speaks ? since_batch_ns : Nanoseconds{info.tcpi_last_data_recv} * ns_per_ms,
                 held_bytes(a, info.tcpi_bytes_received, speaks)};
    ++of_address[{c.address, c.speaks}];
    found.connections.push_back(std::move(c));
  }
  for (Connection& c : found.connections) c.of_address = of_address[{c.address, c.speaks}];
  return found;
}

// Between the look and this its number may have gone to another connection, which then is cut: rare, and it connects
// again.
void ConnectionRoom::cut(const Connection& c) {
  shutdown(c.descriptor, SHUT_RDWR);
  ++(c.speaks ? counters_.cut_speaking : counters_.cut_quiet);
}

void ConnectionRoom::free_descriptors(Nanoseconds now_ns) {
  Found found = find(now_ns);
  std::vector<Connection>& connections = found.connections;
  // Twice the reserve, so that not every look has to cut.
  const size_t wished = counters_.descriptors_max - 2 * reserve_;
  if (found.used <= wished) return;
  const size_t count = std::min(found.used - wished, connections.size());
  short_until_ns_ = now_ns + short_for_ns;
  std::partial_sort(connections.begin(), connections.begin() + static_cast<std::ptrdiff_t>(count), connections.end(),
                    is_cut_before);
  for (size_t i = 0; i < count; ++i) cut(connections[i]);
  tell_descriptors(found, now_ns);
}

// Who is left.
void ConnectionRoom::cut_holders(std::vector<Connection>& connections) {
  std::sort(connections.begin(), connections.end(),
            [](const auto& a, const auto& b) { return a.held_bytes < b.held_bytes; });
  uint64_t held_bytes = 0;
  for (const Connection& c : connections) held_bytes += c.held_bytes;
  for (; held_bytes > held_bytes_most_; connections.pop_back()) {
    held_bytes -= connections.back().held_bytes;
    cut(connections.back());
  }
}

void ConnectionRoom::free_memory(Nanoseconds now_ns, Memory memory) {
  Found found = find(now_ns);
  std::vector<Connection>& connections = found.connections;
  next_memory_ns_ =
      now_ns + std::max(memory_look_every_ns, static_cast<Nanoseconds>(found.used) * memory_look_ns_per_descriptor);
  const uint64_t before = counters_.cut_quiet + counters_.cut_speaking;
  cut_holders(connections);
  std::sort(connections.begin(), connections.end(), is_cut_before);
  const auto speaking =
      std::partition_point(connections.begin(), connections.end(), [](const Connection& c) { return !c.speaks; });
  const auto quiet = static_cast<size_t>(speaking - connections.begin());
  for (size_t i = quiet_most_; i < quiet; ++i) cut(connections[i - quiet_most_]);
  if (memory == Memory::last_resort) {
    absl::flat_hash_map<std::string, size_t> left;
    for (auto c = speaking; c != connections.end(); ++c) {
      size_t& of_address = left.try_emplace(c->address, c->of_address).first->second;
      if (of_address > of_address_most) --of_address, cut(*c);
    }
  }
  if (counters_.cut_quiet + counters_.cut_speaking > before) tell_memory(connections.size(), now_ns);
}

void ConnectionRoom::tell_descriptors(const Found& found, Nanoseconds now_ns) {
  if (now_ns < next_told_ns_) return;
  next_told_ns_ = now_ns + told_every_ns;
  spdlog::warn(
      "{} of {} descriptors were in use, {} of them for telemetry connections: {} without a batch for {} s were cut, "
      "and {} "
      "others; a higher limit (ulimit -n, LimitNOFILE=) makes room for more",
      found.used, counters_.descriptors_max, found.connections.size(), counters_.cut_quiet - told_.cut_quiet,
      quiet_ns / ns_per_s, counters_.cut_speaking - told_.cut_speaking);
  told_ = counters_;
}

void ConnectionRoom::tell_memory(size_t connections, Nanoseconds now_ns) {
  if (now_ns < next_told_ns_) return;
  next_told_ns_ = now_ns + told_every_ns;
  spdlog::warn(
      "memory is short (--memory-max), and there were {} telemetry connections: {} without a batch for {} s were cut, "
      "and {} others",
      connections, counters_.cut_quiet - told_.cut_quiet, quiet_ns / ns_per_s,
      counters_.cut_speaking - told_.cut_speaking);
  told_ = counters_;
}

}  // namespace ccld::decision::ingest
