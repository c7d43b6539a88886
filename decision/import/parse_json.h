// A JSON text as plain data, with the limits of limits.h.
// Errors: DataLoss, with the offset of the byte. Threads: any.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "decision/import/value.h"

namespace ccld::decision::dumps {

absl::StatusOr<ValuePtr> parse_json(absl::string_view text);

}  // namespace ccld::decision::dumps
