// Runs inline PTX that was parsed at compile time: ptx<"ld.volatile.global.u64 %0, [%1];">(value, pointer).
//
// Contract
//   The operands come in the order of the asm statement: outputs, then inputs. A 32-bit shared-memory address is a
//   truncated pointer. PTX that ptx_parse.h does not know is a compile error.
//
// Memory order
//   The memory order of the host (x86: total store order) is stronger than the GPU's, so loads and stores only have to
//   be kept in the order of the program. 16-byte accesses are single instructions: LL128 needs data and flag together.
#pragma once

#include <emmintrin.h>

#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "nccl/cpu_device/device/multimem.h"
#include "nccl/cpu_device/device/ptx_parse.h"
#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {
namespace ptx_detail {

// Parsed once per text, however often the text is used.
template <PtxText Text>
inline constexpr PtxProgram program_of = parse_ptx(Text.view());

template <int Bits>
struct UnsignedOf;
template <>
struct UnsignedOf<8> {
  using Type = uint8_t;
};
template <>
struct UnsignedOf<16> {
  using Type = uint16_t;
};
template <>
struct UnsignedOf<32> {
  using Type = uint32_t;
};
template <>
struct UnsignedOf<64> {
  using Type = uint64_t;
};

template <class T>
CCLD_DEVICE_INLINE uint64_t bits_of(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<uint64_t>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
  } else if constexpr (sizeof(T) < 8 && std::is_signed_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);  // no sign in the upper half: it may be an address
  } else {
    return static_cast<uint64_t>(value);
  }
}

template <class T>
CCLD_DEVICE_INLINE void assign(T& target, uint64_t bits) {
  if constexpr (std::is_pointer_v<T>) {
    target = reinterpret_cast<T>(bits);
  } else if constexpr (std::is_floating_point_v<T>) {
    memcpy(&target, &bits, sizeof(T));
  } else {
    target = static_cast<T>(bits);
  }
}

// The elements of a vector operand, from and to the operands of the statement.
template <PtxOperand Vector, size_t Width, class Element, class Operands>
CCLD_DEVICE_INLINE void read_vector(Operands& operands, Element (&values)[Width]) {
  [&]<size_t... K>(std::index_sequence<K...>) __attribute__((always_inline)) {
    ((values[K] = static_cast<Element>(bits_of(std::get<Vector.elements[K]>(operands)))), ...);
  }
  (std::make_index_sequence<Width>());
}

template <PtxOperand Vector, size_t Width, class Element, class Operands>
CCLD_DEVICE_INLINE void write_vector(Operands& operands, const Element (&values)[Width]) {
  [&]<size_t... K>(std::index_sequence<K...>) __attribute__((always_inline)) {
    (assign(std::get<Vector.elements[K]>(operands), values[K]), ...);
  }
  (std::make_index_sequence<Width>());
}

// Keeps the compiler from moving other memory accesses across, as asm's "memory" does.
CCLD_DEVICE_INLINE void compiler_fence() { asm volatile("" ::: "memory"); }

CCLD_DEVICE_INLINE __m128i load_16_bytes(uint64_t address) {
  __m128i value;
  asm volatile("movdqa %1,%0" : "=x"(value) : "m"(*reinterpret_cast<const __m128i*>(address)) : "memory");
  return value;
}

CCLD_DEVICE_INLINE void store_16_bytes(uint64_t address, __m128i value) {
  asm volatile("movdqa %1,%0" : "=m"(*reinterpret_cast<__m128i*>(address)) : "x"(value) : "memory");
}

