// The snapshot of what is in flight on a communicator, from what the samples have seen.
#pragma once

#include <cstdint>

#include "probe/agent/kernel_follower.h"
#include "probe/agent/operation_records.h"
#include "probe/agent/proxy_watch.h"
#include "probe/transport/messages.h"

namespace ccld::probe {

constexpr uint32_t age_never = 0xffffffffu;
constexpr size_t operations_reported_max = 16;
constexpr size_t p2p_reported_max = 64;

// Since an instant, of the monotonic clock; 0: never.
uint32_t age_ms(Instant now, uint64_t since_ns);
// Of the words that the training path counts in.
void report_counts(const OperationRecords::Counts&, InFlightMessage&);

// Everything must outlive it.
class InFlightReport {
 public:
  InFlightReport(const abi::FrameView& frame, const OperationRecords& records, const KernelFollower& kernels,
                 const ProxyWatch& proxies, Instant now)
      : frame_(frame), records_(records), kernels_(kernels), proxies_(proxies), now_(now) {}

  void operations(InFlightMessage&) const;
  void calls(InFlightMessage&) const;
  void endpoints(InFlightMessage&) const;  // of the running kernel
  void proxies(InFlightMessage&) const;

 private:
  OperationInFlight describe(const abi::OpRecord&, uint64_t op_seq, const Kernel*) const;
  void channels(OperationInFlight&, const Kernel*, uint32_t token) const;

  const abi::FrameView& frame_;
  const OperationRecords& records_;
  const KernelFollower& kernels_;
  const ProxyWatch& proxies_;
  const Instant now_;
};

}  // namespace ccld::probe
