// Calls of several communicators come out as they went in, and those of a training loop in few bytes; other bytes are
// refused, or are some calls.
#include "schemas/wire/call_groups.h"

#include <catch2/catch.hpp>

#include "test/unit/schemas/call_rows.h"

namespace ccld::wire {
namespace {

constexpr size_t words = 6;
constexpr uint64_t sizes_max = 65536;

bool equal(const CallGroups& a, const CallGroups& b) {
  const auto same_group = [](const CallGroup& x, const CallGroup& y) {
    return x.comm_uid == y.comm_uid && x.rank == y.rank && x.rows == y.rows && x.kinds == y.kinds &&
           x.link_rows == y.link_rows && x.link_bytes == y.link_bytes;
  };
  return a.kind_words == b.kind_words &&
         std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(), b.groups.end(), same_group) &&
         std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(),
                    [](const CallRow& x, const CallRow& y) { return equal(x, y); });
}

CallGroups through(const CallGroups& g, Numbering numbering, size_t* size = nullptr) {
  const std::vector<uint8_t> bytes = pack(g, words, numbering);
  if (size) *size = bytes.size();
  CallGroups out;
  REQUIRE(unpack(bytes.data(), bytes.size(), words, numbering, sizes_max, out) == Unpacked::good);
  return out;
}

void add(CallGroups& g, uint64_t comm_uid, uint32_t kinds, const std::vector<CallRow>& rows) {
  g.groups.push_back(
      {comm_uid, static_cast<int32_t>(comm_uid % 7) - 1, static_cast<uint32_t>(rows.size()), kinds, 0, 0});
  for (uint32_t kind = 0; kind < kinds; ++kind)
    g.kind_words.insert(g.kind_words.end(), {1024u << kind, 0, 0xffffffffu, 0x100 + kind, 0x20001, 0});
  g.rows.insert(g.rows.end(), rows.begin(), rows.end());
}

// What a rank of three communicators does in a tenth of a second.
CallGroups three(uint64_t clock_ns) {
  CallGroups g;
  add(g, 0xfedcba9876543210, 5, loop(50, clock_ns));
  add(g, 0x1234567890abcdef, 5, loop(5, clock_ns));
  add(g, 0x1234567890abcdee, 5, loop(1, clock_ns));
  return g;
}

}  // namespace

TEST_CASE("calls of several communicators come out again, and those of a loop in few bytes") {
  size_t size = 0;
  CallGroups g = three(1);
  g.groups[1].link_rows = 3, g.groups[1].link_bytes = 70'000;
  CHECK(equal(through(g, Numbering::of_all, &size), g));
  // Every time of this loop varies by 10 us by itself.
  CHECK(size / 56.0 < 15);
  CHECK(equal(through({}, Numbering::of_all, &size), {}));
  CHECK(size < 10);
}

TEST_CASE("what follows from something else takes nothing") {
  // Kernels begin a while after their launch, and end in turn however long they take.
  CallGroups g;
  std::vector<CallRow> rows = loop(200, 1);
  for (size_t i = 0; i < rows.size(); ++i) {
    CallRow& r = rows[i];
    r.launch_monotonic_ns = r.enter_monotonic_ns + 20'000;
    r.begin_device_ns = r.launch_monotonic_ns + 1'000'000'000;
    r.end_device_ns = 778'000'000'000'000 + i * 3'000'000;
    r.send_changes = r.recv_changes = 1;
  }
  add(g, 1, 5, rows);
  size_t size = 0;
  CHECK(equal(through(g, Numbering::of_all, &size), g));
  CHECK(size < 200 * 4);
}

TEST_CASE("calls of any values and communicators come out again") {
  std::mt19937_64 random(3);
  for (int run = 0; run < 400; ++run) {
    CallGroups g;
    for (size_t groups = random() % 4; groups-- > 0;) {
      const size_t kinds = 1 + random() % 6;
      add(g, random(), static_cast<uint32_t>(kinds), any_rows(random, kinds, random() % 30));
    }
    for (Numbering numbering : {Numbering::of_all, Numbering::of_kind}) CHECK(equal(through(g, numbering), g));
  }
}

TEST_CASE("bytes that are no such groups are refused, or are some groups") {
  const std::vector<uint8_t> good = pack(three(1), words, Numbering::of_all);
  CallGroups out;
  const auto read = [&](const std::vector<uint8_t>& bytes, uint64_t most = sizes_max) {
    out = {};
    return unpack(bytes.data(), bytes.size(), words, Numbering::of_all, most, out);
  };
  REQUIRE(read(good) == Unpacked::good);
  for (size_t size = 0; size < good.size(); ++size)
    CHECK(read({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}) == Unpacked::damaged);
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  CHECK(read(longer) == Unpacked::damaged);
  std::mt19937_64 random(9);
  for (int run = 0; run < 20'000; ++run) {
    std::vector<uint8_t> changed = good;
    for (uint64_t n = 1 + random() % 4; n-- > 0;) changed[random() % changed.size()] = static_cast<uint8_t>(random());
    if (read(changed) != Unpacked::good) continue;
    // Whatever it is comes out again.
    size_t row = 0;
    for (const CallGroup& group : out.groups)
      for (const size_t end = row + group.rows; row < end; ++row) REQUIRE(out.rows[row].kind < group.kinds);
    REQUIRE(row == out.rows.size());
    CHECK(equal(through(out, Numbering::of_all), out));
  }
}

TEST_CASE("groups, kinds and rows that take no bytes are not more than was allowed") {
  CallGroups many;
  many.groups = {{1, 0, 1000, 1, 0, 0}};
  many.kind_words.resize(words);
  many.rows.resize(1000);
  for (size_t i = 0; i < many.rows.size(); ++i) many.rows[i].number = i + 1;
  const std::vector<uint8_t> bytes = pack(many, words, Numbering::of_all);
  CHECK(bytes.size() < 30);
  CallGroups out;
  CHECK(unpack(bytes.data(), bytes.size(), words, Numbering::of_all, 1002, out) == Unpacked::good);
  CHECK(unpack(bytes.data(), bytes.size(), words, Numbering::of_all, 1001, out) == Unpacked::too_many);
}

}  // namespace ccld::wire
