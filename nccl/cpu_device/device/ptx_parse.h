// Compile-time parser for the inline PTX of CUDA sources.
//
// Contract
//   parse_ptx() turns the text of one asm statement into a short program. Everything that is not known exactly is left
//   as Opcode::unknown with the offending instruction, and ptx_execute.h makes a compile error of it: a new instruction
//   in upstream's or in our device code never turns into silence.
//
// What is understood
//   ld/st of 8 to 64 bits, v2 and v4 (16 bytes at most), any state space, relaxed/volatile/acquire/release/weak;
//   barrier.sync, barrier.red.or with its predicate; fences; mov of %globaltimer, %laneid, %lanemask_lt; cvta; mad and
//   mul.hi of u32; multimem.ld_reduce of add, min and max, multimem.st, multimem.red of add of integers.
#pragma once

#include <cstddef>
#include <string_view>

namespace ccld::cpu_device {

template <size_t N>
struct PtxText {
  char text[N];
  constexpr PtxText(const char (&source)[N]) {
    for (size_t i = 0; i < N; i++) text[i] = source[i];
  }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

enum class Opcode {
  unknown,
  load,
  store,
  barrier_sync,
  barrier_reduce_or,
  fence_acquire_release,
  fence_sequential,
  move_global_timer,
  move_lane_id,
  move_lanes_below,
  convert_address,
  multiply_add_low,
  multiply_add_high,
  multiply_high,
  set_predicate_not_zero,
  select_by_predicate,
  declare_predicate,
  multimem_load_reduce,
  multimem_store,
  multimem_reduce,
};

enum class MemoryOrder { relaxed, acquire, release };

enum class Reduction { none, add, min, max };

// How a multimem instruction reads the bits of an element; the number of bits says the rest.
enum class ElementKind { bits, unsigned_integer, signed_integer, floating, half_pair, bfloat16_pair };

enum class OperandKind { none, reg, immediate, predicate, address, vector, special };

struct PtxOperand {
  OperandKind kind = OperandKind::none;
  int index = -1;                      // of %N: a register, or the base of an address
  long value = 0;                      // an immediate, or the offset of an address
  int elements[4] = {-1, -1, -1, -1};  // of a vector
  int element_count = 0;
};

struct PtxInstruction {
  Opcode opcode = Opcode::unknown;
  MemoryOrder order = MemoryOrder::relaxed;
  int vector_width = 1;
  int element_bits = 0;
  bool shared_space = false;
  Reduction reduction = Reduction::none;
  ElementKind element_kind = ElementKind::bits;
  PtxOperand operands[5];
  int operand_count = 0;
};

constexpr int max_ptx_instructions = 6;

struct PtxProgram {
  PtxInstruction instructions[max_ptx_instructions];
  int instruction_count = 0;
  int register_count = 0;  // one more than the highest %N
  bool valid = true;
};

namespace ptx_detail {

constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::string_view trim(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

// Cuts the part of `rest` before `separator` (all of it when there is none).
constexpr std::string_view cut(std::string_view& rest, char separator) {
  size_t at = rest.find(separator);
  std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view{} : rest.substr(at + 1);
  return part;
}

constexpr bool number(std::string_view s, long& value) {
  if (s.empty()) return false;
  value = 0;
  for (char c : s) {
    if (!is_digit(c)) return false;
    value = value * 10 + (c - '0');
  }
  return true;
}

constexpr bool register_index(std::string_view s, int& index) {
  long value = 0;
  s = trim(s);
  if (s.size() < 2 || s[0] != '%' || !number(s.substr(1), value)) return false;
  index = static_cast<int>(value);
  return true;
}

constexpr bool parse_operand(std::string_view s, PtxOperand& operand) {
  s = trim(s);
  if (s.empty()) return false;
  if (s.front() == '{') {
    if (s.back() != '}') return false;
    s = s.substr(1, s.size() - 2);
    operand.kind = OperandKind::vector;
    while (!s.empty()) {
      if (operand.element_count == 4 || !register_index(cut(s, ','), operand.elements[operand.element_count++]))
        return false;
    }
    return operand.element_count > 0;
  }
  if (s.front() == '[') {
    if (s.back() != ']') return false;
    s = s.substr(1, s.size() - 2);
    operand.kind = OperandKind::address;
    std::string_view offset = s;
    std::string_view base = cut(offset, '+');
    if (!register_index(base, operand.index)) return false;
    return trim(offset).empty() || number(trim(offset), operand.value);
  }
  if (s.substr(0, 2) == "%%") {
    operand.kind = OperandKind::special;
    return true;
  }
  if (s.front() == '%') {
    operand.kind = OperandKind::reg;
    return register_index(s, operand.index);
  }
  if (s == "p") {
    operand.kind = OperandKind::predicate;
    return true;
  }
  operand.kind = OperandKind::immediate;
  return number(s, operand.value);
}

// Splits "a, {b, c}, [d]" at the commas outside of braces.
constexpr bool parse_operands(std::string_view s, PtxInstruction& instruction) {
  s = trim(s);
  while (!s.empty()) {
    size_t end = 0;
    bool in_braces = false;
    while (end < s.size() && (in_braces || s[end] != ',')) {
      if (s[end] == '{') in_braces = true;
      if (s[end] == '}') in_braces = false;
      end++;
    }
    if (instruction.operand_count == 5) return false;
    if (!parse_operand(s.substr(0, end), instruction.operands[instruction.operand_count++])) return false;
    s = end < s.size() ? trim(s.substr(end + 1)) : std::string_view{};
  }
  return true;
}

// "b32", "u64", "f32", ...: 0 when it is not a type of 8 to 64 bits.
constexpr int type_bits(std::string_view s) {
  long bits = 0;
  if (s.size() < 2 || (s[0] != 'b' && s[0] != 'u' && s[0] != 's' && s[0] != 'f') || !number(s.substr(1), bits))
    return 0;
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? static_cast<int>(bits) : 0;
}

constexpr bool parse_memory_access(std::string_view qualifiers, PtxInstruction& instruction, bool is_load) {
  while (!qualifiers.empty()) {
    std::string_view q = cut(qualifiers, '.');
    if (q == "volatile" || q == "relaxed" || q == "weak") continue;
    if (q == "sys" || q == "gpu" || q == "cta" || q == "global") continue;
    if (q == "shared")
      instruction.shared_space = true;
    else if (q == "acquire" && is_load)
      instruction.order = MemoryOrder::acquire;
    else if (q == "release" && !is_load)
      instruction.order = MemoryOrder::release;
    else if (q == "v2")
      instruction.vector_width = 2;
    else if (q == "v4")
      instruction.vector_width = 4;
    else if (type_bits(q) != 0 && qualifiers.empty())
      instruction.element_bits = type_bits(q);
    else
      return false;
  }
  if (instruction.element_bits == 0 || instruction.operand_count != 2) return false;
  const PtxOperand& address = instruction.operands[is_load ? 1 : 0];
  const PtxOperand& data = instruction.operands[is_load ? 0 : 1];
  if (address.kind != OperandKind::address) return false;
  int bits = instruction.vector_width * instruction.element_bits;
  if (data.kind == OperandKind::vector) return data.element_count == instruction.vector_width && bits <= 128;
  return data.kind == OperandKind::reg && instruction.vector_width == 1;
}

// The type of a multimem element: as type_bits(), and pairs of 16-bit floats.
constexpr bool parse_multimem_type(std::string_view s, PtxInstruction& instruction) {
  if (s == "f16x2" || s == "bf16x2") {
    instruction.element_kind = s == "f16x2" ? ElementKind::half_pair : ElementKind::bfloat16_pair;
    instruction.element_bits = 32;
    return true;
  }
  instruction.element_bits = type_bits(s);
  instruction.element_kind = s[0] == 'u'   ? ElementKind::unsigned_integer
                             : s[0] == 's' ? ElementKind::signed_integer
                             : s[0] == 'f' ? ElementKind::floating
                                           : ElementKind::bits;
  return instruction.element_bits >= 32;
}

// Whether hardware has the instruction, as far as it is understood here.
constexpr bool is_multimem_form(const PtxInstruction& instruction, bool wide_accumulator) {
  const ElementKind kind = instruction.element_kind;
  const bool is_pair = kind == ElementKind::half_pair || kind == ElementKind::bfloat16_pair;
  const bool is_integer = kind == ElementKind::unsigned_integer || kind == ElementKind::signed_integer;
  const Reduction reduction = instruction.reduction;
  if (instruction.vector_width > 1 && !is_pair && (kind != ElementKind::floating || instruction.element_bits != 32)) {
    return false;
  }
  if (wide_accumulator && (!is_pair || reduction != Reduction::add)) return false;
  switch (instruction.opcode) {
    case Opcode::multimem_store: return reduction == Reduction::none && !is_pair;
    case Opcode::multimem_reduce: return reduction == Reduction::add && is_integer && instruction.vector_width == 1;
    case Opcode::multimem_load_reduce:
      // Sums of 16-bit floats are only known as those that add up in 32 bits.
      if (reduction == Reduction::add) return kind != ElementKind::bits && is_pair == wide_accumulator;
      return (reduction == Reduction::min || reduction == Reduction::max) && (is_integer || is_pair);
    default: return false;
  }
}

constexpr bool parse_multimem(std::string_view qualifiers, PtxInstruction& instruction) {
  bool wide_accumulator = false;
  while (!qualifiers.empty()) {
    std::string_view q = cut(qualifiers, '.');
    if (q == "relaxed" || q == "weak" || q == "sys" || q == "gpu" || q == "cta" || q == "global") continue;
    if (q == "acquire" && instruction.opcode == Opcode::multimem_load_reduce)
      instruction.order = MemoryOrder::acquire;
    else if (q == "release" && instruction.opcode != Opcode::multimem_load_reduce)
      instruction.order = MemoryOrder::release;
    else if (q == "add" || q == "min" || q == "max")
      instruction.reduction = q == "add" ? Reduction::add : q == "min" ? Reduction::min : Reduction::max;
    else if (q == "acc::f32")
      wide_accumulator = true;
    else if (q == "v4")
      instruction.vector_width = 4;
    else if (!qualifiers.empty() || !parse_multimem_type(q, instruction))
      return false;
  }
  if (instruction.element_bits == 0 || instruction.operand_count != 2) return false;
  const bool is_load = instruction.opcode == Opcode::multimem_load_reduce;
  const PtxOperand& address = instruction.operands[is_load ? 1 : 0];
  const PtxOperand& data = instruction.operands[is_load ? 0 : 1];
  const bool fits = instruction.vector_width == 1
                        ? data.kind == OperandKind::reg
                        : data.kind == OperandKind::vector && data.element_count == instruction.vector_width;
  return address.kind == OperandKind::address && fits && is_multimem_form(instruction, wide_accumulator);
}

constexpr bool operands_are(const PtxInstruction& instruction, std::string_view kinds) {
  if (instruction.operand_count != static_cast<int>(kinds.size())) return false;
  for (int i = 0; i < instruction.operand_count; i++) {
    OperandKind wanted = kinds[i] == 'r'   ? OperandKind::reg
                         : kinds[i] == 'p' ? OperandKind::predicate
                                           : OperandKind::immediate;
    if (instruction.operands[i].kind != wanted) return false;
  }
  return true;
}

constexpr Opcode special_register(std::string_view text) {
  if (text.find("%%globaltimer") != std::string_view::npos) return Opcode::move_global_timer;
  if (text.find("%%laneid") != std::string_view::npos) return Opcode::move_lane_id;
  if (text.find("%%lanemask_lt") != std::string_view::npos) return Opcode::move_lanes_below;
  return Opcode::unknown;
}

constexpr bool parse_instruction(std::string_view text, PtxInstruction& instruction) {
  std::string_view arguments = text;
  std::string_view mnemonic = cut(arguments, ' ');
  auto is = [&](std::string_view whole) { return mnemonic == whole; };
  auto starts = [&](std::string_view prefix) { return mnemonic.substr(0, prefix.size()) == prefix; };
  auto become = [&](Opcode opcode, bool well_formed) {
    instruction.opcode = well_formed ? opcode : Opcode::unknown;
    return well_formed;
  };
  if (is(".reg")) return become(Opcode::declare_predicate, trim(arguments) == ".pred p");
  if (!parse_operands(arguments, instruction)) return false;

  if (starts("ld.")) return become(Opcode::load, parse_memory_access(mnemonic.substr(3), instruction, true));
  if (starts("st.")) return become(Opcode::store, parse_memory_access(mnemonic.substr(3), instruction, false));
  if (is("barrier.sync") || is("barrier.sync.aligned")) {
    return become(Opcode::barrier_sync, operands_are(instruction, "r") || operands_are(instruction, "rr"));
  }
  if (is("barrier.red.or.pred")) {
    return become(Opcode::barrier_reduce_or, operands_are(instruction, "prp") || operands_are(instruction, "prrp"));
  }
  if (is("setp.ne.s32")) {
    return become(Opcode::set_predicate_not_zero,
                  operands_are(instruction, "pri") && instruction.operands[2].value == 0);
  }
  if (is("selp.s32")) return become(Opcode::select_by_predicate, operands_are(instruction, "riip"));
  if (is("membar.sys") || is("membar.gl") || is("membar.cta") || starts("fence.sc.")) {
    return become(Opcode::fence_sequential, instruction.operand_count == 0);
  }
  if (starts("fence.acq_rel.")) return become(Opcode::fence_acquire_release, instruction.operand_count == 0);
  if (is("mov.u64") || is("mov.u32")) {
    return become(special_register(arguments), instruction.operand_count == 2 &&
                                                   instruction.operands[0].kind == OperandKind::reg &&
                                                   instruction.operands[1].kind == OperandKind::special &&
                                                   special_register(arguments) != Opcode::unknown);
  }
  if (starts("cvta.")) return become(Opcode::convert_address, operands_are(instruction, "rr"));
  if (is("mad.lo.u32")) return become(Opcode::multiply_add_low, operands_are(instruction, "rrrr"));
  if (is("mad.hi.u32")) return become(Opcode::multiply_add_high, operands_are(instruction, "rrrr"));
  if (is("mul.hi.u32")) return become(Opcode::multiply_high, operands_are(instruction, "rrr"));
  auto multimem = [&](Opcode opcode, std::string_view prefix) {
    instruction.opcode = opcode;
    return become(opcode, parse_multimem(mnemonic.substr(prefix.size()), instruction));
  };
  if (starts("multimem.ld_reduce.")) return multimem(Opcode::multimem_load_reduce, "multimem.ld_reduce.");
  if (starts("multimem.st.")) return multimem(Opcode::multimem_store, "multimem.st.");
  if (starts("multimem.red.")) return multimem(Opcode::multimem_reduce, "multimem.red.");
  return false;
}

}  // namespace ptx_detail

constexpr PtxProgram parse_ptx(std::string_view text) {
  using namespace ptx_detail;
  PtxProgram program;
  for (size_t i = 0; i + 1 < text.size(); i++) {
    if (text[i] != '%' || !is_digit(text[i + 1])) continue;
    int index = 0;
    for (size_t j = i + 1; j < text.size() && is_digit(text[j]); j++) index = index * 10 + (text[j] - '0');
    if (index + 1 > program.register_count) program.register_count = index + 1;
  }
  text = trim(text);
  if (!text.empty() && text.front() == '{') {  // a block with its own declarations
    if (text.back() != '}') program.valid = false;
    text = trim(text.substr(1, text.size() - 2));
  }
  while (program.valid && !text.empty()) {
    std::string_view one = trim(cut(text, ';'));
    text = trim(text);
    if (one.empty()) continue;
    if (program.instruction_count == max_ptx_instructions)
      program.valid = false;
    else
      program.valid = parse_instruction(one, program.instructions[program.instruction_count++]);
  }
  if (program.instruction_count == 0) program.valid = false;
  return program;
}

}  // namespace ccld::cpu_device
