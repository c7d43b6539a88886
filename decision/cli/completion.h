// Completion of `ccld`'s command line for bash and zsh, as scripts that need nothing else: no bash-completion, no
// running `ccld`. Commands, options, and of values what is known beforehand: files, folders, names of settings, words
// of a list.
//
// Threads: any.
#pragma once

#include <string>

#include "decision/cli/option_table.h"

namespace ccld::decision {

std::string bash_completion(const OptionTable&);
std::string zsh_completion(const OptionTable&);

}  // namespace ccld::decision
