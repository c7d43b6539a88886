// Signatures of operations, compared. (Paper, section 4.1.2: the Operation Type Set.)
// Pure.
#pragma once

#include <string>

#include "decision/model/events.h"

namespace ccld::decision {

// Where two signatures differ: what the caller chose, or what NCCL chose.
enum class SignatureField { none, function, count, datatype, reduction, root, algorithm, protocol, channels };
const char* name(SignatureField);

// The first field that differs, in the order above. Algorithm, protocol and channels count only where both know them;
// functions whose ranks legitimately differ (point-to-point, AllGatherV) are compared by function only.
SignatureField difference(const Signature&, const Signature&);
std::string field_text(const Signature&, SignatureField);

// A rank can finish it only after every rank has begun: each gives data that all need.
bool needs_everybody(abi::Function);

// An AllReduce of so little that it only makes ranks wait for each other.
bool is_barrier(const Signature&, uint64_t bytes_max);

// `known`, with what only `other` knows of NCCL's choices.
Signature completed(Signature known, const Signature& other);

}  // namespace ccld::decision