template <PtxText Text, size_t Index, class Operands>
CCLD_DEVICE_INLINE void load(Operands& operands) {
  constexpr PtxInstruction I = program_of<Text>.instructions[Index];
  constexpr PtxOperand data = I.operands[0], from = I.operands[1];
  using Element = typename UnsignedOf<I.element_bits>::Type;
  const uint64_t address = bits_of(std::get<from.index>(operands)) + from.value;
  if constexpr (data.kind != OperandKind::vector) {
    compiler_fence();
    Element value = *reinterpret_cast<const volatile Element*>(address);
    compiler_fence();
    assign(std::get<data.index>(operands), value);
  } else {
    constexpr int width = I.vector_width;
    Element values[width];
    if constexpr (width * I.element_bits == 128) {
      __m128i whole = load_16_bytes(address);
      memcpy(values, &whole, 16);
    } else {
      using Whole = typename UnsignedOf<width * I.element_bits>::Type;
      compiler_fence();
      Whole whole = *reinterpret_cast<const volatile Whole*>(address);
      compiler_fence();
      memcpy(values, &whole, sizeof whole);
    }
    write_vector<data>(operands, values);
  }
}

template <PtxText Text, size_t Index, class Operands>
CCLD_DEVICE_INLINE void store(Operands& operands) {
  constexpr PtxInstruction I = program_of<Text>.instructions[Index];
  constexpr PtxOperand to = I.operands[0], data = I.operands[1];
  using Element = typename UnsignedOf<I.element_bits>::Type;
  const uint64_t address = bits_of(std::get<to.index>(operands)) + to.value;
  if constexpr (data.kind != OperandKind::vector) {
    const auto value = static_cast<Element>(bits_of(std::get<data.index>(operands)));
    compiler_fence();
    if constexpr (!I.shared_space) {
      // NVLS posts its credits so, and what is shorter than a multimem store.
      if (__builtin_expect(is_multicast(address), false)) return multimem_store_scalar(address, value);
    }
    *reinterpret_cast<volatile Element*>(address) = value;
    compiler_fence();
  } else {
    constexpr int width = I.vector_width;
    Element values[width];
    read_vector<data>(operands, values);
    if constexpr (width * I.element_bits == 128) {
      __m128i whole;
      memcpy(&whole, values, 16);
      store_16_bytes(address, whole);
    } else {
      using Whole = typename UnsignedOf<width * I.element_bits>::Type;
      Whole whole;
      memcpy(&whole, values, sizeof whole);
      compiler_fence();
      *reinterpret_cast<volatile Whole*>(address) = whole;
      compiler_fence();
    }
  }
}

template <PtxText Text, size_t Index, class Operands>
CCLD_DEVICE_INLINE void load_reduce(Operands& operands) {
  constexpr PtxInstruction I = program_of<Text>.instructions[Index];
  constexpr PtxOperand data = I.operands[0], from = I.operands[1];
  constexpr int width = I.vector_width;
  using Element = typename UnsignedOf<I.element_bits>::Type;
  const uint64_t address = bits_of(std::get<from.index>(operands)) + from.value;
  Element values[width];
  multimem_load_reduce<I.reduction, I.element_kind, width>(address, values);
  if constexpr (width == 1) {
    assign(std::get<data.index>(operands), values[0]);
  } else {
    write_vector<data>(operands, values);
  }
}

template <PtxText Text, size_t Index, class Operands>
CCLD_DEVICE_INLINE void store_or_add_everywhere(Operands& operands) {
  constexpr PtxInstruction I = program_of<Text>.instructions[Index];
  constexpr PtxOperand to = I.operands[0], data = I.operands[1];
  using Element = typename UnsignedOf<I.element_bits>::Type;
  const uint64_t address = bits_of(std::get<to.index>(operands)) + to.value;
  if constexpr (I.opcode == Opcode::multimem_reduce) {
    multimem_add(address, static_cast<Element>(bits_of(std::get<data.index>(operands))));
  } else if constexpr (I.vector_width == 1) {
    multimem_store_scalar(address, static_cast<Element>(bits_of(std::get<data.index>(operands))));
  } else {
    alignas(16) Element values[4];
    read_vector<data>(operands, values);
    multimem_store_16_bytes(address, values);
  }
}

