#include "decision/admission/key_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/admission/lines.h"
#include "schemas/keys/curve_key.h"

namespace ccld::decision::admission {
namespace {

bool is_key(absl::string_view text) { return keys::is_key({text.data(), text.size()}); }

absl::StatusOr<KeyEntry> entry_of(ListLine line, const std::string& path) {
  KeyEntry entry{std::move(line.credential), {}, {}, std::move(line.comment)};
  for (auto& [name, value] : line.bindings) {
    if (name != "job" && name != "host")
      return line_error(path, line.number, absl::StrCat("'", name, "' is not known: job or host is expected"));
    (name == "job" ? entry.jobs : entry.hosts).push_back(std::move(value));
  }
  return entry;
}

bool allows(const std::vector<std::string>& names, absl::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool may_speak_for_job(const KeyEntry& entry, absl::string_view job) { return allows(entry.jobs, job); }

bool may_speak_for_host(const KeyEntry& entry, absl::string_view host) { return allows(entry.hosts, host); }

absl::StatusOr<KeyList> KeyList::parse(absl::string_view text, const std::string& path) {
  auto lines = parse_lines(text, path, is_key, "a public key, 40 characters of Z85");
  if (!lines.ok()) return lines.status();
  KeyList list;
  for (ListLine& line : *lines) {
    const int number = line.number;
    auto entry = entry_of(std::move(line), path);
    if (!entry.ok()) return entry.status();
    // Which of the two lines its owner meant, nobody can tell.
    if (!list.index_.try_emplace(entry->key, list.entries_.size()).second)
      return line_error(path, number, "this key was in a line before");
    list.entries_.push_back(*std::move(entry));
  }
  return list;
}

const KeyEntry* KeyList::find(absl::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

absl::StatusOr<std::string> with_key(absl::string_view text, const std::string& path, const KeyEntry& entry) {
  const auto list = KeyList::parse(text, path);
  if (!list.ok()) return list.status();
  if (!is_key(entry.key))
    return absl::InvalidArgumentError(absl::StrCat("'", entry.key, "' is not a public key, 40 characters of Z85"));
  if (list->find(entry.key) != nullptr)
    return absl::AlreadyExistsError(absl::StrCat("the key is in '", path, "' already"));
  ListLine line{0, entry.key, {}, entry.comment};
  for (const std::string& job : entry.jobs) line.bindings.emplace_back("job", job);
  for (const std::string& host : entry.hosts) line.bindings.emplace_back("host", host);
  for (const auto& [name, value] : line.bindings) {
    const std::string wrong = value.empty() ? "it is empty" : why_not_value(value);
    if (!wrong.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": ", wrong));
  }
  if (const std::string wrong = why_not_value(line.comment); !wrong.empty())
    return absl::InvalidArgumentError(absl::StrCat("note: ", wrong));
  return with_line(text, line);
}

absl::StatusOr<std::string> without_key(absl::string_view text, const std::string& path, const std::string& key) {
  const auto list = KeyList::parse(text, path);
  if (!list.ok()) return list.status();
  if (list->find(key) == nullptr) return absl::NotFoundError(absl::StrCat("the key is not in '", path, "'"));
  return without_lines(text, [&key](absl::string_view credential) { return credential == key; });
}

}  // namespace ccld::decision::admission
