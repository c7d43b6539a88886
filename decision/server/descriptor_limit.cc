#include "decision/server/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace ccld::decision::server {

size_t raise_descriptor_limit(size_t wished) {
  constexpr size_t usual = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::min(usual, wished);
  const rlim_t possible = std::min<rlim_t>(limit.rlim_max, wished);
  if (limit.rlim_cur < possible) {
    const rlimit raised{possible, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit.rlim_cur = possible;
  }
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, wished));
}

}  // namespace ccld::decision::server
