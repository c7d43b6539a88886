// What somebody builds against the installed library: the headers are of its release, and a sum comes out right.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstdio>

static_assert(NCCL_VERSION_CODE == CCLD_EXPECTED_VERSION, "the headers are of another release");
static_assert(sizeof(ncclDevComm) != 0, "the device API is incomplete");

int main() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess || version != NCCL_VERSION_CODE) return 1;
  ncclComm_t comms[2];
  float* buffers[2];
  if (ncclCommInitAll(comms, 2, nullptr) != ncclSuccess) return 2;
  for (int r = 0; r < 2; ++r) {
    const float value = static_cast<float>(r + 1);
    if (cudaSetDevice(r) != cudaSuccess ||
        cudaMalloc(reinterpret_cast<void**>(&buffers[r]), sizeof value) != cudaSuccess ||
        cudaMemcpy(buffers[r], &value, sizeof value, cudaMemcpyHostToDevice) != cudaSuccess)
      return 3;
  }
  if (ncclGroupStart() != ncclSuccess) return 4;
  for (int r = 0; r < 2; ++r)
    if (ncclAllReduce(buffers[r], buffers[r], 1, ncclFloat32, ncclSum, comms[r], nullptr) != ncclSuccess) return 5;
  if (ncclGroupEnd() != ncclSuccess) return 6;
  for (int r = 0; r < 2; ++r) {
    float value = 0;
    if (cudaSetDevice(r) != cudaSuccess ||
        cudaMemcpy(&value, buffers[r], sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess || value != 3)
      return 7;
  }
  for (ncclComm_t comm : comms)
    if (ncclCommDestroy(comm) != ncclSuccess) return 8;
  puts("as it should be");
  return 0;
}
