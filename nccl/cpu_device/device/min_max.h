// CUDA's global min and max, with its overloads for mixed types.
#pragma once

#include "nccl/cpu_device/device/ptx_execute.h"

#define CCLD_MIN_MAX(Result, A, B)                                                                            \
  CCLD_DEVICE_INLINE Result min(A a, B b) {                                                                   \
    return static_cast<Result>(a) < static_cast<Result>(b) ? static_cast<Result>(a) : static_cast<Result>(b); \
  }                                                                                                           \
  CCLD_DEVICE_INLINE Result max(A a, B b) {                                                                   \
    return static_cast<Result>(a) > static_cast<Result>(b) ? static_cast<Result>(a) : static_cast<Result>(b); \
  }

// As CUDA: a signed and an unsigned operand of one width compare as unsigned.
#define CCLD_MIN_MAX_INTEGER(Signed, Unsigned) \
  CCLD_MIN_MAX(Signed, Signed, Signed)         \
  CCLD_MIN_MAX(Unsigned, Unsigned, Unsigned)   \
  CCLD_MIN_MAX(Unsigned, Signed, Unsigned)     \
  CCLD_MIN_MAX(Unsigned, Unsigned, Signed)

CCLD_MIN_MAX_INTEGER(int, unsigned)
CCLD_MIN_MAX_INTEGER(long, unsigned long)
CCLD_MIN_MAX_INTEGER(long long, unsigned long long)
CCLD_MIN_MAX(float, float, float)
CCLD_MIN_MAX(double, double, double)
CCLD_MIN_MAX(double, float, double)
CCLD_MIN_MAX(double, double, float)

#undef CCLD_MIN_MAX_INTEGER
#undef CCLD_MIN_MAX
