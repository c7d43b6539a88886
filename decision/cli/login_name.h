// Who calls, for what is signed with a name. Threads: one.
#pragma once

#include <string>

namespace ccld::decision {

// The login name of the process's user, or his number where he has none.
std::string login_name();

}  // namespace ccld::decision
