// Packed columns, calls and stages come out as they went in; other bytes are refused.
#include <streamvbyte.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "schemas/wire/number_columns.h"
#include "schemas/wire/packed_calls.h"
#include "schemas/wire/packed_links.h"
#include "schemas/wire/packed_structs.h"
#include "test/unit/schemas/call_rows.h"

namespace ccld::wire {
namespace {

bool equal(const LinkRow& a, const LinkRow& b) {
  return a.op_seq == b.op_seq && a.gpu_mean_realtime_ns == b.gpu_mean_realtime_ns &&
         a.ready_mean_realtime_ns == b.ready_mean_realtime_ns && a.wire_mean_realtime_ns == b.wire_mean_realtime_ns &&
         a.done_mean_realtime_ns == b.done_mean_realtime_ns && a.peer == b.peer && a.net_device == b.net_device &&
         a.steps == b.steps && a.first_step == b.first_step && a.proxy_away_us == b.proxy_away_us &&
         a.channel == b.channel && a.direction == b.direction && a.group == b.group;
}
template <class Row>
bool equal(const std::vector<Row>& a, const std::vector<Row>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Row& x, const Row& y) { return equal(x, y); });
}

std::vector<CallRow> through(const std::vector<CallRow>& rows, size_t kinds, Numbering numbering,
                             size_t* size = nullptr) {
  const std::vector<uint8_t> bytes = pack(rows, kinds, numbering);
  if (size) *size = bytes.size();
  std::vector<CallRow> out(rows.size());
  REQUIRE(unpack(bytes.data(), bytes.size(), kinds, numbering, out));
  return out;
}

}  // namespace

TEST_CASE("columns of numbers come out again, whatever their size") {
  std::mt19937_64 random(1);
  for (int bits : {0, 1, 7, 8, 9, 16, 17, 24, 25, 31, 32, 33, 48, 63, 64})
    for (size_t length : {0, 1, 2, 3, 4, 5, 8, 31, 32, 33, 1000}) {
      std::vector<uint64_t> numbers, few, zeros(length);
      for (size_t i = 0; i < length; ++i) {
        numbers.push_back(bits == 0 ? 0 : random() >> (64 - bits));
        few.push_back(i % 7 == 3 ? numbers.back() : 0);
      }
      std::vector<uint64_t> coarse = numbers;
      for (uint64_t& n : coarse) n &= ~uint64_t{1023};
      ColumnWriter writer;
      for (const auto* column : {&numbers, &zeros, &few, &coarse}) writer.add(*column);
      const std::vector<uint8_t> bytes = writer.finish();
      ColumnReader reader(bytes.data(), bytes.size());
      CAPTURE(bits, length);
      for (const auto* column : {&numbers, &zeros, &few, &coarse}) {
        std::vector<uint64_t> out(length);
        (void)reader.next(length, out.data());
        REQUIRE(reader.good());
        CHECK(out == *column);
      }
      CHECK(reader.ended());
    }
}

TEST_CASE("numbers are in the format of streamvbyte") {
  std::mt19937_64 random(2);
  for (int bits : {3, 8, 11, 16, 20, 24, 29, 32})
    for (size_t length : {1, 4, 7, 100}) {
      std::vector<uint32_t> odd;  // so that nothing is shifted out
      for (size_t i = 0; i < length; ++i)
        odd.push_back(random() % 3 == 0 ? 0 : static_cast<uint32_t>(random() >> (64 - bits)) | 1);
      odd[0] |= 1;
      ColumnWriter writer;
      writer.add({odd.begin(), odd.end()});
      const std::vector<uint8_t> bytes = writer.finish();
      std::vector<uint8_t> expected[2];
      for (int i : {0, 1}) {
        expected[i].resize(streamvbyte_max_compressedbytes(static_cast<uint32_t>(length)));
        const auto encode = i == 0 ? streamvbyte_encode : streamvbyte_encode_0124;
        expected[i].resize(encode(odd.data(), static_cast<uint32_t>(length), expected[i].data()));
      }
      const std::vector<uint8_t> numbers(bytes.begin() + few_columns / 8 + 1, bytes.end());
      CAPTURE(bits, length);
      CHECK(numbers == expected[expected[1].size() < expected[0].size()]);
    }
}

TEST_CASE("calls come out again, and those of a loop in few bytes") {
  size_t size = 0;
  const auto rows = loop(60, 1);
  CHECK(equal(through(rows, 5, Numbering::of_all, &size), rows));
  CHECK(size / 60.0 < 13);
  // A clock of a microsecond has ten bits less.
  const auto coarse = loop(60, 1024);
  CHECK(equal(through(coarse, 5, Numbering::of_all, &size), coarse));
  CHECK(size / 60.0 < 12);
  CHECK(through({}, 0, Numbering::of_all).empty());
}

TEST_CASE("calls of any values come out again") {
  std::mt19937_64 random(3);
  for (int run = 0; run < 300; ++run) {
    const size_t kinds = 1 + random() % 6;
    const auto rows = any_rows(random, kinds, random() % 40);
    for (Numbering numbering : {Numbering::of_all, Numbering::of_kind})
      CHECK(equal(through(rows, kinds, numbering), rows));
  }
}

