// Elements by number. GPUs, kernels and nodes are counted by int, because of `none`.
#pragma once

#include <cstddef>

namespace ccld::decision::timeline {

template <class Vector>
decltype(auto) at(Vector& of, int i) {
  return of[static_cast<size_t>(i)];
}

}  // namespace ccld::decision::timeline
