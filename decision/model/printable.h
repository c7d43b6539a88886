// Names come from the jobs that are watched, and from whoever reaches the port. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ccld::decision {

// Controls, marks that turn or hide text, and what is not UTF-8 become '?'.
std::string printable(absl::string_view text);

// Bytes of the UTF-8 character at `at`, 0 if there is none, and its code point.
size_t character_at(absl::string_view text, size_t at, uint32_t* code);

}  // namespace ccld::decision
