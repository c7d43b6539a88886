#include "schemas/keys/curve_key.h"

#include <string>

#include <catch2/catch.hpp>

namespace ccld::keys {
namespace {

const std::string key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";  // ZeroMQ's RFC 26 has it as an example
const std::string other = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";

TEST_CASE("a key is 40 characters that stand for 32 bytes") {
  CHECK(is_key(key));
  CHECK(is_key(other));
  CHECK(is_key(std::string(40, '0')));
  CHECK_FALSE(is_key(key.substr(1)));
  CHECK_FALSE(is_key(key + "0"));
  CHECK_FALSE(is_key(""));
  CHECK_FALSE(is_key("'" + key.substr(1)));   // no character of Z85
  CHECK_FALSE(is_key(std::string(40, '#')));  // more than four bytes
  CHECK_FALSE(is_key("/etc/ccld/keys/service_key.public.file.x"));
}

TEST_CASE("a file holds one key, with comments, and may say which of a pair it is") {
  CHECK(key_in(key).key == key);
  CHECK(key_in(key).kind == KeyKind::unnamed);
  CHECK(key_in("# of node7\n\n  secret " + key + " \r\n").key == key);
  CHECK(key_in("# of node7\nsecret " + key + "\n").kind == KeyKind::secret);
  CHECK(key_in("public " + key + "\n").kind == KeyKind::open);
  CHECK(key_in("#" + key + "\n" + other + "\n").key == other);  // one that somebody commented out
}

TEST_CASE("no key begins with the sign of comments") {
  for (const char second : z85_characters) CHECK_FALSE(is_key(std::string("#") + second + "000" + key.substr(5)));
}

TEST_CASE("a file with two keys, with none or with something else holds no key") {
  for (const std::string& text :
       {std::string(), std::string("# nothing\n"), key + "\n" + other, "secret " + key.substr(1), "hidden " + key,
        key + " node7", std::string("-----BEGIN PRIVATE KEY-----\n")})
    CHECK(key_in(text).key.empty());
}

}  // namespace
}  // namespace ccld::keys
