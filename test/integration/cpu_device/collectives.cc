#include "test/integration/cpu_device/collectives.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace ccld::cpu_device_matrix {
namespace {

constexpr size_t margin = 64;  // elements on each side of the target
constexpr unsigned char untouched_byte = 0x5a;

struct TypeInfo {
  ncclDataType_t type;
  const char* name;
  size_t bytes;
};

constexpr TypeInfo types[] = {
    {ncclInt8, "i8", 1},       {ncclUint8, "u8", 1},    {ncclInt32, "i32", 4},
    {ncclUint32, "u32", 4},    {ncclInt64, "i64", 8},   {ncclFloat16, "f16", 2},
    {ncclBfloat16, "bf16", 2}, {ncclFloat32, "f32", 4}, {ncclFloat64, "f64", 8},
};

const TypeInfo& info_of(ncclDataType_t type) {
  for (const TypeInfo& info : types) {
    if (info.type == type) return info;
  }
  abort();
}

const char* name_of(ncclRedOp_t reduction) {
  switch (reduction) {
    case ncclSum: return "sum";
    case ncclProd: return "prod";
    case ncclMax: return "max";
    case ncclMin: return "min";
    case ncclAvg: return "avg";
    default: return "?";
  }
}

template <class T>
void put(char* address, T value) {
  memcpy(address, &value, sizeof value);
}

template <class T>
T get(const char* address) {
  T value;
  memcpy(&value, address, sizeof value);
  return value;
}

void store(char* address, ncclDataType_t type, double value) {
  switch (type) {
    case ncclInt8: return put(address, static_cast<int8_t>(value));
    case ncclUint8: return put(address, static_cast<uint8_t>(value));
    case ncclInt32: return put(address, static_cast<int32_t>(value));
    case ncclUint32: return put(address, static_cast<uint32_t>(value));
    case ncclInt64: return put(address, static_cast<int64_t>(value));
    case ncclFloat16: return put(address, __float2half(static_cast<float>(value)));
    case ncclBfloat16: return put(address, __float2bfloat16(static_cast<float>(value)));
    case ncclFloat32: return put(address, static_cast<float>(value));
    case ncclFloat64: return put(address, value);
    default: abort();
  }
}

double load(const char* address, ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return get<int8_t>(address);
    case ncclUint8: return get<uint8_t>(address);
    case ncclInt32: return get<int32_t>(address);
    case ncclUint32: return get<uint32_t>(address);
    case ncclInt64: return static_cast<double>(get<int64_t>(address));
    case ncclFloat16: return __half2float(get<__half>(address));
    case ncclBfloat16: return __bfloat162float(get<__nv_bfloat16>(address));
    case ncclFloat32: return get<float>(address);
    case ncclFloat64: return get<double>(address);
    default: abort();
  }
}

double combine(ncclRedOp_t reduction, double a, double b) {
  switch (reduction) {
    case ncclProd: return a * b;
    case ncclMax: return std::max(a, b);
    case ncclMin: return std::min(a, b);
    default: return a + b;
  }
}

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(error));
  _Exit(1);
}

}  // namespace

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "AllReduce";
    case Collective::all_gather: return "AllGather";
    case Collective::reduce_scatter: return "ReduceScatter";
    case Collective::broadcast: return "Broadcast";
    case Collective::reduce: return "Reduce";
    case Collective::ring_exchange: return "SendRecv";
    case Collective::all_to_all: return "AlltoAll";
  }
  return "?";
}

std::string Case::describe() const {
  char text[160];
  snprintf(text, sizeof text, "%s %s %s count %zu offsets %zu,%zu root %d", name_of(collective), info_of(type).name,
           name_of(reduction), count, source_offset, target_offset, root);
  return text;
}

CaseRun::CaseRun(const Case& c, const Communicator& communicator) : case_(c), communicator_(communicator) {
  const auto ranks = static_cast<size_t>(communicator.ranks);
  const bool wide_source = c.collective == Collective::reduce_scatter || c.collective == Collective::all_to_all;
  const bool wide_target = c.collective == Collective::all_gather || c.collective == Collective::all_to_all;
  source_count_ = wide_source ? c.count * ranks : c.count;
  target_count_ = wide_target ? c.count * ranks : c.count;
  const size_t bytes = info_of(c.type).bytes;
  void *source, *target;
  require(cudaMalloc(&source, (source_count_ + c.source_offset) * bytes), "cudaMalloc");
  require(cudaMalloc(&target, (target_count_ + c.target_offset + 2 * margin) * bytes), "cudaMalloc");
  source_ = static_cast<char*>(source);
  target_ = static_cast<char*>(target);
}

CaseRun::~CaseRun() {
  cudaFree(source_);
  cudaFree(target_);
}

// Small whole numbers: every type holds every result exactly, whatever the order of the reduction.
double CaseRun::value_of(int rank, size_t index) const {
  const size_t mixed = index * 7 + index / 97 + static_cast<size_t>(rank) * 3 + static_cast<size_t>(round_) * 5;
  return case_.reduction == ncclProd ? static_cast<double>(1 + mixed % 2) : static_cast<double>(mixed % 11);
}

