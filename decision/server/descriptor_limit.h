// How many files and connections this process may have open. Errors: none. Threads: one, before connections come.
#pragma once

#include <cstddef>

namespace ccld::decision::server {

// Raises the limit of this process to so many, as far as it may. How many it then may have, at most `wished`.
size_t raise_descriptor_limit(size_t wished);

}  // namespace ccld::decision::server
