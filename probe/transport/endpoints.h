// Which endpoint of a service is used, and when it is left: for the next one, where there are several, or for a while.
//
// Contract
//   Several endpoints are those of the nodes of one service, each of which takes telemetry for all. A process begins
//   with one that its identity chooses and goes round in order. One is left
//   - at once, when it bars us or libzmq has given it up (Retry says for how long),
//   - when nothing has connected for endpoint_wait_ns,
//   - when it is said to be unanswered: connected, and it does not acknowledge.
//   One that is left because it bars us is passed over until its time has come; without any other the one in use is
//   kept. Time in which nobody looked, because the process itself was stopped, does not count.
//   With one endpoint only Retry decides.
//
// Pure: time is given. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "probe/transport/link.h"

namespace ccld::probe {

// A restart takes about a second: who waits for it loses nothing.
constexpr uint64_t endpoint_wait_ns = 2'000'000'000;
// Where somebody may be who does not get round to us, all may have too much to do: with each round without an answer
// they are waited for longer. A hundred thousand processes are then 6,000 connections a second. Where nothing listens,
// a try costs nobody anything.
constexpr uint64_t endpoint_wait_ns_max = 16'000'000'000;
// Longer between two looks: this process did not run.
constexpr uint64_t endpoint_look_ns_max = 1'000'000'000;

// Spread evenly over the processes of a job: ids are equal in many containers, and hosts in many processes.
uint64_t endpoint_choice(std::string_view host, uint32_t pid, uint32_t pid_namespace);

class Endpoints {
 public:
  // Disconnect from the one in use; connect to it.
  enum class Step : uint8_t { none, leave, connect };

  // `list`: at least one. The first one that is used is number choice % size. `keys`: this end uses them.
  Endpoints(const std::vector<std::string>& list, uint64_t choice, bool keys);

  // Until it is `none`.
  Step next(uint64_t now_ns);
  // Of the connection to the one in use.
  void on(LinkEvent event, uint64_t now_ns) { used().tracker.on(event, now_ns); }
  // This end had no means to connect to it.
  void not_connected(uint64_t now_ns);
  // The service there has said something.
  void heard();
  // It should have, and has not.
  void unanswered() { unanswered_ = true; }

  const std::string& in_use() const { return places_[in_use_].endpoint; }
  size_t index() const { return in_use_; }  // in the list
  size_t size() const { return places_.size(); }
  uint64_t moves() const { return moves_; }  // so far, from one to another
  uint64_t left() const { return times_left_; }
  Link link(uint64_t now_ns) const { return places_[in_use_].tracker.link(now_ns); }
  uint64_t handshakes() const;  // so far, with all of them

 private:
  struct Place {
    std::string endpoint;
    LinkTracker tracker;
    Retry retry;
  };
  Place& used() { return places_[in_use_]; }
  Step leave();
  Step connect(uint64_t now_ns);
  bool another_is_due(uint64_t now_ns) const;
  uint64_t wait_ns(uint64_t now_ns) const;

  std::vector<Place> places_;
  size_t in_use_;
  bool away_ = false;  // the one in use is left, and no other was due
  bool unanswered_ = false;
  uint64_t looked_ns_ = 0;   // 0: never
  uint64_t here_ns_ = 0;     // since the one in use was connected to
  uint64_t without_ns_ = 0;  // of that, without a connection, since something was heard
  uint64_t misses_ = 0;      // left one after the other, nothing heard of any
  uint64_t moves_ = 0, times_left_ = 0;
};

}  // namespace ccld::probe