template <PtxText Text, size_t Index, class Operands>
CCLD_DEVICE_INLINE void execute([[maybe_unused]] Operands& operands, [[maybe_unused]] bool& predicate) {
  constexpr PtxInstruction I = program_of<Text>.instructions[Index];
  constexpr Opcode opcode = I.opcode;
  if constexpr (opcode == Opcode::load) {
    load<Text, Index>(operands);
  } else if constexpr (opcode == Opcode::store) {
    store<Text, Index>(operands);
  } else if constexpr (opcode == Opcode::barrier_sync) {
    int count = 0;
    if constexpr (I.operand_count == 2) count = static_cast<int>(std::get<I.operands[1].index>(operands));
    barrier(static_cast<int>(std::get<I.operands[0].index>(operands)), count);
  } else if constexpr (opcode == Opcode::barrier_reduce_or) {
    int count = 0;
    if constexpr (I.operand_count == 4) count = static_cast<int>(std::get<I.operands[2].index>(operands));
    predicate = barrier_or(static_cast<int>(std::get<I.operands[1].index>(operands)), count, predicate) != 0;
  } else if constexpr (opcode == Opcode::fence_acquire_release) {
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
  } else if constexpr (opcode == Opcode::fence_sequential) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  } else if constexpr (opcode == Opcode::move_global_timer) {
    assign(std::get<I.operands[0].index>(operands), global_timer_ns());
  } else if constexpr (opcode == Opcode::move_lane_id) {
    assign(std::get<I.operands[0].index>(operands), current_fiber->lane);
  } else if constexpr (opcode == Opcode::move_lanes_below) {
    assign(std::get<I.operands[0].index>(operands), (1u << current_fiber->lane) - 1);
  } else if constexpr (opcode == Opcode::convert_address) {
    assign(std::get<I.operands[0].index>(operands), bits_of(std::get<I.operands[1].index>(operands)));
  } else if constexpr (opcode == Opcode::multiply_add_low || opcode == Opcode::multiply_add_high ||
                       opcode == Opcode::multiply_high) {
    const uint64_t product = (bits_of(std::get<I.operands[1].index>(operands)) & 0xffffffffu) *
                             (bits_of(std::get<I.operands[2].index>(operands)) & 0xffffffffu);
    uint32_t result = static_cast<uint32_t>(opcode == Opcode::multiply_add_low ? product : product >> 32);
    if constexpr (opcode != Opcode::multiply_high) {
      result += static_cast<uint32_t>(bits_of(std::get<I.operands[3].index>(operands)));
    }
    assign(std::get<I.operands[0].index>(operands), result);
  } else if constexpr (opcode == Opcode::set_predicate_not_zero) {
    predicate = bits_of(std::get<I.operands[1].index>(operands)) != 0;
  } else if constexpr (opcode == Opcode::select_by_predicate) {
    assign(std::get<I.operands[0].index>(operands), predicate ? I.operands[1].value : I.operands[2].value);
  } else if constexpr (opcode == Opcode::multimem_load_reduce) {
    load_reduce<Text, Index>(operands);
  } else if constexpr (opcode == Opcode::multimem_store || opcode == Opcode::multimem_reduce) {
    store_or_add_everywhere<Text, Index>(operands);
  }
}

}  // namespace ptx_detail

template <PtxText Text, class... Operands>
CCLD_DEVICE_INLINE void ptx(Operands&&... arguments) {
  using ptx_detail::program_of;
  static_assert(program_of<Text>.valid,
                "this PTX is not known to the CPU device: teach it to nccl/cpu_device/device/ptx_parse.h");
  static_assert(program_of<Text>.register_count <= static_cast<int>(sizeof...(Operands)),
                "this PTX names more operands than the asm statement has");
  if constexpr (program_of<Text>.valid && program_of<Text>.register_count <= static_cast<int>(sizeof...(Operands))) {
    auto operands = std::forward_as_tuple(arguments...);
    bool predicate = false;
    [&]<size_t... K>(std::index_sequence<K...>) __attribute__((always_inline)) {
      (ptx_detail::execute<Text, K>(operands, predicate), ...);
    }
    (std::make_index_sequence<program_of<Text>.instruction_count>());
  }
}

}  // namespace ccld::cpu_device
