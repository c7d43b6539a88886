#include "decision/model/round_history.h"

#include <catch2/catch.hpp>

#include "test/support/telemetry/fake_cluster.h"

namespace ccld::decision {

namespace {

RoundCell cell(uint64_t begin, uint64_t end) {
  RoundCell c;
  c.begin_device_ns = begin;
  c.end_device_ns = end;
  c.timed = true;
  return c;
}

}  // namespace

TEST_CASE("A round is complete when every rank has reported it, in whatever order, and only once") {
  Settings s;
  RoundHistory h(s);
  h.set_rank_count(3);
  const Signature sig = fake::all_reduce();
  for (int r : {2, 0, 0, 2}) h.round(OpSeq{5}, Rank{r}, sig, cell(1, 2), 1);
  CHECK(h.take_complete().empty());
  h.round(OpSeq{5}, Rank{1}, sig, cell(1, 2), 1);
  h.round(OpSeq{5}, Rank{1}, sig, cell(1, 2), 1);
  const auto done = h.take_complete();
  REQUIRE(done.size() == 1);
  CHECK(done[0].reported == 3);
  h.round(OpSeq{5}, Rank{1}, sig, cell(1, 2), 1);
  CHECK(h.take_complete().empty());
  CHECK(h.mismatched().empty());
}

TEST_CASE("Rounds that never complete give way to newer ones") {
  Settings s;
  s.rounds_kept_max = 8;
  RoundHistory h(s);
  h.set_rank_count(2);
  for (uint64_t op = 1; op <= 1000; ++op) h.round(OpSeq{op}, Rank{0}, fake::all_reduce(), cell(1, 2), 1);
  CHECK(h.evicted() == 992);
  CHECK(h.find(OpSeq{992}) == nullptr);
  CHECK(h.find(OpSeq{1000}) != nullptr);
  h.round(OpSeq{3}, Rank{1}, fake::all_reduce(), cell(1, 2), 1);  // far too late
  CHECK(h.find(OpSeq{3}) == nullptr);
}

TEST_CASE("The bound on cells limits large communicators") {
  Settings s;
  s.round_cells_max = 10'000;
  RoundHistory h(s);
  h.set_rank_count(1000);
  for (uint64_t op = 1; op <= 100; ++op) h.round(OpSeq{op}, Rank{0}, fake::all_reduce(), cell(1, 2), 1);
  CHECK(h.evicted() == 90);
}

TEST_CASE("A later report completes what an earlier one did not know") {
  Settings s;
  RoundHistory h(s);
  h.set_rank_count(2);
  Signature early = fake::all_reduce();
  early.algorithm = abi::Algorithm::unknown;
  early.channels = 0;
  h.signature(OpSeq{1}, Rank{0}, early, 1);
  h.signature(OpSeq{1}, Rank{1}, fake::all_reduce(), 1);
  h.signature(OpSeq{1}, Rank{0}, fake::all_reduce(), 2);
  CHECK(h.mismatched().empty());
  CHECK(h.find(OpSeq{1})->signature()->algorithm == abi::Algorithm::ring);
  Signature tree = fake::all_reduce();
  tree.algorithm = abi::Algorithm::tree;
  h.signature(OpSeq{1}, Rank{0}, tree, 3);
  CHECK(h.mismatched().size() == 1);
}

TEST_CASE("Signatures of complete rounds are kept for a while, for sequences that are shifted") {
  Settings s;
  RoundHistory h(s);
  h.set_rank_count(1);
  for (uint64_t op = 1; op <= 10; ++op) h.round(OpSeq{op}, Rank{0}, fake::all_reduce(op), cell(1, 2), 1);
  h.take_complete();
  REQUIRE(h.signature_of(OpSeq{7}, Rank{0}));
  CHECK(h.signature_of(OpSeq{7}, Rank{0})->count == 7);
}

TEST_CASE("The first field that differs is named") {
  const Signature a = fake::all_reduce();
  Signature b = a;
  CHECK(difference(a, b) == SignatureField::none);
  b.flags = 4;
  CHECK(difference(a, b) == SignatureField::none);
  b.channels = 4;
  CHECK(difference(a, b) == SignatureField::channels);
  b.count = 1;
  CHECK(difference(a, b) == SignatureField::count);
  b.function = abi::Function::reduce;
  CHECK(difference(a, b) == SignatureField::function);
}

}  // namespace ccld::decision
