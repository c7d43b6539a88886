#include "decision/admission/token_list.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "decision/admission/lines.h"

namespace ccld::decision::admission {
namespace {

constexpr size_t token_bytes = 32;

bool is_hash(absl::string_view text) {
  return text.size() == 2 * sizeof(TokenHash) && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

TokenHash hash_in(absl::string_view hex) {
  const std::string bytes = absl::HexStringToBytes(hex);
  TokenHash hash{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), hash.size()), hash.begin());
  return hash;
}

absl::StatusOr<TokenEntry> entry_of(const ListLine& line, const std::string& path) {
  TokenEntry entry{hash_in(line.credential), {}, line.comment};
  for (const auto& [name, value] : line.bindings) {
    if (name != "roles")
      return line_error(path, line.number, absl::StrCat("'", name, "' is not known: roles is expected"));
    const auto roles = parse_roles(value);
    if (!roles.ok()) return line_error(path, line.number, roles.status().message());
    entry.roles = *roles;
  }
  if (entry.roles.none()) return line_error(path, line.number, "roles= is missing");
  return entry;
}

}  // namespace

const char* name(Role role) {
  switch (role) {
    case Role::read: return "read";
    case Role::acknowledge: return "acknowledge";
    case Role::tune: return "tune";
  }
  return "?";
}

absl::StatusOr<Roles> parse_roles(absl::string_view text) {
  Roles roles;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    const auto found =
        std::find_if(std::begin(all_roles), std::end(all_roles), [word](Role role) { return word == name(role); });
    if (found == std::end(all_roles))
      return absl::InvalidArgumentError(
          absl::StrCat("'", word, "' is not a role: read, acknowledge or tune is expected"));
    roles.add(*found);
  }
  return roles;
}

std::string text_of(Roles roles) {
  std::string out;
  for (const Role role : all_roles)
    if (roles.has(role)) absl::StrAppend(&out, out.empty() ? "" : ",", name(role));
  return out;
}

TokenHash hash_of(absl::string_view token) {
  TokenHash hash{};
  unsigned int size = 0;
  EVP_Digest(token.data(), token.size(), hash.data(), &size, EVP_sha256(), nullptr);
  return hash;
}

std::string hex_of(const TokenHash& hash) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

absl::StatusOr<TokenList> TokenList::parse(absl::string_view text, const std::string& path) {
  const auto lines = parse_lines(text, path, is_hash, "the SHA-256 of a token, 64 hexadecimal digits");
  if (!lines.ok()) return lines.status();
  TokenList list;
  for (const ListLine& line : *lines) {
    auto entry = entry_of(line, path);
    if (!entry.ok()) return entry.status();
    const auto same = [&entry](const TokenEntry& other) { return other.hash == entry->hash; };
    if (std::any_of(list.entries_.begin(), list.entries_.end(), same))
      return line_error(path, line.number, "this token was in a line before");
    list.entries_.push_back(*std::move(entry));
  }
  return list;
}

const TokenEntry* TokenList::find(absl::string_view token) const {
  const TokenHash hash = hash_of(token);
  const TokenEntry* found = nullptr;
  for (const TokenEntry& entry : entries_)
    if (CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0) found = &entry;
  return found;
}

absl::StatusOr<std::string> new_token() {
  unsigned char bytes[token_bytes];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return absl::UnavailableError("the system gives no random numbers");
  return absl::StrCat(
      "ccld_", absl::WebSafeBase64Escape(absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes))));
}

absl::StatusOr<std::string> with_token(absl::string_view text, const std::string& path, const TokenEntry& entry) {
  const auto list = TokenList::parse(text, path);
  if (!list.ok()) return list.status();
  if (entry.roles.none()) return absl::InvalidArgumentError("a token without a role may do nothing");
  if (const std::string wrong = why_not_value(entry.comment); !wrong.empty())
    return absl::InvalidArgumentError(absl::StrCat("note: ", wrong));
  return with_line(text, {0, hex_of(entry.hash), {{"roles", text_of(entry.roles)}}, entry.comment});
}

absl::StatusOr<std::string> without_token(absl::string_view text, const std::string& path,
                                          const std::string& hash_begin) {
  const auto list = TokenList::parse(text, path);
  if (!list.ok()) return list.status();
  const std::string wanted = absl::AsciiStrToLower(hash_begin);
  const auto fits = [&wanted](const TokenEntry& entry) {
    return !wanted.empty() && absl::StartsWith(hex_of(entry.hash), wanted);
  };
  const auto count = std::count_if(list->entries().begin(), list->entries().end(), fits);
  if (count == 0)
    return absl::NotFoundError(absl::StrCat("no token in '", path, "' has a hash that begins with '", hash_begin, "'"));
  if (count > 1)
    return absl::NotFoundError(
        absl::StrCat("the hashes of ", count, " tokens begin with '", hash_begin, "': more of its digits are needed"));
  return without_lines(text, [&wanted](absl::string_view credential) {
    return is_hash(credential) && absl::StartsWith(absl::AsciiStrToLower(credential), wanted);
  });
}

absl::string_view bearer_token(absl::string_view authorization) {
  constexpr absl::string_view scheme = "Bearer ";
  authorization = absl::StripAsciiWhitespace(authorization);
  if (!absl::StartsWithIgnoreCase(authorization, scheme)) return "";
  return absl::StripAsciiWhitespace(authorization.substr(scheme.size()));
}

}  // namespace ccld::decision::admission
