// A request that changes something: may it come from there, and its body. What keeps other web pages out is in request_checks.h.
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "httplib.h"

namespace ccld::decision::server {

constexpr size_t change_bytes_max = 4096;  // of a body

struct ChangeRules {
  bool remote = false;       // also from other hosts
  const char* doing = "";    // "tuning"
  const char* flag = "";     // of `ccld serve`, that allows it from other hosts
  std::vector<std::string> names;  // of this service, besides addresses and localhost
  bool tls = false;          // the service is reached by https
  // The request had a token with the right role: from wherever, under whatever name. A web page of somebody else, also
  // one whose name resolves to us, has none.
  bool token = false;
};

// The body; nothing: refused, and the answer is made.
std::optional<std::string> take_change(const ChangeRules&, const httplib::Request&, httplib::Response&, const httplib::ContentReader&);

}  // namespace ccld::decision::server
