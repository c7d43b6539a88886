// Messages as a probe sends them, for tests that write them one by one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "decision/model/events.h"

namespace ccld::decision {

inline Batch batch_of(const std::string& host, uint32_t pid, Nanoseconds now_ns, std::vector<Payload> payloads,
                      const std::string& job = "job") {
  Batch b;
  b.process = {host, "boot of " + host, pid, 0, pid};
  b.job = job;
  b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
  b.payloads = std::move(payloads);
  return b;
}

inline CommUp up(uint64_t comm, int rank, int rank_count) {
  CommUp m;
  m.comm = CommUid{comm};
  m.rank = Rank{rank};
  m.rank_count = rank_count;
  return m;
}

}  // namespace ccld::decision
