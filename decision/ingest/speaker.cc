#include "decision/ingest/speaker.h"

#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ccld::decision::ingest {
namespace {

// "key Yne@$w... (node7)", as an operator knows it.
std::string named(const admission::KeyEntry& entry) {
  return absl::StrCat("key ", entry.key, entry.comment.empty() ? "" : absl::StrCat(" (", entry.comment, ")"));
}

absl::Status refuse(RejectReason reason, const admission::KeyEntry& entry, absl::string_view what,
                    absl::string_view of = "") {
  return rejection(reason, of.empty() ? entry.key : absl::StrCat(entry.key, of),
                   absl::StrCat(named(entry), " may not speak for ", name(reason), " '", what, "'", of));
}

// Of the communicator that the payload is about, if it is about one.
std::optional<CommUid> comm_of(const Payload& payload) {
  return std::visit(
      [](const auto& m) -> std::optional<CommUid> {
        if constexpr (requires { m.comm; })
          return m.comm;
        else
          return std::nullopt;
      },
      payload);
}

// Who never said of which job or host it is may be of any.
bool allows_job(const admission::KeyEntry& entry, const std::optional<Owner>& owner) {
  return !owner.has_value() || owner->job.empty() || admission::may_speak_for_job(entry, owner->job);
}

bool allows_host(const admission::KeyEntry& entry, const std::optional<Owner>& owner) {
  return !owner.has_value() || owner->host.empty() || admission::may_speak_for_host(entry, owner->host);
}

absl::Status check_owners(const admission::KeyEntry& entry, const Batch& batch, Owners& owners) {
  const std::optional<Owner> known = owners.of(batch.process);
  constexpr absl::string_view of_process = ", of which the process is known to be";
  if (!allows_job(entry, known)) return refuse(RejectReason::job, entry, known->job, of_process);
  if (!allows_host(entry, known)) return refuse(RejectReason::host, entry, known->host, of_process);
  if (entry.jobs.empty()) return absl::OkStatus();
  for (const Payload& payload : batch.payloads) {
    const std::optional<CommUid> comm = comm_of(payload);
    if (!comm.has_value()) continue;
    if (const std::optional<Owner> owner = owners.of(*comm); !allows_job(entry, owner))
      return refuse(RejectReason::job, entry, owner->job, ", of which the communicator is known to be");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_speaker(const Speaker& speaker, const Batch& batch, Owners* owners) {
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
  return owners != nullptr ? check_owners(*entry, batch, *owners) : absl::OkStatus();
}

void leave_out_siblings(const Speaker& speaker, Batch& batch, Owners& owners) {
  const admission::KeyEntry* const entry = speaker.list->find(speaker.key);
  if (entry == nullptr || !entry->bound()) return;
  for (Payload& payload : batch.payloads) {
    auto* const health = std::get_if<AgentHealth>(&payload);
    if (health == nullptr) continue;
    // One of which nobody has heard is whatever rank its frame says: of a communicator for which the key may speak.
    for (Sibling& s : health->siblings) {
      if (owners.of(batch.process, s).has_value()) continue;
      std::erase_if(s.last_operations,
                    [&](const LastOperations& last) { return !allows_job(*entry, owners.of(last.comm)); });
    }
    std::erase_if(health->siblings, [&](const Sibling& s) {
      const std::optional<Owner> owner = owners.of(batch.process, s);
      return owner.has_value() ? !allows_job(*entry, owner) || !allows_host(*entry, owner) : s.last_operations.empty();
    });
  }
}

}  // namespace ccld::decision::ingest
