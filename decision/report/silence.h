// Silences: planned maintenance or known trouble. An incident that one fits is found, kept and shown as ever; nobody is notified.
// In documents of open incidents it is `silenced`: null, or {"silence", "until", "by", "note"}.
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

// What is empty fits everything; one of the four is not empty.
struct Silence {
  uint64_t id = 0;
  std::string job;
  std::string host;       // of a culprit, or of the other end of its link
  std::string kind;       // "hang", "mismatch", "slow"
  std::string component;  // of a culprit: "gpu", "nic", ...
  int64_t from_ms = 0, until_ms = 0;  // since 1970
  std::string by, note;
};
using Silences = std::vector<Silence>;  // by id

// What of an incident decides.
struct SilenceFacts {
  std::string job, kind;
  std::vector<std::string> hosts, components;
};
SilenceFacts silence_facts(const Incident&);
SilenceFacts silence_facts(const Json& verdict);

// The first one that fits and has not ended; nullptr: none does.
const Silence* silence_of(const SilenceFacts&, const Silences&, int64_t now_ms);
// Sets `silenced` of a verdict; null where it is closed.
void set_silenced(Json& verdict, const Silences&, int64_t now_ms);

Json silence_json(const Silence&);
// "silence 3 of bob until 2026-01-31T14:00:00.000Z: new firmware"; empty: none.
std::string silenced_text(const Json& verdict);
// A table of a document with `silences`.
std::string silence_list_text(const Json& document);

}  // namespace ccld::decision::report
