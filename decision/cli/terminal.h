// How wide the output may be. Threads: any.
#pragma once

#include <cstddef>

namespace ccld::decision {

constexpr size_t terminal_columns_default = 80;

// COLUMNS, then what the terminal on standard output says, then 80: also into a pipe, whose reader nobody knows.
size_t output_columns();

}  // namespace ccld::decision
