// Finished calls of several communicators, packed together. What is likely of a call is what the last one of its kind
// on its communicator was and did, and only the difference is written (number_columns.h). The first call of each kind,
// which has no such predecessor, is in columns of its own, so that those of all others are mostly zeros and take
// nothing.
//
// Times are predicted in one of two ways each, and the columns say which: a kernel begins some time after the one
// before it has ended (a GPU that is never idle), or after its launch (a host that is just in time); it ends when it
// has taken as long as usual, or as long after the one before as usual (ranks that begin at different times end
// together).
//
// Contract: pure; what is read of any bytes is within the limits that were given. Nothing is rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schemas/wire/packed_calls.h"

namespace ccld::wire {

// The calls of one communicator on one rank.
struct CallGroup {
  uint64_t comm_uid = 0;
  int32_t rank = 0;
  uint32_t rows = 0, kinds = 0;            // of CallGroups, one group's after the other's
  uint32_t link_rows = 0, link_bytes = 0;  // of what is packed beside them
};

struct CallGroups {
  std::vector<CallGroup> groups;
  std::vector<uint32_t> kind_words;  // each kind is a struct of so many words
  std::vector<CallRow> rows;         // the kind of a row counts within its group
};

// In each group, rows are of its kinds.
std::vector<uint8_t> pack(CallGroups, size_t words_per_kind, Numbering);

enum class Unpacked : uint8_t { good, damaged, too_many };
// Of more than `sizes_max` groups, kinds and rows together nothing is read: they may take no bytes.
Unpacked unpack(const uint8_t* bytes, size_t size, size_t words_per_kind, Numbering, uint64_t sizes_max, CallGroups&);

}  // namespace ccld::wire