TEST_CASE("stages of links come out again, in few bytes") {
  std::mt19937_64 random(5);
  std::vector<LinkRow> rows;
  int64_t at = 1'795'000'000'000'000'000;
  for (uint64_t op = 50; op < 60; ++op, at += 100'000'000)
    for (uint16_t channel = 0; channel < 4; ++channel)
      for (uint8_t direction : {0, 1}) {
        LinkRow r;
        r.op_seq = op, r.channel = channel, r.direction = direction;
        r.peer = 3 + direction, r.net_device = channel % 2, r.steps = 128;
        r.gpu_mean_realtime_ns = at + static_cast<int64_t>(random() % 1'000'000);
        r.ready_mean_realtime_ns = direction == 1 ? r.gpu_mean_realtime_ns : at - 500'000;
        r.wire_mean_realtime_ns = r.gpu_mean_realtime_ns + static_cast<int64_t>(random() % 100'000);
        r.done_mean_realtime_ns = r.wire_mean_realtime_ns + static_cast<int64_t>(random() % 100'000);
        rows.push_back(r);
        if (op % 3 == 0) {  // within the node
          r.net_device = -1, r.peer = 1, r.group = 1;
          r.ready_mean_realtime_ns = r.wire_mean_realtime_ns = r.done_mean_realtime_ns = 0;
          rows.push_back(r);
        }
      }
  const std::vector<uint8_t> bytes = pack(rows);
  std::vector<LinkRow> out(rows.size());
  REQUIRE(unpack(bytes.data(), bytes.size(), out));
  CHECK(equal(out, rows));
  CHECK(bytes.size() / static_cast<double>(rows.size()) < 20);
  std::vector<LinkRow> none;
  CHECK(unpack(pack(none).data(), pack(none).size(), none));
}

TEST_CASE("structs come out again, and many that are alike in few bytes") {
  std::mt19937 random(11);
  struct State {
    uint32_t token, step, peer, age_ms;
    uint16_t channel;
    uint8_t direction, group;
  };
  for (size_t rows : {0, 1, 2, 3, 4, 5, 64}) {
    std::vector<State> states;
    for (uint32_t i = 0; i < rows; ++i)
      states.push_back({77, 0xffffffffu - 3 + i % 8, 3 + i % 2, static_cast<uint32_t>(random() % 3),
                        static_cast<uint16_t>(i / 2), static_cast<uint8_t>(i % 2), 1});
    const std::vector<uint8_t> bytes = pack(states);
    std::vector<State> out(rows);
    CAPTURE(rows);
    REQUIRE(unpack(bytes.data(), bytes.size(), out));
    CHECK((rows == 0 || std::memcmp(out.data(), states.data(), rows * sizeof(State)) == 0));
    if (rows == 64) CHECK(bytes.size() / 64.0 < 6);
    for (size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(unpack(bytes.data(), size, out));
  }
  for (int run = 0; run < 1000; ++run) {
    std::vector<State> any(random() % 20), out(any.size());
    for (State& s : any)
      s = {static_cast<uint32_t>(random()), 0, static_cast<uint32_t>(random()), 0, 0, 0,
           static_cast<uint8_t>(random())};
    std::vector<uint8_t> bytes = pack(any);
    REQUIRE(unpack(bytes.data(), bytes.size(), out));
    CHECK((any.empty() || std::memcmp(out.data(), any.data(), any.size() * sizeof(State)) == 0));
    bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    (void)unpack(bytes.data(), bytes.size(), out);
  }
}

TEST_CASE("bytes that are no such rows are refused, or are some rows") {
  const std::vector<uint8_t> good = pack(loop(30, 1), 5, Numbering::of_all);
  std::vector<CallRow> rows;
  const auto takes = [&](const std::vector<uint8_t>& bytes, size_t length, size_t kinds) {
    rows.assign(length, {});
    return unpack(bytes.data(), bytes.size(), kinds, Numbering::of_all, rows);
  };
  CHECK(takes(good, 30, 5));
  CHECK_FALSE(takes(good, 29, 5));
  CHECK_FALSE(takes(good, 31, 5));
  CHECK_FALSE(takes(good, 30, 4));
  for (size_t size = 0; size < good.size(); ++size)
    CHECK_FALSE(takes({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, 30, 5));
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  CHECK_FALSE(takes(longer, 30, 5));
  std::mt19937_64 random(9);
  for (int run = 0; run < 20'000; ++run) {
    std::vector<uint8_t> changed = good;
    for (uint64_t n = 1 + random() % 4; n-- > 0;) changed[random() % changed.size()] = static_cast<uint8_t>(random());
    if (!takes(changed, 30, 5)) continue;
    // Whatever it is comes out again.
    for (const CallRow& r : rows) REQUIRE(r.kind < 5);
    CHECK(equal(through(rows, 5, Numbering::of_all), rows));
  }
}

}  // namespace ccld::wire
