// How late the ranks of a communicator came to its newest calls, by host, so that 8 ranks and 100,000 fit a page.
//
// Contract: pure, over a snapshot, to whose ranks and calls it points. Linear in ranks x calls. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "decision/model/status.h"

namespace ccld::decision::report {

using Calls = std::vector<std::shared_ptr<const RecordedCall>>;

// As in RecordedCall::late.
uint8_t late_code(const RecordedCall&, Rank);
// Two digits are what the code is worth.
double late_ms(uint8_t code);

// Host by host, in the order of their lowest ranks; within a host by rank.
std::vector<const RankStatus*> ranks_by_host(const CommStatus&);

// The mean over the calls that were measured, in ms; NaN: none was. In the order of `ranks`.
std::vector<double> mean_late_ms(const std::vector<const RankStatus*>& ranks, const Calls&);
// Positions in `means`, the greatest first, at most `most`.
std::vector<size_t> worst(const std::vector<double>& means, size_t most);

// Consecutive ranks of whole hosts.
struct HostGroup {
  size_t first = 0, end = 0;  // positions in what ranks_by_host() returned
  size_t hosts = 0;
};
// At most `most`, all of equally many hosts but for the last.
std::vector<HostGroup> host_groups(const std::vector<const RankStatus*>& by_host, size_t most);

// Of the ranks of a group in one call: the codes of their median, 95th percentile and maximum.
struct LateQuantiles {
  uint8_t median = RecordedCall::Micros::none, p95 = RecordedCall::Micros::none, most = RecordedCall::Micros::none;
};
LateQuantiles late_quantiles(const std::vector<const RankStatus*>& by_host, const HostGroup&, const RecordedCall&);

}  // namespace ccld::decision::report
