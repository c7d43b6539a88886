#include "decision/report/find_communicator.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ccld::decision::report {

std::optional<CommUid> parse_comm(absl::string_view text) {
  constexpr size_t digits = 16;
  CommUid id;
  if (text.size() != digits || !absl::SimpleHexAtoi(text, &id.value)) return std::nullopt;
  return id;
}

std::optional<uint32_t> find_communicator(const Snapshot& s, absl::string_view text) {
  const auto id = parse_comm(text);
  if (!id) return std::nullopt;
  const std::vector<CommStatus>& comms = s.status.communicators;
  for (uint32_t at = 0; at < comms.size(); ++at)
    if (comms[at].comm == *id) return at;
  return std::nullopt;
}

absl::Status no_communicator(absl::string_view text) {
  constexpr size_t shown_max = 60;
  return absl::NotFoundError(absl::StrCat("there is no communicator '", text.substr(0, shown_max), "'"));
}

}  // namespace ccld::decision::report
