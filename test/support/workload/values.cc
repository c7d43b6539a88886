#include "test/support/workload/values.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace ccld::workload {
namespace {

template <class T>
void store(void* buffer, uint64_t index, T value) {
  memcpy(static_cast<char*>(buffer) + index * sizeof(T), &value, sizeof(T));
}
template <class T>
T load(const void* buffer, uint64_t index) {
  T value;
  memcpy(&value, static_cast<const char*>(buffer) + index * sizeof(T), sizeof(T));
  return value;
}

uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// The top bits of a float; exact for the values used here. No subnormal or infinite number occurs.
uint16_t half_of(float value) {
  if (value == 0) return 0;
  const uint32_t bits = bits_of(value);
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | (((bits & 0x7fffffffu) >> 13) - (112u << 10)));
}
float from_half(uint16_t half) {
  if ((half & 0x7fffu) == 0) return 0;
  return float_of((half & 0x8000u) << 16 | ((half & 0x7fffu) + (112u << 10)) << 13);
}

void put(ncclDataType_t type, void* buffer, uint64_t index, double value) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return store<uint8_t>(buffer, index, static_cast<uint8_t>(static_cast<int64_t>(value)));
    case ncclInt32:
    case ncclUint32: return store<uint32_t>(buffer, index, static_cast<uint32_t>(static_cast<int64_t>(value)));
    case ncclInt64:
    case ncclUint64: return store<uint64_t>(buffer, index, static_cast<uint64_t>(value));
    case ncclFloat16: return store<uint16_t>(buffer, index, half_of(static_cast<float>(value)));
    case ncclBfloat16:
      return store<uint16_t>(buffer, index, static_cast<uint16_t>(bits_of(static_cast<float>(value)) >> 16));
    case ncclFloat64: return store<double>(buffer, index, value);
    default: return store<float>(buffer, index, static_cast<float>(value));
  }
}

double get(ncclDataType_t type, const void* buffer, uint64_t index) {
  switch (type) {
    case ncclInt8: return load<int8_t>(buffer, index);
    case ncclUint8: return load<uint8_t>(buffer, index);
    case ncclInt32: return load<int32_t>(buffer, index);
    case ncclUint32: return load<uint32_t>(buffer, index);
    case ncclInt64: return static_cast<double>(load<int64_t>(buffer, index));
    case ncclUint64: return static_cast<double>(load<uint64_t>(buffer, index));
    case ncclFloat16: return from_half(load<uint16_t>(buffer, index));
    case ncclBfloat16: return float_of(static_cast<uint32_t>(load<uint16_t>(buffer, index)) << 16);
    case ncclFloat64: return load<double>(buffer, index);
    default: return load<float>(buffer, index);
  }
}

double input_value(int rank, uint64_t index, ncclRedOp_t reduction) {
  // A product of more than two different factors would leave the range of the narrow types.
  const uint64_t range = reduction == ncclProd ? 2 : 5;
  return static_cast<double>((static_cast<uint64_t>(rank) + index) % range + 1);
}

bool is_integer(ncclDataType_t type) {
  return type == ncclInt8 || type == ncclUint8 || type == ncclInt32 || type == ncclUint32 || type == ncclInt64 ||
         type == ncclUint64;
}

double reduced_value(const Call& call, int rank_count, uint64_t index) {
  double result = input_value(0, index, call.reduction);
  for (int rank = 1; rank < rank_count; ++rank) {
    const double value = input_value(rank, index, call.reduction);
    if (call.reduction == ncclProd) {
      result *= value;
    } else if (call.reduction == ncclMin) {
      result = std::min(result, value);
    } else if (call.reduction == ncclMax) {
      result = std::max(result, value);
    } else {
      result += value;
    }
  }
  if (call.reduction == ncclAvg) result /= rank_count;
  return is_integer(call.datatype) ? std::trunc(result) : result;
}

double expected_value(const Call& call, int rank, int rank_count, uint64_t index) {
  switch (call.operation) {
    case Operation::all_gather:
      return input_value(static_cast<int>(index / call.count), index % call.count, call.reduction);
    case Operation::reduce_scatter:
      return reduced_value(call, rank_count, static_cast<uint64_t>(rank) * call.count + index);
    case Operation::broadcast: return input_value(call.root, index, call.reduction);
    default: return reduced_value(call, rank_count, index);
  }
}

}  // namespace

std::vector<unsigned char> input_of(int rank, ncclDataType_t type, ncclRedOp_t reduction, uint64_t count) {
  std::vector<unsigned char> result(count * bytes_of(type));
  for (uint64_t i = 0; i < count; ++i) put(type, result.data(), i, input_value(rank, i, reduction));
  return result;
}

uint64_t output_count(const Call& call, int rank, int rank_count) {
  if (call.operation == Operation::all_gather) return call.count * static_cast<uint64_t>(rank_count);
  if (call.operation == Operation::reduce && rank != call.root) return 0;
  return call.count;
}

std::string check_output(const Call& call, int rank, int rank_count, const void* output) {
  // The mean is computed in the data type itself: products with 1/n need not be exact.
  const double tolerance = call.reduction == ncclAvg && !is_integer(call.datatype) ? 1.0 / 32 : 0;
  const uint64_t count = output_count(call, rank, rank_count);
  for (uint64_t i = 0; i < count; ++i) {
    unsigned char wrapped[8];  // a narrow integer wraps around, here as on the device
    put(call.datatype, wrapped, 0, expected_value(call, rank, rank_count, i));
    const double expected = get(call.datatype, wrapped, 0);
    const double found = get(call.datatype, output, i);
    if (!(std::abs(found - expected) <= tolerance * std::abs(expected))) {
      char line[128];
      snprintf(line, sizeof line, "element %llu of %llu is %g instead of %g", static_cast<unsigned long long>(i),
               static_cast<unsigned long long>(count), found, expected);
      return line;
    }
  }
  return "";
}

}  // namespace ccld::workload
