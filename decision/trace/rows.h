// Telemetry and incidents as the rows of a trace. Each GPU is a group with these rows; README.md says what they mean.
//
// Contract: add() every batch in order, incident() for each incident, mark() for each mark, finish() once. Times are those of GpuClocks. What
// touches the range is shown whole. Bounded: events_max events; calls that wait for their other ends (open_arrows_max);
// 16 bytes for each kernel shown, until finish(). What is left out is counted. No I/O, no clock of its own. Threads: one.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/model/verdict.h"
#include "decision/trace/directory.h"
#include "decision/trace/events.h"
#include "decision/trace/gpu_clocks.h"

namespace ccld::decision::trace {

// Viewers take about a GiB of memory for so many.
constexpr uint64_t events_max = 2'000'000;

struct Range {
  Nanoseconds from_ns = INT64_MIN, to_ns = INT64_MAX;  // of the service's clock
  bool touches(Nanoseconds begin_ns, Nanoseconds end_ns) const { return end_ns >= from_ns && begin_ns <= to_ns; }
};

// What somebody did about the job: validated hardware, acted.
struct Mark {
  Nanoseconds at_ns = 0;  // of the service's clock
  std::string name;
  Args args;
  std::string host;      // of the GPU that it is about, if there is one
  int cuda_device = -1;  // none
};

struct RowCounts {
  uint64_t events = 0;         // written
  uint64_t beyond = 0;         // not written: more than events_max
  uint64_t untimed = 0;        // operations without times of their kernel: shown as a call, where that is known
  uint64_t of_other_ranks = 0; // operations of GPUs that are not shown
  uint64_t undescribed = 0;    // operations of communicators that were never described
  uint64_t unended = 0;        // operations that had not ended when the recording did
};

class Rows {
 public:
  // All must outlive the object. `zero_ns`: the trace's zero on the service's clock.
  Rows(const Directory&, const GpuClocks&, const std::vector<int>& gpus, Range, Nanoseconds zero_ns, Writer&);
  ~Rows();
  void add(const Batch&);
  // As it was in the end. `advice`: what was last said to do about it; may be empty.
  void incident(const Incident&, const std::string& advice);
  void mark(const Mark&);
  void finish();
  const RowCounts& counts() const { return counts_; }

 private:
  enum class Kind : uint8_t { operations, send_recv, waits, calls, gaps, links, clock_earlier, clock_later, marks };
  struct Span {
    Nanoseconds begin_ns, end_ns;
  };
  // Of a call, on the clock of its host; 0: not known.
  struct HostTimes {
    uint64_t enter_ns = 0, launch_ns = 0;
    Nanoseconds begin_ns = INT64_MAX;  // of its kernel, by the trace's clock; or what the call cannot have come after
    bool begun = false;
  };
  // A call that was in flight in the newest snapshot of a rank.
  struct Pending {
    uint64_t id = 0;     // its launch's arrow
    uint64_t arrow = 0;  // to the other ranks
    Kind kind = Kind::operations;
    OpSeq op;  // 0: a Send or Recv
    uint32_t replay = 0;
    std::string name;
    Args args;
    uint64_t enter_ns = 0, launch_ns = 0, begin_ns = 0, sample_ns = 0;  // of the host's clock; 0: not yet
  };
  struct Gpu {
    int index = nobody;
    uint32_t group = 0;
    std::map<std::tuple<Kind, CommUid, int32_t>, std::unique_ptr<Row>> rows;  // by kind, communicator and link
    absl::flat_hash_map<CommUid, Nanoseconds> begun_ns;  // newest begin of a kernel: what waits after it is the first in its stream
    std::vector<Span> kernels;
    std::map<CommUid, std::vector<Pending>> pending;
    std::map<CommUid, OpSeq> newest;
    Nanoseconds heard_ns = INT64_MIN;  // newest batch, by the trace's clock
  };
  struct Arrow {
    std::vector<ArrowPoint> points;
  };

  Gpu* gpu(CommUid, Rank);
  // The same, for so many operations; where it is not shown they count as left out.
  Gpu* gpu_for(CommUid, Rank, size_t operations);
  const Row& row(Gpu&, Kind, CommUid = {}, int32_t link = 0);
  const Row& new_row(Gpu&, Kind, CommUid, int32_t link, std::string name, bool counter = false);
  bool take(Nanoseconds begin_ns, Nanoseconds end_ns);
  Nanoseconds shown(Nanoseconds ns) const { return std::max<Nanoseconds>(0, ns - zero_ns_); }
  // Where its arrows begin and end; nullopt: it was left out. Slices of a row must not overlap but by nesting: of what
  // does, the later part is shown.
  std::optional<ArrowPoint> slice(const Row&, Nanoseconds begin_ns, Nanoseconds end_ns, std::string name, const char* category, Args, std::vector<uint64_t> arrows = {});
  bool instant(const Row&, Nanoseconds at_ns, std::string name, const char* category, Args, std::vector<uint64_t> arrows = {});
  // One more point of an arrow; it is written when it has as many as expected.
  void arrow(uint64_t id, ArrowPoint, size_t expected);
  void flush_arrows();

  void take_rounds(const Rounds&);
  void take_calls(const P2pRounds&);
  void take_in_flight(const InFlight&);
  void take_links(CommUid, Rank, const std::vector<LinkStages>&, const Batch&, const char* number);
  // The host's part of a call and its wait in the stream. Returns the arrow to its kernel, if it has begun.
  std::vector<uint64_t> host_part(Gpu&, CommUid, const HostTimes&, const std::string& name, const Args&, uint64_t id);
  void begun(Gpu&, CommUid, Nanoseconds begin_ns, Nanoseconds end_ns);
  void show_pending(Gpu&);
  void show_gaps(Gpu&);
  void show_clock(Gpu&);
  std::string peer_text(CommUid, Rank) const;
  size_t shown_members(CommUid);

  const Directory& directory_;
  const GpuClocks& clocks_;
  const Range range_;
  const Nanoseconds zero_ns_;
  Writer& writer_;
  std::vector<Gpu> gpus_;
  std::vector<int> place_;  // of each GPU of the directory in gpus_
  Gpu marks_;
  uint32_t rows_ = 0;
  // By row, the ends of its newest slices.
  struct Ends {
    std::array<Nanoseconds, 8> ns;  // so many calls of one group overlap
    size_t oldest = 0;
    Ends() { ns.fill(INT64_MIN); }
  };
  std::vector<Ends> ended_;
  absl::flat_hash_map<uint64_t, Arrow> arrows_;
  absl::flat_hash_map<CommUid, size_t> members_;
  RowCounts counts_;
};

}  // namespace ccld::decision::trace
