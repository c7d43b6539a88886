#include "benchmarks/gpu/digests.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace ccld::gpu {
namespace {

constexpr unsigned char untouched_byte = 0x5a;

// splitmix64: any two seeds give streams that have nothing in common.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

template <class T>
void put(std::vector<char>* values, size_t index, T value) {
  memcpy(values->data() + index * sizeof value, &value, sizeof value);
}

}  // namespace

std::vector<char> random_values(ncclDataType_t type, size_t count, uint64_t seed) {
  const size_t bytes = bytes_of(type);
  std::vector<char> values(count * bytes);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = mix(seed * 0x100000001b3u + i);
    const double unit =
        static_cast<double>(static_cast<int64_t>(bits >> 10) - (int64_t{1} << 53)) * 0x1p-53;  // [-1, 1)
    switch (type) {
      case ncclFloat64: put(&values, i, unit); break;
      case ncclFloat32: put(&values, i, static_cast<float>(unit)); break;
      case ncclFloat16: put(&values, i, __float2half(static_cast<float>(unit))); break;
      case ncclBfloat16: put(&values, i, __float2bfloat16(static_cast<float>(unit))); break;
      default: memcpy(values.data() + i * bytes, &bits, bytes);
    }
  }
  return values;
}

uint64_t digest(const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t sum = mix(bytes);
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    memcpy(&word, at + i, bytes - i < 8 ? bytes - i : 8);
    sum = mix(sum ^ word);
  }
  return sum;
}

std::vector<std::string> digests_of(Ranks& ranks, const Call& call, uint64_t seed) {
  const int count = ranks.count();
  const size_t sent = send_count(call, count) * bytes_of(call.type),
               received = recv_count(call, count) * bytes_of(call.type);
  ranks.reserve(sent > received ? sent : received);
  ranks.each([&](const Rank& rank) {
    const std::vector<char> values =
        random_values(call.type, send_count(call, count), seed + static_cast<uint64_t>(rank.number));
    CCLD_GPU_CHECK(cudaMemcpy(rank.send, values.data(), values.size(), cudaMemcpyHostToDevice));
    CCLD_GPU_CHECK(cudaMemset(rank.recv, untouched_byte, received));
    CCLD_GPU_CHECK(cudaDeviceSynchronize());
  });
  ranks.issue(call);
  ranks.wait();
  std::vector<std::string> digests;
  std::vector<char> output(received);
  ranks.each([&](const Rank& rank) {
    CCLD_GPU_CHECK(cudaMemcpy(output.data(), rank.recv, received, cudaMemcpyDeviceToHost));
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, digest(output.data(), received));
    digests.emplace_back(text);
  });
  return digests;
}

}  // namespace ccld::gpu
