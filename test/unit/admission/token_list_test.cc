#include "decision/admission/token_list.h"

#include <catch2/catch.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ccld::decision::admission {
namespace {

// printf secret | sha256sum
constexpr char secret_hash[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

std::string error(const std::string& text) {
  const auto list = TokenList::parse(text, "tokens");
  REQUIRE_FALSE(list.ok());
  return std::string(list.status().message());
}

Roles roles(const std::string& text) {
  const auto parsed = parse_roles(text);
  REQUIRE(parsed.ok());
  return *parsed;
}

}  // namespace

TEST_CASE("A token is known by its hash and has the roles of its line") {
  const auto list = TokenList::parse(
      absl::StrCat("# who\n", secret_hash, " roles=read,tune # me\n", hex_of(hash_of("other")), " roles=acknowledge"),
      "tokens");
  REQUIRE(list.ok());
  const TokenEntry* found = list->find("secret");
  REQUIRE(found != nullptr);
  CHECK(found->roles.has(Role::read));
  CHECK(found->roles.has(Role::tune));
  CHECK_FALSE(found->roles.has(Role::acknowledge));
  CHECK(found->comment == "me");
  CHECK(list->find("other")->roles == roles("acknowledge"));
  for (const char* token : {"", "Secret", "secret ", secret_hash}) CHECK(list->find(token) == nullptr);
}

TEST_CASE("What is wrong with a list of tokens is said with its file and line") {
  CHECK(error("secret roles=read") == "tokens:1: it does not begin with the SHA-256 of a token, 64 hexadecimal digits");
  CHECK(error(absl::StrCat("\n", secret_hash)) == "tokens:2: roles= is missing");
  CHECK(error(absl::StrCat(secret_hash, " roles=read,root")) ==
        "tokens:1: 'root' is not a role: read, acknowledge or tune is expected");
  CHECK(error(absl::StrCat(secret_hash, " role=read")) == "tokens:1: 'role' is not known: roles is expected");
  CHECK(error(absl::StrCat(secret_hash, " roles=read\n", secret_hash, " roles=tune")) ==
        "tokens:2: this token was in a line before");
}

TEST_CASE("Tokens are added by hash and removed by its first digits") {
  const auto one = with_token("# who\n", "tokens", {hash_of("secret"), roles("tune,read"), "me"});
  REQUIRE(one.ok());
  CHECK(*one == absl::StrCat("# who\n", secret_hash, " roles=read,tune # me\n"));
  CHECK_FALSE(absl::StrContains(*one, "secret"));
  const auto two = with_token(*one, "tokens", {hash_of("other"), roles("read"), ""});
  REQUIRE(two.ok());
  CHECK(*without_token(*two, "tokens", hex_of(hash_of("other")).substr(0, 8)) == *one);
  CHECK(*without_token(*one, "tokens", "2BB80D53") == "# who\n");
  CHECK(absl::IsNotFound(without_token(*one, "tokens", "00").status()));
  CHECK(absl::IsNotFound(without_token(*one, "tokens", "").status()));
  CHECK(absl::IsInvalidArgument(with_token("", "tokens", {hash_of("x"), Roles(), ""}).status()));
}

TEST_CASE("The first digits of several tokens remove none") {
  std::string text;
  std::set<char> digits;
  for (int i = 0; i < 17; ++i) {  // more than there are first digits
    text = *with_token(text, "tokens", {hash_of(absl::StrCat(i)), roles("read"), ""});
    digits.insert(hex_of(hash_of(absl::StrCat(i)))[0]);
  }
  int refused = 0;
  for (const char digit : digits)
    refused += absl::IsNotFound(without_token(text, "tokens", std::string(1, digit)).status());
  CHECK(refused > 0);
}

TEST_CASE("New tokens are long, differ, and may stand in a header") {
  const auto one = new_token(), two = new_token();
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  CHECK(*one != *two);
  CHECK(one->size() >= 40);
  CHECK(one->find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=") ==
        std::string::npos);
}

TEST_CASE("A bearer token is read from the header as clients write it") {
  CHECK(bearer_token("Bearer abc") == "abc");
  CHECK(bearer_token(" bearer  abc ") == "abc");
  for (const char* header : {"", "abc", "Basic abc", "Bearer", "Bearer "}) CHECK(bearer_token(header).empty());
}

}  // namespace ccld::decision::admission
