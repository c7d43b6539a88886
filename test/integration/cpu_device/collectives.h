// One collective on real NCCL, with its result checked against what was computed here.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

namespace ccld::cpu_device_matrix {

enum class Collective { all_reduce, all_gather, reduce_scatter, broadcast, reduce, ring_exchange, all_to_all };

const char* name_of(Collective);

struct Case {
  Collective collective = Collective::all_reduce;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  size_t count = 1024;       // per rank, as the collective's API counts
  size_t source_offset = 0;  // in elements: misaligned buffers
  size_t target_offset = 0;
  int root = 0;

  std::string describe() const;
};

struct Communicator {
  int rank;
  int ranks;
  ncclComm_t handle;
  cudaStream_t stream;
};

// Buffers of one case on one rank. The target has untouched memory on both sides, which is checked, too.
class CaseRun {
 public:
  CaseRun(const Case&, const Communicator&);
  ~CaseRun();
  CaseRun(const CaseRun&) = delete;

  // `round` changes the values.
  void fill(int round);
  ncclResult_t submit();
  // After the stream was synchronised: an empty text, or what is wrong.
  std::string check();

 private:
  double value_of(int rank, size_t index) const;
  double expected(size_t index, bool* untouched) const;

  const Case case_;
  const Communicator& communicator_;
  size_t source_count_;
  size_t target_count_;
  int round_ = 0;
  char* source_ = nullptr;
  char* target_ = nullptr;
};

// Fills, submits, synchronises and checks; prints one line and returns false if anything is wrong.
bool run_case(const Case&, const Communicator&);

}  // namespace ccld::cpu_device_matrix
