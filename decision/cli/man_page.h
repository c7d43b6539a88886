// Manual pages of `ccld`, section 1, in the macros of man(7): ccld(1) with what there is, and one page for each
// command.
//
// Contract: `source` names the program and its version ("ccld 0.1.0"). No date is in them: equal options give equal
// bytes. Threads: any.
#pragma once

#include <string>

#include "decision/cli/option_table.h"

namespace ccld::decision {

std::string man_page(const OptionTable&, const std::string& source);
std::string man_page(const OptionTable&, const CommandRow&, const std::string& source);

}  // namespace ccld::decision
