// The communicator that a question names by its 16 hexadecimal digits. Threads: any.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "decision/report/status_json.h"

namespace ccld::decision::report {

std::optional<CommUid> parse_comm(absl::string_view text);
// Its position in StatusView::communicators; nullopt: it is not there.
std::optional<uint32_t> find_communicator(const Snapshot&, absl::string_view text);
absl::Status no_communicator(absl::string_view text);

}  // namespace ccld::decision::report