void CaseRun::fill(int round) {
  round_ = round;
  const size_t bytes = info_of(case_.type).bytes;
  std::vector<char> source(source_count_ * bytes);
  for (size_t i = 0; i < source_count_; ++i) store(&source[i * bytes], case_.type, value_of(communicator_.rank, i));
  require(cudaMemcpy(source_ + case_.source_offset * bytes, source.data(), source.size(), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  require(cudaMemset(target_, untouched_byte, (target_count_ + case_.target_offset + 2 * margin) * bytes),
          "cudaMemset");
}

ncclResult_t CaseRun::submit() {
  const size_t bytes = info_of(case_.type).bytes;
  const char* from = source_ + case_.source_offset * bytes;
  char* to = target_ + (margin + case_.target_offset) * bytes;
  const Communicator& c = communicator_;
  switch (case_.collective) {
    case Collective::all_reduce:
      return ncclAllReduce(from, to, case_.count, case_.type, case_.reduction, c.handle, c.stream);
    case Collective::all_gather: return ncclAllGather(from, to, case_.count, case_.type, c.handle, c.stream);
    case Collective::reduce_scatter:
      return ncclReduceScatter(from, to, case_.count, case_.type, case_.reduction, c.handle, c.stream);
    case Collective::broadcast: return ncclBroadcast(from, to, case_.count, case_.type, case_.root, c.handle, c.stream);
    case Collective::reduce:
      return ncclReduce(from, to, case_.count, case_.type, case_.reduction, case_.root, c.handle, c.stream);
    case Collective::ring_exchange:
      ncclGroupStart();
      ncclSend(from, case_.count, case_.type, (c.rank + 1) % c.ranks, c.handle, c.stream);
      ncclRecv(to, case_.count, case_.type, (c.rank + c.ranks - 1) % c.ranks, c.handle, c.stream);
      return ncclGroupEnd();
    case Collective::all_to_all:
      ncclGroupStart();
      for (int peer = 0; peer < c.ranks; ++peer) {
        const size_t part = static_cast<size_t>(peer) * case_.count * bytes;
        ncclSend(from + part, case_.count, case_.type, peer, c.handle, c.stream);
        ncclRecv(to + part, case_.count, case_.type, peer, c.handle, c.stream);
      }
      return ncclGroupEnd();
  }
  return ncclInvalidArgument;
}

double CaseRun::expected(size_t index, bool* untouched) const {
  const int rank = communicator_.rank, ranks = communicator_.ranks;
  const auto reduced = [&](size_t at) {
    double result = value_of(0, at);
    for (int r = 1; r < ranks; ++r) result = combine(case_.reduction, result, value_of(r, at));
    return case_.reduction == ncclAvg ? result / ranks : result;
  };
  *untouched = false;
  switch (case_.collective) {
    case Collective::all_reduce: return reduced(index);
    case Collective::all_gather: return value_of(static_cast<int>(index / case_.count), index % case_.count);
    case Collective::reduce_scatter: return reduced(static_cast<size_t>(rank) * case_.count + index);
    case Collective::broadcast: return value_of(case_.root, index);
    case Collective::reduce: *untouched = rank != case_.root; return reduced(index);
    case Collective::ring_exchange: return value_of((rank + ranks - 1) % ranks, index);
    case Collective::all_to_all:
      return value_of(static_cast<int>(index / case_.count),
                      static_cast<size_t>(rank) * case_.count + index % case_.count);
  }
  return 0;
}

std::string CaseRun::check() {
  const size_t bytes = info_of(case_.type).bytes;
  std::vector<char> all((target_count_ + case_.target_offset + 2 * margin) * bytes);
  require(cudaMemcpy(all.data(), target_, all.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  const size_t begin = (margin + case_.target_offset) * bytes, end = begin + target_count_ * bytes;
  size_t wrong = 0;
  char text[200] = "";
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == begin) i = end;
    if (static_cast<unsigned char>(all[i]) != untouched_byte && wrong++ == 0) {
      snprintf(text, sizeof text, "wrote outside of its buffer, at byte %td", static_cast<ptrdiff_t>(i - begin));
    }
  }
  for (size_t i = 0; i < target_count_; ++i) {
    bool untouched;
    const double want = expected(i, &untouched);
    if (untouched) continue;
    const double got = load(&all[begin + i * bytes], case_.type);
    // An average over a number of ranks that is no power of two is rounded.
    const bool right = case_.reduction == ncclAvg ? std::abs(got - want) <= 1e-5 * std::abs(want) : got == want;
    if (!right && wrong++ == 0) snprintf(text, sizeof text, "element %zu is %g, expected %g", i, got, want);
  }
  if (wrong == 0) return "";
  return std::string(text) + " (" + std::to_string(wrong) + " wrong)";
}

bool run_case(const Case& c, const Communicator& communicator) {
  CaseRun run(c, communicator);
  run.fill(0);
  std::string problem;
  const ncclResult_t result = run.submit();
  if (result != ncclSuccess) problem = std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(nullptr);
  const cudaError_t error = cudaStreamSynchronize(communicator.stream);
  if (problem.empty() && error != cudaSuccess) problem = cudaGetErrorName(error);
  if (problem.empty()) problem = run.check();
  if (problem.empty()) return true;
  fprintf(stderr, "rank %d of %d: %s: %s\n", communicator.rank, communicator.ranks, c.describe().c_str(),
          problem.c_str());
  return false;
}

}  // namespace ccld::cpu_device_matrix
