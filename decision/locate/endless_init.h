// A communicator being initialized that does not come to an end: who is missing. (Beyond the paper: H1 before there is
// a communicator.)
//
// Contract: pure.
#pragma once

#include <optional>

#include "decision/locate/finding.h"
#include "decision/model/init_book.h"

namespace ccld::decision {

// nullopt: something has moved in it within init_hang_s, or it failed and says so itself. Otherwise who is missing.
std::optional<Finding> find_endless_init(const InitKey&, const Initialization&, const ProcessTable&, const Settings&,
                                         Nanoseconds now_ns);

}  // namespace ccld::decision
