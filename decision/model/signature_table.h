// Signatures by number: a communicator has a handful, and thousands of operations that have one of them.
//
// Contract: plain state, not thread-safe. Two numbers may stand for equal signatures: only the newest are compared
// with. The owner renumbers what it keeps when worth_tidying() says so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decision/model/events.h"

namespace ccld::decision {

class SignatureTable {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  uint32_t number_of(const Signature& s) {
    const size_t n = signatures_.size(), oldest = n > compared_max ? n - compared_max : 0;
    for (size_t i = n; i-- > oldest;)
      if (signatures_[i] == s) return static_cast<uint32_t>(i);
    signatures_.push_back(s);
    return static_cast<uint32_t>(n);
  }
  const Signature& operator[](uint32_t number) const { return signatures_[number]; }

  // `users`: how many numbers the owner keeps.
  bool worth_tidying(size_t users) const { return signatures_.size() > 2 * users + compared_max; }
  // Calls visit(renumber), which has to pass every number that is kept through renumber.
  template <class Visit>
  void tidy(Visit visit) {
    SignatureTable kept;
    visit([&](uint32_t& number) {
      if (number != none) number = kept.number_of(signatures_[number]);
    });
    *this = std::move(kept);
  }

 private:
  static constexpr size_t compared_max = 16;
  std::vector<Signature> signatures_;
};

}  // namespace ccld::decision
