// Faults of the application itself: what one rank does differently from the others, as a file says that is read while
// running. (Paper, section 2.2: H1 a rank does not enter, H2 inconsistent operations, S1 a rank enters late.)
//
// Contract
//   {"faults": [{"rank": 3, "kind": "other_count", "from_round": 40, "rounds": 1, "factor": 0.5}, ...]}
//     kind             skip | delay | pauses | other_operation | other_count | other_type | other_order |
//     other_comm_order
//     from_round       first round it may change (default: the next one); it takes effect in the first round the rank
//     starts at or after it rounds           how many rounds it changes (default 1); 0: all from then on ms delay: how
//     long the host waits before the call operation        other_operation: as --op factor           other_count:
//     multiplies the count, above 0, at most 2 datatype         other_type: as -d; the count stays
//     share, ms        pauses: in this share of the rounds the host waits 0.5 to 1.5 times ms, as in a garbage
//     collection comm, call       with a layout (iteration.h): the communicator by its name (default: all), and which
//     of the rank's calls on it in a round, from 0 (default: every one) with             other_comm_order: the first
//     calls on `comm` and on this communicator change places
//   other_order calls the operation of the following round first and this round's after it. `skip` calls nothing.
//   The file is read again when its modification time, size or inode changed; replace it by renaming. Faults keep their
//   place in the list as identity: append, never reorder.
//
// Errors: a text that cannot be used is one line on stderr that names the field; the previous text stays in force.
// Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "test/support/workload/layout.h"
#include "test/support/workload/traffic.h"

namespace ccld::workload {

enum class FaultKind { skip, delay, pauses, other_operation, other_count, other_type, other_order, other_comm_order };

struct Fault {
  int rank = -1;
  FaultKind kind = FaultKind::skip;
  uint64_t from_round = 0;
  uint64_t rounds = 1;
  double ms = 0;
  double factor = 1;
  double share = 0;
  std::optional<Group> comm, with;
  int call = -1;
  Operation operation = Operation::all_reduce;
  ncclDataType_t datatype = ncclFloat32;
};

// What the rank does in one round, or in place of one call of a layout's iteration.
struct RoundPlan {
  std::vector<Call> calls;  // empty: skipped
  double delay_ms = 0;
  bool changed = false;  // by a fault
};

// Throws std::invalid_argument with one line that names the field.
std::vector<Fault> parse_faults(const std::string& json);

class FaultFile {
 public:
  // An empty path: no faults, ever.
  FaultFile(std::string path, int rank) : path_(std::move(path)), rank_(rank) {}

  // Looks at the file again if it changed.
  void refresh();
  // How many texts were read so far.
  uint64_t version() const { return version_; }

  // What to do in `round`; counts what it applied.
  RoundPlan plan(uint64_t round, const Traffic&);

  // With a layout: what to do in place of the rank's `index`-th call on a communicator of so many ranks in this round.
  RoundPlan plan_call(uint64_t round, Group comm, int index, int comm_size, const Call&);
  // Communicators that change places in this round.
  std::vector<std::pair<Group, Group>> swaps(uint64_t round);

 private:
  void adopt(std::vector<Fault> faults);
  // Whether a fault is in force in this round; counts each round once.
  bool takes_effect(size_t fault, uint64_t round);

  std::string path_;
  int rank_;
  uint64_t version_ = 0;
  int64_t seen_time_ns_ = -1;
  uint64_t seen_inode_ = 0;
  int64_t seen_size_ = -1;
  std::vector<Fault> faults_;
  std::vector<uint64_t> applied_;     // rounds changed, parallel to faults_
  std::vector<uint64_t> last_round_;  // that was changed, with a layout
};

}  // namespace ccld::workload
