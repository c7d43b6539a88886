// A pickle as plain data. It executes nothing: only the opcodes that dict, list, tuple, str, bytes, int, float, bool
// and None of protocols 2 to 4 need are known, and everything else ends in an error.
//
// Contract
//   Integers beyond 64 bits, containers that contain themselves, keys that are no text or integer, and what is larger
//   or deeper than limits.h allows are refused. Bytes after the end of the pickle too.
// Errors: DataLoss, with the offset of the byte and the opcode: "byte 12: opcode REDUCE (0x52) calls code ...".
// Threads: any.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "decision/import/value.h"

namespace ccld::decision::dumps {

absl::StatusOr<ValuePtr> unpickle(absl::string_view bytes);

}  // namespace ccld::decision::dumps
