// Who may send telemetry: the public keys of probes, and of which job and host each may speak.
//
//   KEY                                  # any job, any host
//   KEY job=llm job="other job" host=n7  # these jobs, this host
//
// A host is what telemetry calls it (`ccld status --ranks`).
// Pure. Errors: InvalidArgument with file and line. Threads: any; a list does not change.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::admission {

struct KeyEntry {
  std::string key;
  std::vector<std::string> jobs, hosts;  // empty: any
  std::string comment;
  bool bound() const { return !jobs.empty() || !hosts.empty(); }
};

bool may_speak_for_job(const KeyEntry&, absl::string_view job);
bool may_speak_for_host(const KeyEntry&, absl::string_view host);

class KeyList {
 public:
  // `path`: for errors.
  static absl::StatusOr<KeyList> parse(absl::string_view text, const std::string& path);

  const KeyEntry* find(absl::string_view key) const;  // nullptr: it is not in the list
  const std::vector<KeyEntry>& entries() const { return entries_; }

 private:
  std::vector<KeyEntry> entries_;
  absl::flat_hash_map<std::string, size_t> index_;
};

// The file's text with a key more or less; what is not about it stays as it is.
// Errors: InvalidArgument (the text is no list, the entry cannot be written), AlreadyExists, NotFound.
absl::StatusOr<std::string> with_key(absl::string_view text, const std::string& path, const KeyEntry&);
absl::StatusOr<std::string> without_key(absl::string_view text, const std::string& path, const std::string& key);

}  // namespace ccld::decision::admission
