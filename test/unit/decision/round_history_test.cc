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

TEST_CASE("A round of which some ranks' reports are lost is judged without them, late and once") {
  Settings s;
  s.rounds_overdue_s = 3;
  RoundHistory h(s);
  h.set_rank_count(4);
  const auto report = [&](uint64_t op, std::vector<int> ranks) {
    for (int r : ranks) h.round(OpSeq{op}, Rank{r}, fake::all_reduce(), cell(1, 2), 1);
  };
  const auto overdue_at = [&](double s) {
    std::vector<std::pair<uint64_t, uint32_t>> ops;
    h.visit_overdue(seconds_to_ns(s), [&](const RoundEntry& e) { ops.emplace_back(e.op.value, e.reported); });
    return ops;
  };
  using Ops = std::vector<std::pair<uint64_t, uint32_t>>;
  report(1, {0, 1, 2});
  report(2, {3});
  CHECK(overdue_at(10).empty());
  report(3, {0, 1, 2, 3});
  report(4, {0, 1});
  CHECK(overdue_at(12).empty());
  // Of operation 2 too little is known, 3 is complete, 4 is not old enough.
  CHECK(overdue_at(13.1) == Ops{{1, 3}});
  CHECK(overdue_at(13.9).empty());
  CHECK(overdue_at(15.1) == Ops{{4, 2}});
  // What comes later is too late for that, but not for signatures.
  report(1, {3});
  const auto done = h.take_complete();
  REQUIRE(done.size() == 1);
  CHECK(done[0].op == OpSeq{3});
  CHECK(overdue_at(30).empty());
  CHECK(h.signature_of(OpSeq{1}, Rank{3}) != nullptr);
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

TEST_CASE("Signatures that are all different are remembered as long as their operations") {
  Settings s;
  RoundHistory h(s);
  h.set_rank_count(2);
  constexpr uint64_t operations = 1000;
  const auto signature = [](uint64_t op) {
    Signature sig = fake::all_reduce();
    sig.count = 1000 + op;
    return sig;
  };
  for (uint64_t op = 1; op <= operations; ++op) {
    for (int r : {0, 1}) h.round(OpSeq{op}, Rank{r}, signature(op), cell(1, 2), 1);
    if (h.has_many_complete()) h.take_complete();
  }
  h.take_complete();
  REQUIRE(h.oldest().value < operations);
  for (uint64_t op = h.oldest().value; op <= operations; ++op) {
    REQUIRE(h.signature_at(OpSeq{op}) != nullptr);
    CHECK(*h.signature_at(OpSeq{op}) == signature(op));
    CHECK(*h.signature_of(OpSeq{op}, Rank{1}) == signature(op));
  }
  CHECK(h.mismatched().empty());
}

TEST_CASE("A signature that only later reports know whole is completed for its own operation alone") {
  Settings s;
  RoundHistory h(s);
  h.set_rank_count(2);
  Signature whole = fake::all_reduce(), early = whole;
  early.algorithm = abi::Algorithm::unknown;
  early.protocol = abi::Protocol::unknown;
  early.channels = 0;
  for (uint64_t op : {1, 2}) h.signature(OpSeq{op}, Rank{0}, early, 1);
  h.round(OpSeq{2}, Rank{1}, whole, cell(1, 2), 1);
  CHECK(*h.signature_at(OpSeq{1}) == early);
  CHECK(*h.signature_at(OpSeq{2}) == whole);
  CHECK(h.mismatched().empty());
}

TEST_CASE("What ranks reported before it was known how many there are is kept") {
  Settings s;
  RoundHistory h(s);
  const Signature sig = fake::all_reduce();
  const uint64_t far = 1 + 3 * RoundCells::block_rounds;
  for (int r : {0, 1, 2})
    for (uint64_t op : {uint64_t{1}, far}) h.round(OpSeq{op}, Rank{r}, sig, cell(100 * op + r, 200 * op + r), 1);
  CHECK(h.take_complete().empty());
  h.set_rank_count(3);
  const auto done = h.take_complete();
  REQUIRE(done.size() == 2);
  for (const RoundEntry& e : done) {
    REQUIRE(e.cells.size() == 3);
    for (uint64_t r = 0; r < 3; ++r) {
      CHECK(e.cells[r].begin_device_ns == 100 * e.op.value + r);
      CHECK(e.cells[r].end_device_ns == 200 * e.op.value + r);
    }
  }
}

TEST_CASE("A round whose signatures differ stays until it was judged, however many rounds a backlog brings at once") {
  Settings s;
  RoundHistory h(s);
  h.set_rank_count(2);
  Signature other = fake::all_reduce();
  other.reduction = abi::Reduction::max;
  for (uint64_t op = 1; op <= 400; ++op) {
    h.round(OpSeq{op}, Rank{0}, fake::all_reduce(), cell(1, 2), 1);
    h.round(OpSeq{op}, Rank{1}, op == 20 ? other : fake::all_reduce(), cell(1, 2), 1);
    if (op % 16 == 0) h.take_complete();
  }
  REQUIRE(h.mismatched() == std::vector<OpSeq>{OpSeq{20}});
  REQUIRE(h.find(OpSeq{20}) != nullptr);
  CHECK(h.find(OpSeq{20})->groups.size() == 2);
  h.settle(OpSeq{20});
  for (uint64_t op = 401; op <= 420; ++op)
    for (int r : {0, 1}) h.round(OpSeq{op}, Rank{r}, fake::all_reduce(), cell(1, 2), 1);
  h.take_complete();
  CHECK(h.find(OpSeq{20}) == nullptr);
}

}  // namespace ccld::decision
