// Whose something is, as the first who told of it said. Plain data.
#pragma once

#include "absl/strings/string_view.h"

namespace ccld::decision {

struct Owner {
  absl::string_view job, host;  // empty: nobody has said
};

}  // namespace ccld::decision
