// Finished calls of several communicators on their way into one message of a batch.
//
// Contract: kinds are structs of whole 32-bit words. Never fails. Threads: one object, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "probe/transport/messages.h"
#include "schemas/wire/call_groups.h"

namespace ccld::probe {

class CallBundle {
 public:
  CallBundle(size_t words_per_kind, wire::Numbering numbering) : words_(words_per_kind), numbering_(numbering) {}

  void add(const RoundsMessage&);
  void add(const P2pRoundsMessage&);
  bool empty() const { return calls_.groups.empty(); }
  // Roughly, when packed.
  size_t bytes() const;

  struct Packed {
    std::vector<uint8_t> calls, links;
  };
  // Starts anew.
  Packed take();

 private:
  void begin_group(uint64_t comm_uid, int rank);
  uint32_t kind_of(const void* kind);
  void add_links(const LinkColumns&);

  const size_t words_;
  const wire::Numbering numbering_;
  wire::CallGroups calls_;
  size_t first_kind_ = 0;  // of the group, in words
  std::unordered_map<std::string, size_t> kinds_;  // of the group, by their bytes: where they begin
  std::vector<uint8_t> links_;
};

}  // namespace ccld::probe
