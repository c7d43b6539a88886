// Calls of one collective, compared: what must be the same on all ranks, and what may differ.
// Pure. Threads: any.
#pragma once

#include <string>

#include "decision/import/job.h"
#include "decision/model/events.h"

namespace ccld::decision::dumps {

// What must be equal and is not: "type differs: all_gather against all_reduce"; empty: nothing. Sizes are compared as
// numbers of elements, since NCCL knows no dimensions; those of calls whose ranks may give different ones (all-to-all,
// gather, scatter, coalesced ones) are not compared.
std::string difference(const Shape& usual, const Shape& other);
// Of a send and its receive; empty: they agree, or the dump has no sizes.
std::string transfer_difference(const Shape& send, const Shape& receive);

int64_t elements(const std::vector<std::vector<int64_t>>& tensors);  // up to the highest int64
std::string shape_text(const Shape&);                                // "all_reduce of 1,024 Float"
bool is_all_to_all(const Shape&);
// A rank can finish it only after every rank has begun it.
bool needs_all(const Shape&);
Signature signature_of(const Shape&);

}  // namespace ccld::decision::dumps
