#include "decision/cli/login_name.h"

#include <pwd.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace ccld::decision {

std::string login_name() {
  const passwd* const entry = getpwuid(getuid());
  return entry != nullptr ? entry->pw_name : absl::StrCat("user ", getuid());
}

}  // namespace ccld::decision
