#include "decision/admission/rotation.h"

#include <unistd.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "decision/admission/files.h"
#include "decision/admission/key_list.h"
#include "decision/admission/key_pair.h"
#include "schemas/keys/curve_key.h"

namespace ccld::decision::admission {
namespace {

using Tell = std::function<absl::Status(const Rotated&)>;

absl::StatusOr<Rotated> rotate(const std::string& secret_file, const Tell& tell) {
  const auto old_secret = read_secret_key(secret_file);
  if (!old_secret.ok()) return old_secret.status();
  const auto before = public_key_of(*old_secret);
  if (!before.ok()) return before.status();
  const auto pair = make_key_pair();
  if (!pair.ok()) return pair.status();
  const std::string text = secret_file_text(*pair), beside = absl::StrCat(secret_file, ".new");
  if (absl::Status s = create_secret_file(beside, text); !s.ok()) return s;
  const Rotated out{*before, pair->open};
  if (absl::Status s = tell(out); !s.ok()) {
    unlink(beside.c_str());  // nobody knows it
    return s;
  }
  if (absl::Status s = replace_file(secret_file, text, 0600); !s.ok())
    return absl::Status(s.code(), absl::StrCat(s.message(), "; the new key is in '", beside, "'"));
  unlink(beside.c_str());
  return out;
}

}  // namespace

absl::StatusOr<Rotated> rotate_probe_key(const std::string& secret_file, const std::string& list) {
  return rotate(secret_file, [&list](const Rotated& keys) -> absl::Status {
    const auto text = read_file(list);
    if (!text.ok()) return text.status();
    const auto known = KeyList::parse(*text, list);
    if (!known.ok()) return known.status();
    const KeyEntry* const before = known->find(keys.before);
    if (before == nullptr) return absl::NotFoundError(absl::StrCat("the key is not in '", list, "'"));
    KeyEntry entry = *before;
    entry.key = keys.now;
    const auto with = with_key(*text, list, entry);
    return with.ok() ? replace_file(list, *with) : with.status();
  });
}

absl::StatusOr<Rotated> rotate_service_key(const std::string& secret_file, const std::string& public_file) {
  return rotate(secret_file, [&](const Rotated& keys) -> absl::Status {
    const auto text = read_file(public_file, keys::key_file_bytes_max);
    if (!text.ok()) return text.status();
    if (keys::key_in(*text).key != keys.before)
      return absl::InvalidArgumentError(
          absl::StrCat("'", public_file, "' does not hold the public key of '", secret_file, "'"));
    return replace_file(public_file, absl::StrCat("public ", keys.now, "\n"));
  });
}

}  // namespace ccld::decision::admission
