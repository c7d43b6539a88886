// Rows of calls for tests of how they are packed.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "schemas/wire/packed_calls.h"

namespace ccld::wire {

inline bool equal(const CallRow& a, const CallRow& b) {
  return a.number == b.number && a.kind == b.kind && a.replay == b.replay && a.plan == b.plan &&
         a.enter_monotonic_ns == b.enter_monotonic_ns && a.launch_monotonic_ns == b.launch_monotonic_ns &&
         a.begin_device_ns == b.begin_device_ns && a.end_device_ns == b.end_device_ns && a.send_steps == b.send_steps &&
         a.recv_steps == b.recv_steps && a.send_changes == b.send_changes && a.recv_changes == b.recv_changes &&
         a.samples == b.samples && a.flags == b.flags && a.signals == b.signals;
}

// A training loop: five kinds in turn, with a jitter of 10 us.
inline std::vector<CallRow> loop(size_t rows, uint64_t clock_ns) {
  std::mt19937_64 random(7);
  std::vector<CallRow> out;
  uint64_t host = 777'000'000'000'000, gpu = 1'690'000'000'000'000'000;
  for (size_t i = 0; i < rows; ++i) {
    const auto jitter = [&] { return random() % 20'000; };
    CallRow r;
    r.number = 100'000 + i;
    r.kind = static_cast<uint32_t>(i % 5);
    host += 1'000'000 * (r.kind + 1) + jitter();
    r.enter_monotonic_ns = host;
    r.launch_monotonic_ns = host + 30'000 + jitter();
    r.begin_device_ns = gpu + 400'000 * r.kind + jitter();
    r.end_device_ns = r.begin_device_ns + 500'000 + jitter();
    r.begin_device_ns -= r.begin_device_ns % clock_ns, r.end_device_ns -= r.end_device_ns % clock_ns;
    gpu = r.end_device_ns;
    r.send_steps = r.recv_steps = 56 * (r.kind + 1);
    r.send_changes = 1 + static_cast<uint32_t>(random() % 2);
    r.recv_changes = r.send_changes;
    r.samples = 2;
    r.flags = 1, r.signals = 7;
    out.push_back(r);
  }
  return out;
}

// Values of any size, half of them 0 or far from those before; of `kinds` kinds.
inline std::vector<CallRow> any_rows(std::mt19937_64& random, size_t kinds, size_t count) {
  std::vector<CallRow> rows;
  const auto any = [&](int bits) {
    return random() % 3 == 0 ? 0 : random() >> (random() % 2 ? 64 - bits : 64 - bits / 2);
  };
  for (size_t i = 0; i < count; ++i) {
    CallRow r;
    r.number = any(62);
    r.kind = static_cast<uint32_t>(random() % kinds);
    r.replay = static_cast<uint32_t>(any(32)), r.plan = static_cast<uint32_t>(any(2));
    r.enter_monotonic_ns = any(64), r.launch_monotonic_ns = any(64);
    r.begin_device_ns = any(64), r.end_device_ns = any(64);
    r.send_steps = static_cast<uint32_t>(any(32)), r.recv_steps = static_cast<uint32_t>(any(32));
    r.send_changes = static_cast<uint32_t>(any(32)), r.recv_changes = static_cast<uint32_t>(any(32));
    r.samples = static_cast<uint32_t>(any(32));
    r.flags = static_cast<uint8_t>(any(8)), r.signals = static_cast<uint8_t>(any(8));
    rows.push_back(r);
  }
  return rows;
}

}  // namespace ccld::wire
