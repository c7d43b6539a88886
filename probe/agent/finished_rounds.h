// Rounds and calls that have ended and were not handed out yet. Links stay open until their proxies have done the last
// steps, or for link_settle_ns.
// Threads: one at a time (the agent's lock).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "probe/agent/link_stages.h"
#include "probe/agent/proxy_watch.h"
#include "probe/agent/run_sums.h"
#include "probe/transport/messages.h"

namespace ccld::probe {

// One flush carries at most this many rounds, and as many calls. At one flush in 100 ms this is 40,000 operations a
// second; above, the oldest are dropped. Those without times take no more than half of it, so that they displace no
// others.
constexpr size_t rounds_pending_max = 4096;
constexpr size_t untimed_pending_max = rounds_pending_max / 2;
// Stages of links are sent for the longest rounds, and for the longest calls, of a flush: for one of each at least, and
// up to this many rows. So a rank with 16 channels tells those of 80 rounds a second, which is plenty for means.
constexpr size_t links_per_message_max = 256;
// How long the proxies of a finished kernel are watched for steps that are still on their way.
constexpr uint64_t link_settle_ns = 50 * ns_per_ms;

class FinishedRounds {
 public:
  FinishedRounds(uint64_t comm_uid, int rank, bool keep) : comm_uid_(comm_uid), rank_(rank), keep_(keep) {}

  void keep(bool keep) { keep_ = keep; }  // false: nobody wants them
  void add(uint64_t op_seq, const abi::OpRecord&, FinishedRound, std::vector<LinkTrack> links, Instant now);
  // `links`: those with its peer in its direction; of several such calls of a kernel, of the first.
  void add(const abi::P2pRecord&, const FinishedRound& kernel, std::vector<LinkTrack> links, Instant now);

  bool has_open_links() const { return open_links_ > 0; }
  void close_links(const ProxyWatch&, Instant now);

  bool has_rounds() const { return !rounds_.empty(); }
  // Moves them out, except the newest ones whose links are still open (all with `everything`).
  RoundsMessage take_rounds(Instant now, bool everything);
  bool has_calls() const { return !calls_.empty(); }
  // Likewise.
  P2pRoundsMessage take_calls(Instant now, bool everything);

  uint64_t finished() const { return finished_; }
  uint64_t dropped() const { return dropped_; }
  // Of the dropped rounds that had counts and a kernel of their own.
  const SummedRuns& dropped_sums() const { return dropped_sums_; }

 private:
  template <class Row>
  struct Pending {
    Row row;
    uint32_t samples = 0;
    uint64_t finished_ns = 0;
    std::vector<LinkTrack> links;
    bool open = false;  // links are not settled
  };
  using PendingRound = Pending<FinishedRound>;
  using PendingCall = Pending<FinishedP2p>;

  template <class Row>
  void add(std::deque<Pending<Row>>&, const Row&, uint32_t samples, std::vector<LinkTrack>, Instant now);
  void sum(const FinishedRound&);
  void sum(const FinishedP2p&) {}  // calls share kernels
  template <class Row>
  void close_links(std::deque<Pending<Row>>&, const ProxyWatch&, Instant now);
  template <class Row>
  std::vector<Pending<Row>> take(std::deque<Pending<Row>>&, Instant now, bool everything);

  const uint64_t comm_uid_;
  const int rank_;
  bool keep_;
  std::deque<PendingRound> rounds_;
  std::deque<PendingCall> calls_;
  size_t open_links_ = 0;  // rounds and calls with open links
  uint64_t finished_ = 0, dropped_ = 0;
  SummedRuns dropped_sums_;
};

}  // namespace ccld::probe
