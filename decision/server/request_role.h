// Who may ask what, where tokens are used. Pure but for the answer of admit(). Threads: any.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "decision/admission/token_list.h"
#include "httplib.h"

namespace ccld::decision::server {

// What a request needs; nothing: anybody may send it. These are the health, which tells nothing of a job, and the files
// of the page, which are the same everywhere: it asks for a token itself.
std::optional<admission::Role> role_needed(absl::string_view method, absl::string_view path);

// False: refused, and the answer is made: 401 without a known token, 403 with one that lacks the role. Who is let in to
// change something is in the log, by the digits and the comment of the token's line.
bool admit(const admission::TokenList&, const httplib::Request&, httplib::Response&);

}  // namespace ccld::decision::server
