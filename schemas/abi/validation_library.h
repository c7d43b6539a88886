// The library that tests hardware inside a training process, as the probe sees it: a function and plain structs, since
// the probe loads it while the process runs, and only if the user asked for it (NCCL_PROBE_VALIDATE=1).
//
// Contract
//   The function blocks until the test is over, and never fails: it writes one line that says what became of it. All
//   pointers of a task stay valid until then. Functions of ValidationHold may be called by the thread that is in it.
// Units: nanoseconds of CLOCK_MONOTONIC.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccld::abi {

constexpr uint32_t validation_version = 1;
constexpr char validation_library[] = "libccld_validate.so";
constexpr char validation_function[] = "ccld_validate_in_job";
// The communicator by which links are tested has this name: nobody watches it.
constexpr char validation_comm_name[] = "ccld-validate";

// What a service may ask for at most: how long a process holds, and the length of host:port. A minute is ten times what
// a test takes; no host's name is longer than 253 characters.
constexpr uint32_t hold_ms_max = 60000;
constexpr size_t meet_bytes_max = 300;

// A rank's neighbours in one channel of the communicator that is tested; -1: none.
struct ValidationNeighbours {
  int32_t ring_previous, ring_next, tree_parent;
};

enum class HoldState : uint32_t {
  coming,   // it has not called the operation yet
  holds,    // and NCCL has nothing left to do on its GPUs
  passed,   // it called the operation before it was told to hold
  refused,  // it cannot hold: it records CUDA graphs
  over,     // it held as long as it may, or the test is not wanted any more
};

struct ValidationHold {
  void* context;
  uint64_t (*operations)(void* context);  // collectives called so far
  // Hold before the collective of this number, in place of any earlier one; may say `passed` or `over` at once.
  HoldState (*before)(void* context, uint64_t op_seq);
  // Returns when there is something else than `coming` to say, or at that time.
  HoldState (*wait)(void* context, uint64_t until_ns);
  uint64_t (*until)(void* context);  // when the present hold ends by itself; UINT64_MAX: it has not begun
  bool (*wanted)(void* context);     // false: end soon
};

struct ValidationTask {
  uint32_t version;  // validation_version
  int32_t rank, rank_count, cuda_device;
  const char* meet;     // host:port
  const char* refusal;  // why this process cannot be tested, to be said there; null: it can
  const ValidationNeighbours* channels;
  size_t channel_count;
  ValidationHold hold;
};

using ValidateInJob = void(const ValidationTask*, char* line, size_t line_bytes);

}  // namespace ccld::abi
