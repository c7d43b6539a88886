// Lists of keys and of tokens, and files with a secret key. The first byte says which.
#include <unistd.h>

#include <cstdint>
#include <string>

#include "decision/admission/files.h"
#include "decision/admission/key_list.h"
#include "decision/admission/token_list.h"
#include "test/fuzz/bytes.h"
#include "test/fuzz/require.h"

namespace ccld::decision::admission {
namespace {

const std::string some_key = "rq5+lCvGjgcd9NXrQDDTDFyKqZXdvjRqGOXpv(x?";

void keys(const std::string& text) {
  const auto list = KeyList::parse(text, "probes");
  if (!list.ok()) return;
  for (const KeyEntry& entry : list->entries()) FUZZ_REQUIRE(list->find(entry.key) != nullptr);
  KeyEntry more;
  more.key = some_key;
  more.jobs = {"a job"};
  if (list->find(more.key) != nullptr) return;
  const auto longer = with_key(text, "probes", more);
  FUZZ_REQUIRE(longer.ok());
  const auto read = KeyList::parse(*longer, "probes");
  FUZZ_REQUIRE(read.ok() && read->entries().size() == list->entries().size() + 1);
  const auto shorter = without_key(*longer, "probes", more.key);
  FUZZ_REQUIRE(shorter.ok());
  const auto again = KeyList::parse(*shorter, "probes");
  FUZZ_REQUIRE(again.ok() && again->entries().size() == list->entries().size());
}

void tokens(const std::string& text) {
  const auto list = TokenList::parse(text, "tokens");
  if (!list.ok()) return;
  TokenEntry more;
  more.hash = hash_of("a token");
  more.roles.add(Role::read);
  if (list->find("a token") != nullptr) return;
  const auto longer = with_token(text, "tokens", more);
  FUZZ_REQUIRE(longer.ok());
  const auto read = TokenList::parse(*longer, "tokens");
  FUZZ_REQUIRE(read.ok() && read->find("a token") != nullptr);
  FUZZ_REQUIRE(without_token(*longer, "tokens", hex_of(more.hash)).ok());
}

void secret(const std::string& text) {
  static const std::string path = "/tmp/ccld-fuzz-" + std::to_string(getpid()) + ".key";
  unlink(path.c_str());
  if (create_secret_file(path, text).ok()) {
    const auto key = read_secret_key(path);
    if (key.ok()) FUZZ_REQUIRE(key->size() == 40);
  }
  unlink(path.c_str());
}

}  // namespace
}  // namespace ccld::decision::admission

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::decision::admission;
  ccld::fuzz::ByteReader bytes(data, size);
  const uint8_t what = bytes.byte();
  const std::string text(bytes.rest());
  switch (what % 3) {
    case 0: keys(text); break;
    case 1: tokens(text); break;
    default: secret(text); break;
  }
  return 0;
}
