#include "decision/ingest/speaker.h"

#include "absl/strings/str_cat.h"

namespace ccld::decision::ingest {
namespace {

// "key Yne@$w... (node7)", as an operator knows it.
std::string named(const admission::KeyEntry& entry) {
  return absl::StrCat("key ", entry.key, entry.comment.empty() ? "" : absl::StrCat(" (", entry.comment, ")"));
}

absl::Status refuse(RejectReason reason, const admission::KeyEntry& entry, absl::string_view what) {
  return rejection(reason, entry.key, absl::StrCat(named(entry), " may not speak for ", name(reason), " '", what, "'"));
}

}  // namespace

absl::Status check_speaker(const Speaker& speaker, const Batch& batch) {
  const admission::KeyEntry* const entry = speaker.list->find(speaker.key);
  if (entry == nullptr)
    return rejection(RejectReason::key, speaker.key, absl::StrCat("key ", speaker.key, " is not in the list any more"));
  if (!entry->bound()) return absl::OkStatus();
  if (!admission::may_speak_for_job(*entry, batch.job)) return refuse(RejectReason::job, *entry, batch.job);
  if (!admission::may_speak_for_host(*entry, batch.process.host))
    return refuse(RejectReason::host, *entry, batch.process.host);
  for (const Payload& payload : batch.payloads) {
    const auto* up = std::get_if<CommUp>(&payload);
    if (up != nullptr && !up->host.empty() && !admission::may_speak_for_host(*entry, up->host))
      return refuse(RejectReason::host, *entry, up->host);
  }
  return absl::OkStatus();
}

}  // namespace ccld::decision::ingest
