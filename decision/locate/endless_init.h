// A communicator being initialized that does not come to an end: who is missing. (Beyond the paper: H1 before there is
// a communicator.)
//
// Contract: pure.
#pragma once

#include <optional>

#include "decision/locate/finding.h"
#include "decision/model/init_book.h"

namespace ccld::decision {

// nullopt: something has moved in it within init_hang_s, or nobody waits in it because all who came have failed or are
// through. Otherwise who is missing. Whose initialization has failed cannot come back: if others wait for it, that is
// known after hang_suspect_s.
std::optional<Finding> find_endless_init(const InitKey&, const Initialization&, const ProcessTable&, const Settings&,
                                         Nanoseconds now_ns);

}  // namespace ccld::decision
