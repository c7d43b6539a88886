#include "nccl/cpu_device/device/ptx_parse.h"

#include <catch2/catch.hpp>

namespace ccld::cpu_device {
namespace {

TEST_CASE("a scalar load names its width, its target and its address") {
  constexpr PtxProgram program = parse_ptx("ld.volatile.global.u64 %0, [%1];");
  REQUIRE(program.valid);
  REQUIRE(program.instruction_count == 1);
  REQUIRE(program.register_count == 2);
  const PtxInstruction& load = program.instructions[0];
  CHECK(load.opcode == Opcode::load);
  CHECK(load.element_bits == 64);
  CHECK(load.vector_width == 1);
  CHECK(load.operands[0].index == 0);
  CHECK(load.operands[1].kind == OperandKind::address);
  CHECK(load.operands[1].index == 1);
}

TEST_CASE("a vector store may name its operands in any order and an offset") {
  const PtxProgram program = parse_ptx("st.relaxed.sys.global.v4.u32 [%4+16], {%3,%1,%2,%0};");
  REQUIRE(program.valid);
  const PtxInstruction& store = program.instructions[0];
  CHECK(store.opcode == Opcode::store);
  CHECK(store.vector_width == 4);
  CHECK(store.element_bits == 32);
  CHECK(store.operands[0].index == 4);
  CHECK(store.operands[0].value == 16);
  CHECK(store.operands[1].element_count == 4);
  CHECK(store.operands[1].elements[0] == 3);
  CHECK(store.operands[1].elements[3] == 0);
}

TEST_CASE("acquire and release are kept") {
  CHECK(parse_ptx("ld.acquire.sys.global.u64 %0, [%1];").instructions[0].order == MemoryOrder::acquire);
  CHECK(parse_ptx("st.release.sys.global.u64 [%0], %1;").instructions[0].order == MemoryOrder::release);
}

TEST_CASE("a statement may hold several instructions") {
  const PtxProgram program = parse_ptx("membar.sys; st.volatile.global.u64 [%0], %1;");
  REQUIRE(program.valid);
  REQUIRE(program.instruction_count == 2);
  CHECK(program.instructions[0].opcode == Opcode::fence_sequential);
  CHECK(program.instructions[1].opcode == Opcode::store);
}

TEST_CASE("a reducing barrier with its predicate is understood as four steps") {
  const PtxProgram program =
      parse_ptx("{ .reg .pred p; setp.ne.s32 p, %1, 0; barrier.red.or.pred p, %2, %3, p; selp.s32 %0, 1, 0, p; }");
  REQUIRE(program.valid);
  REQUIRE(program.instruction_count == 4);
  CHECK(program.instructions[1].opcode == Opcode::set_predicate_not_zero);
  CHECK(program.instructions[2].opcode == Opcode::barrier_reduce_or);
  CHECK(program.instructions[3].opcode == Opcode::select_by_predicate);
  CHECK(program.register_count == 4);
}

TEST_CASE("what is not known exactly is refused") {
  const char* const unknown[] = {
      "",
      "ld.global.u128 %0, [%1];",               // no such width
      "ld.nonsense.global.u64 %0, [%1];",       // an unknown qualifier
      "ld.release.sys.global.u64 %0, [%1];",    // release on a load
      "ld.global.v2.u64 {%0,%1,%2}, [%3];",     // three elements for v2
      "ld.global.v4.u64 {%0,%1,%2,%3}, [%4];",  // 32 bytes
      "ld.global.u64 %0, %1;",                  // no address
      "st.global.u64 %0, [%1];",                // operands the wrong way round
      "mov.u64 %0, %%clock64;",                 // an unknown special register
      "atom.add.u32 %0, [%1], %2;",             // an unknown instruction
      "membar.sys; frobnicate %0;",             // unknown after known
      "barrier.sync %0, %1, %2;",               // too many operands
      "{ .reg .pred q; }",                      // another declaration
  };
  for (const char* text : unknown) {
    CAPTURE(text);
    CHECK_FALSE(parse_ptx(text).valid);
  }
}

}  // namespace
}  // namespace ccld::cpu_device
