// Keeps descriptors and memory free, so that probes which come find room at the telemetry socket, and files and
// questions too.
//
//   A process that has all its descriptors accepts nobody, and libzmq asks again and again: a busy core, and new probes
//   unheard. So while fewer than the reserve are free, connections are cut: first those over which no batch has come
//   for quiet_ns, then others. Among them first those of the address that has most, and of these the longest quiet one.
//   A probe that was cut connects again by itself; a batch comes from each at least every few seconds.
//
//   Each connection takes memory, too, and so does what came over it and is no batch yet: a message that stops in the
//   middle, or many that wait. Where memory is short, those that hold most of that are cut until all together hold
//   held_part of it, and then those without a batch, down to quiet_part of it; at the last resort so are others, of
//   addresses that have more than of_address_most.
//
// libzmq has no word for "close this connection": its socket is shut down, as if the other side had done it.
//
// Contract: look() takes a microsecond while there is room. After a cut it wants to be called more often for a while
// (look_again_ns): who was cut comes back. Connections are those of TCP; who may use a local (ipc)
// socket is what the file system says. Errors: none; what was cut is counted and told. Threads: any; while one looks at
// all connections (2 us for each descriptor) the others wait.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "decision/ingest/connection_counters.h"
#include "decision/model/types.h"

namespace ccld::decision::ingest {

class ConnectionRoom {
 public:
  // Three heartbeats of a probe at rest, which come every two seconds, and then some.
  static constexpr Nanoseconds quiet_ns = 10 * ns_per_s;
  // What libzmq has for one: 24 KB were measured after a handshake, 4 KB before.
  static constexpr uint64_t connection_bytes = 24 << 10;
  // Of the memory limit: small beside what the analysis may have, and of 256 MB still 600 probes that have just
  // connected, or four of the longest messages on their way.
  static constexpr double quiet_part = 1.0 / 16, held_part = 1.0 / 16;
  // A machine has up to 16 GPUs, and some machines may come from one address.
  static constexpr size_t of_address_most = 256;
  // A look goes through all descriptors; the largest job that was simulated has 131,072 processes.
  static constexpr size_t descriptors_needed_max = size_t{1} << 20;
  enum class Memory { enough, short_of, last_resort };

  // `endpoint`: that of the socket, with its port. `descriptors_max`: below which all numbers of descriptors are.
  // `memory_max_bytes`: that of the process; 0: no limit.
  ConnectionRoom(const std::string& endpoint, size_t descriptors_max, uint64_t memory_max_bytes);
  ~ConnectionRoom();
  ConnectionRoom(const ConnectionRoom&) = delete;

  // A batch of so many bytes came over this descriptor.
  void spoke(int descriptor, uint64_t bytes, Nanoseconds now_ns);
  void look(Nanoseconds now_ns, Memory memory);
  // When it is in a hurry; else with the next tick.
  Nanoseconds look_again_ns() const;

  ConnectionCounters counters() const;

 private:
  struct Connection {
    int descriptor;
    std::string address;
    bool speaks;
    Nanoseconds quiet_ns;
    uint64_t held_bytes;
    size_t of_address = 0;  // connections that speak as much as this one
    auto order() const { return std::tuple(speaks, SIZE_MAX - of_address, INT64_MAX - quiet_ns); }
  };
  static bool is_cut_before(const Connection& a, const Connection& b) { return a.order() < b.order(); }
  struct Found {
    std::vector<Connection> connections;
    size_t used = 0;  // descriptors
  };
  // What is known of a descriptor.
  struct Account {
    Nanoseconds spoke_ns = 0;                // 0: never
    std::optional<uint64_t> received_bytes;  // until the last look
    std::optional<uint64_t> base_bytes;      // until the last look before its newest batch
    uint64_t taken_bytes = 0;                // in batches since then
    uint64_t taken_since_look_bytes = 0;     // 0: none came
  };
  bool is_short_of_descriptors() const;
  Found find(Nanoseconds now_ns);
  static uint64_t held_bytes(Account&, uint64_t received_bytes, bool speaks);
  void free_descriptors(Nanoseconds now_ns);
  void free_memory(Nanoseconds now_ns, Memory memory);
  void cut_holders(std::vector<Connection>&);
  void cut(const Connection&);
  void tell_descriptors(const Found&, Nanoseconds now_ns);
  void tell_memory(size_t connections, Nanoseconds now_ns);
  Account& account(int descriptor);

  mutable std::mutex mutex_;
  const int port_;  // 0: not TCP
  const size_t reserve_, quiet_most_;
  const uint64_t held_bytes_most_;
  int probe_ = -1;                 // to try how high the next number is
  DIR* const descriptors_;         // those of this process; open for good, or none may be left for it
  std::vector<Account> accounts_;  // by descriptor
  Nanoseconds found_ns_ = 0;
  Nanoseconds next_look_ns_ = 0, next_memory_ns_ = 0, next_told_ns_ = 0, short_until_ns_ = 0;
  ConnectionCounters counters_, told_;
};

}  // namespace ccld::decision::ingest
