#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "decision/ingest/batch_decoder.h"

namespace ccld::decision::ingest {
namespace {

constexpr char reason_url[] = "ccld/reject_reason";
constexpr char key_url[] = "ccld/reject_key";

}  // namespace

const char* name(RejectReason reason) {
  switch (reason) {
    case RejectReason::size: return "size";
    case RejectReason::multipart: return "multipart";
    case RejectReason::identifier: return "identifier";
    case RejectReason::version: return "version";
    case RejectReason::structure: return "structure";
    case RejectReason::field: return "field";
    case RejectReason::key: return "key";
    case RejectReason::job: return "job";
    case RejectReason::host: return "host";
  }
  return "unknown";
}

absl::Status rejection(RejectReason reason, const std::string& key, const std::string& text) {
  absl::Status status = absl::InvalidArgumentError(text);
  status.SetPayload(reason_url, absl::Cord(absl::StrCat(static_cast<int>(reason))));
  status.SetPayload(key_url, absl::Cord(key));
  return status;
}

RejectReason reject_reason(const absl::Status& status) {
  const auto payload = status.GetPayload(reason_url);
  int number = static_cast<int>(RejectReason::structure);
  if (payload.has_value() && !absl::SimpleAtoi(std::string(*payload), &number)) return RejectReason::structure;
  return static_cast<RejectReason>(std::clamp(number, 0, reject_reason_count - 1));
}

std::string reject_key(const absl::Status& status) {
  const auto payload = status.GetPayload(key_url);
  return payload.has_value() ? std::string(*payload) : std::string(status.message());
}

}  // namespace ccld::decision::ingest
