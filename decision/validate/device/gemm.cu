// Tiles in shared memory, floats, no tensor cores: the same work on every GPU generation, bound by its clock.
#include "decision/validate/device/gemm.h"

namespace ccld::decision::validate {
namespace {

// A thread computes 4 x 4 elements of a tile of 128 x 128, so that it multiplies more than it loads.
constexpr int per_thread = 4;
constexpr int side = 32;  // threads of a block in each direction
constexpr int block_tile = side * per_thread;
constexpr int depth = 16;

__global__ void __launch_bounds__(side* side) gemm(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[depth][block_tile], tile_b[depth][block_tile];
  const int thread = threadIdx.y * side + threadIdx.x;
  const int row = blockIdx.y * block_tile, column = blockIdx.x * block_tile;
  float sum[per_thread][per_thread] = {};
  for (int k = 0; k < n; k += depth) {
    for (int i = thread; i < depth * block_tile; i += side * side) {
      const int deep = i / block_tile, wide = i % block_tile;
      tile_a[deep][wide] = row + wide < n ? a[static_cast<size_t>(row + wide) * n + k + deep] : 0;
      tile_b[deep][wide] = column + wide < n ? b[static_cast<size_t>(k + deep) * n + column + wide] : 0;
    }
    __syncthreads();
    for (int deep = 0; deep < depth; ++deep)
      for (int i = 0; i < per_thread; ++i)
        for (int j = 0; j < per_thread; ++j)
          sum[i][j] += tile_a[deep][threadIdx.y + i * side] * tile_b[deep][threadIdx.x + j * side];
    __syncthreads();
  }
  for (int i = 0; i < per_thread; ++i)
    for (int j = 0; j < per_thread; ++j) {
      const int r = row + threadIdx.y + i * side, s = column + threadIdx.x + j * side;
      if (r < n && s < n) c[static_cast<size_t>(r) * n + s] = sum[i][j];
    }
}

}  // namespace

cudaError_t launch_gemm(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>((n + block_tile - 1) / block_tile);
  gemm<<<dim3(blocks, blocks), dim3(side, side), 0, stream>>>(a, b, c, n);
  return cudaGetLastError();
}

}  // namespace ccld::decision::validate
