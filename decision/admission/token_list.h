// Who may ask the query API, and what: bearer tokens with roles. Only the SHA-256 of a token is kept.
//
//   SHA256 roles=read             # prometheus
//   SHA256 roles=read,acknowledge # oncall
//
// Pure but for new_token(). Errors: InvalidArgument with file and line. Threads: any; a list does not change.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::admission {

enum class Role : uint8_t { read, acknowledge, tune };
constexpr Role all_roles[] = {Role::read, Role::acknowledge, Role::tune};
const char* name(Role);

class Roles {
 public:
  void add(Role role) { bits_ |= bit(role); }
  bool has(Role role) const { return (bits_ & bit(role)) != 0; }
  bool none() const { return bits_ == 0; }
  friend bool operator==(Roles, Roles) = default;

 private:
  static unsigned bit(Role role) { return 1u << static_cast<unsigned>(role); }
  unsigned bits_ = 0;
};

// "read,acknowledge". Errors: the word that is no role.
absl::StatusOr<Roles> parse_roles(absl::string_view text);
std::string text_of(Roles);

using TokenHash = std::array<unsigned char, 32>;
TokenHash hash_of(absl::string_view token);
std::string hex_of(const TokenHash&);

struct TokenEntry {
  TokenHash hash{};
  Roles roles;
  std::string comment;
};

class TokenList {
 public:
  // `path`: for errors.
  static absl::StatusOr<TokenList> parse(absl::string_view text, const std::string& path);

  // nullptr: it is not known. How long that takes says nothing of the tokens.
  const TokenEntry* find(absl::string_view token) const;
  const std::vector<TokenEntry>& entries() const { return entries_; }

 private:
  std::vector<TokenEntry> entries_;
};

// 32 random bytes as text. Errors: Unavailable: the system gives no random numbers.
absl::StatusOr<std::string> new_token();

// The file's text with a token more or less. Errors: InvalidArgument, AlreadyExists; NotFound, also if `hash_begin`,
// the first characters of the hexadecimal hash, fit several.
absl::StatusOr<std::string> with_token(absl::string_view text, const std::string& path, const TokenEntry&);
absl::StatusOr<std::string> without_token(absl::string_view text, const std::string& path,
                                          const std::string& hash_begin);

// Of the header Authorization: "Bearer TOKEN". Empty: it has none.
absl::string_view bearer_token(absl::string_view authorization);

}  // namespace ccld::decision::admission
