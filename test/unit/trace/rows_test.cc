#include "decision/trace/rows.h"

#include "decision/trace/json_writer.h"
#include "decision/trace/perfetto_writer.h"
#include "test/unit/trace/jobs.h"

namespace ccld::test {
namespace {

// Keeps what it is given.
struct Kept final : Writer {
  std::vector<Group> groups;
  std::vector<Slice> slices;
  std::vector<std::string> rows_of_slices;
  std::vector<std::pair<uint64_t, size_t>> arrows;  // and how many points
  bool finished = false;
  void group(const Group& g) override { groups.push_back(g); }
  void row(const Row&) override {}
  void slice(const Slice& s) override { slices.push_back(s), rows_of_slices.push_back(s.row->name); }
  void instant(const Instant&) override {}
  void counter(const Row&, Nanoseconds, double) override {}
  void arrow(uint64_t id, absl::Span<const ArrowPoint> points) override { arrows.emplace_back(id, points.size()); }
  void finish() override { finished = true; }
  std::vector<const Slice*> on(const std::string& row) const {
    std::vector<const Slice*> out;
    for (size_t i = 0; i < slices.size(); ++i)
      if (rows_of_slices[i].rfind(row, 0) == 0) out.push_back(&slices[i]);
    return out;
  }
};

Batch rounds_batch(int32_t rank, std::vector<Round> rounds) {
  Batch b = batch_of(rank, 10'000);
  Rounds m;
  m.comm = world;
  m.rank = Rank{rank};
  m.rounds = std::move(rounds);
  b.payloads.push_back(std::move(m));
  return b;
}

struct Shown {
  Shown(int ranks, const std::vector<Batch>& batches, Range range = {}) : directory(directory_of(settings, ranks)), clocks(directory, indices(ranks), settings) {
    for (const Batch& b : batches) clocks.add(b, static_cast<Nanoseconds>(b.sent_monotonic_ns));
    clocks.finish(20'000);
    Rows rows(directory, clocks, indices(ranks), range, 0, kept);
    for (const Batch& b : batches) rows.add(b);
    rows.finish();
    counts = rows.counts();
  }
  static std::vector<int> indices(int ranks) {
    std::vector<int> out;
    for (int i = 0; i < ranks; ++i) out.push_back(i);
    return out;
  }
  Settings settings;
  Directory directory;
  GpuClocks clocks;
  Kept kept;
  RowCounts counts;
};

}  // namespace

TEST_CASE("A round is a call, a wait, a kernel, and an arrow to the same round elsewhere") {
  const Shown s(2, {rounds_batch(0, {round_of(1, 1'000, 2'000, 900, 950), round_of(2, 5'000, 6'000, 2'500, 3'000)}),
                    rounds_batch(1, {round_of(1, 1'500, 2'000, 1'400, 1'450)})});
  CHECK(s.kept.finished);
  CHECK(s.kept.on("kernels").size() == 3);
  CHECK(s.kept.on("host calls").size() == 3);
  REQUIRE(s.kept.on("launched, not begun").size() == 1);  // the others began as soon as their GPU ever does
  const Slice& wait = *s.kept.on("launched, not begun").front();
  CHECK(wait.end_ns - wait.begin_ns == 1'950);  // 2,000 less the 50 that a launch takes at least
  const auto gaps = s.kept.on("computing");
  REQUIRE(gaps.size() == 3);  // one between two operations, and two after the last one
  CHECK(gaps[0]->end_ns - gaps[0]->begin_ns == 3'000);
  CHECK(gaps[1]->name == "after its last operation");
  // One from the first round of one rank to that of the other, and one from each call to its kernel.
  CHECK(s.kept.arrows.size() == 4);
  CHECK(s.kept.groups.size() == 3);
}

TEST_CASE("Calls of one group launch one after the other: their slices do not overlap but by nesting") {
  const Shown s(1, {rounds_batch(0, {round_of(1, 1'000, 2'000, 100, 950), round_of(2, 2'000, 3'000, 200, 980), round_of(3, 3'000, 3'100, 300, 970)})});
  const auto calls = s.kept.on("host calls");
  REQUIRE(calls.size() == 3);
  CHECK(calls[1]->begin_ns == calls[0]->end_ns);
  CHECK(calls[2]->end_ns <= calls[1]->end_ns);
  CHECK(std::get<int64_t>(calls[1]->args.back().value) >= 0);
}

TEST_CASE("A round without times is counted and shown as a call") {
  Round lapped = round_of(2, 0, 0, 3'000, 3'100);
  lapped.flags = round_lapped;
  const Shown s(1, {rounds_batch(0, {round_of(1, 1'000, 2'000, 900, 950), lapped})});
  CHECK(s.counts.untimed == 1);
  CHECK(s.kept.on("kernels").size() == 1);
  CHECK(s.kept.on("host calls").back()->name == "AllReduce (no times)");
}

TEST_CASE("What does not touch the range is left out, what touches it is shown whole") {
  const Shown s(1, {rounds_batch(0, {round_of(1, 1'000, 2'000), round_of(2, 3'000, 5'000), round_of(3, 7'000, 8'000)})}, {});
  const Nanoseconds begin_ns = s.kept.on("kernels")[1]->begin_ns;
  const Shown part(1, {rounds_batch(0, {round_of(1, 1'000, 2'000), round_of(2, 3'000, 5'000), round_of(3, 7'000, 8'000)})}, {begin_ns + 100, begin_ns + 200});
  REQUIRE(part.kept.on("kernels").size() == 1);
  CHECK(part.kept.on("kernels").front()->begin_ns == begin_ns);
  CHECK(part.kept.on("kernels").front()->end_ns == begin_ns + 2'000);
}

TEST_CASE("Operations of ranks that are not shown, and of communicators that were never described, are counted") {
  Batch unknown = rounds_batch(0, {round_of(1, 1'000, 2'000)});
  std::get<Rounds>(unknown.payloads.front()).comm = CommUid{1};
  const Shown s(1, {rounds_batch(0, {round_of(1, 1'000, 2'000)}), unknown});
  CHECK(s.counts.undescribed == 1);
  CHECK(s.counts.of_other_ranks == 0);
}

TEST_CASE("An operation that has not ended goes up to the last snapshot, unless it was reported later") {
  InFlight f;
  f.comm = world;
  f.rank = Rank{0};
  f.sample_monotonic_ns = 50 * ns_per_ms;
  for (const uint64_t op : {uint64_t{2}, uint64_t{3}}) {
    InFlightOp o;
    o.op = OpSeq{op};
    o.signature.function = abi::Function::all_reduce;
    o.launched = o.begun = op == 2;
    o.enter_age_ms = 30, o.launch_age_ms = 20;
    f.operations.push_back(o);
  }
  Batch snapshot = batch_of(0, f.sample_monotonic_ns);
  snapshot.payloads.push_back(f);
  const Batch first = rounds_batch(0, {round_of(1, 1'000, 2'000, 900, 950)});
  const Shown hung(1, {first, snapshot});
  CHECK(hung.counts.unended == 2);
  const Slice& kernel = *hung.kept.on("kernels").back();
  CHECK(kernel.name == "AllReduce (not ended)");
  CHECK(kernel.end_ns - kernel.begin_ns == 20 * ns_per_ms);
  const Shown ended(1, {first, snapshot, rounds_batch(0, {round_of(2, 30'000'000, 60'000'000), round_of(3, 60'000'000, 61'000'000)})});
  CHECK(ended.counts.unended == 0);
}

TEST_CASE("An empty trace is valid in both formats") {
  std::string json, perfetto;
  JsonWriter([&](absl::string_view bytes) { json.append(bytes.data(), bytes.size()); }).finish();
  CHECK(json == "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[]}\n");
  PerfettoWriter([&](absl::string_view bytes) { perfetto.append(bytes.data(), bytes.size()); }).finish();
  CHECK(perfetto.empty());
}

}  // namespace ccld::test
