// JSON that comes from outside this process: files, answers of services, requests, what other nodes and ranks say.
//
// Contract
//   parse_bounded() is the parser of the JSON library behind check_json_bounds(): what it lets through can be copied,
//   printed and destroyed. The library does these by recursion, so that a hundred thousand brackets end in a full
//   stack, and its indentation of what is nested deep takes the square of the depth.
//   What a text may be long is for its reader to say: each knows what it expects.
// Errors: InvalidArgument, a few words that say what is wrong; no part of the text is in them.
// Threads: any; pure. Training processes use it (decision/validate): it needs little.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace ccld::decision::report {

// Our documents nest eight deep, and what adds to one that was read wraps it in three levels at most.
constexpr int json_depth_max = 64;
// Of one object. Ours have some 150 at most (the metrics of a process); ordered objects compare each new key with all
// before it.
constexpr int json_members_max = 512;

// Of a text that is no JSON it may find nothing wrong: it counts brackets and commas outside strings.
absl::Status check_json_bounds(absl::string_view text);

// `AnyJson`: nlohmann::json or ordered_json.
template <class AnyJson = nlohmann::ordered_json>
absl::StatusOr<AnyJson> parse_bounded(absl::string_view text) {
  if (absl::Status s = check_json_bounds(text); !s.ok()) return s;
  AnyJson json = AnyJson::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return absl::InvalidArgumentError("not JSON");
  return json;
}

}  // namespace ccld::decision::report
