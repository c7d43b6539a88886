// Tells the engine how to call a kernel: kernel(&f) registers f's parameters and returns f as the void* that
// cudaLaunchKernel takes.
//
// Threads: safe from any thread; registering a kernel again changes nothing.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {

// Where CUDA lays out the parameters of a kernel: in order, each at its own alignment.
template <class... Parameters>
struct KernelParameters {
  static constexpr size_t count = sizeof...(Parameters);
  struct Layout {
    size_t offsets[count + 1];
    size_t sizes[count + 1];
    size_t bytes;
  };

  static constexpr Layout make_layout() {
    Layout layout{};
    const size_t sizes[] = {sizeof(Parameters)..., 0}, alignments[] = {alignof(Parameters)..., 1};
    size_t offset = 0;
    for (size_t i = 0; i < count; i++) {
      offset = (offset + alignments[i] - 1) & ~(alignments[i] - 1);
      layout.offsets[i] = offset;
      layout.sizes[i] = sizes[i];
      offset += sizes[i];
    }
    layout.bytes = offset;
    return layout;
  }
  static constexpr Layout layout = make_layout();

  template <size_t... I>
  static void call(void (*function)(Parameters...), [[maybe_unused]] const char* arguments, std::index_sequence<I...>) {
    function(*reinterpret_cast<const std::remove_reference_t<Parameters>*>(arguments + layout.offsets[I])...);
  }
  static void invoke(const void* function, const void* arguments) {
    call(reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(function)), static_cast<const char*>(arguments),
         std::index_sequence_for<Parameters...>{});
  }
};

template <class... Parameters>
void* kernel(void (*function)(Parameters...), size_t static_shared_bytes = 0, const char* name = "") {
  using Shape = KernelParameters<Parameters...>;
  void* address = reinterpret_cast<void*>(function);
  register_kernel(address, KernelInfo{&Shape::invoke, Shape::layout.bytes, static_shared_bytes, name, Shape::count,
                                      Shape::layout.sizes, Shape::layout.offsets});
  return address;
}

}  // namespace ccld::cpu_device
