// Seeded randomness: a stream of its own for each purpose, so that a new draw in one place changes nothing elsewhere.
// The same numbers on every machine: no distribution of the standard library is used.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ccld::sim {

class Stream {
 public:
  Stream(uint64_t seed, std::string_view purpose, uint64_t a = 0, uint64_t b = 0) {
    state_ = mix(seed + 0x9e3779b97f4a7c15u);
    for (char c : purpose) state_ = mix(state_ ^ static_cast<unsigned char>(c));
    state_ = mix(state_ ^ mix(a + 1)) ^ mix(b + 0x51ed270b);
  }

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  uint64_t below(uint64_t n) { return n == 0 ? 0 : next() % n; }
  int64_t range(int64_t low, int64_t high) { return low + static_cast<int64_t>(below(high - low + 1)); }  // inclusive
  double real(double low, double high) { return low + (high - low) * uniform(); }
  double log_real(double low, double high) { return low * std::exp(uniform() * std::log(high / low)); }
  bool chance(double p) { return uniform() < p; }
  template <class T>
  const T& pick(const std::vector<T>& v) {
    return v[below(v.size())];
  }

 private:
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  uint64_t state_;
};

}  // namespace ccld::sim
