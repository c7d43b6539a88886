// The device API in a kernel, as nvcc sees it. Only compiled and linked: the CPU device runs no GPU code.
#include <nccl.h>
#include <nccl_device.h>

static_assert(NCCL_VERSION_CODE == CCLD_EXPECTED_VERSION, "the headers are of another release");

__global__ void meet(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), comm, ncclTeamLsa(comm), comm.lsaBarrier, blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_relaxed);
}

int main(int count, char**) {
  if (count > 1) meet<<<1, 32>>>(ncclDevComm{});
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess && version == NCCL_VERSION_CODE ? 0 : 1;
}
