#include "decision/admission/key_pair.h"

#include <zmq.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schemas/keys/curve_key.h"

namespace ccld::decision::admission {
namespace {

// One pair in some 2000 has such a public key, and making one takes less than a tenth of a millisecond.
constexpr int pairs_tried_max = 100'000;

bool is_plain(char c) {
  constexpr absl::string_view harmless = ".-+=/@%:^";
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(harmless, c);
}

bool needs_no_quotes(absl::string_view key) {
  return absl::ascii_isalnum(static_cast<unsigned char>(key.front())) && std::all_of(key.begin(), key.end(), is_plain);
}

}  // namespace

absl::StatusOr<KeyPair> make_key_pair() {
  char open[keys::key_chars + 1] = "", secret[keys::key_chars + 1] = "";
  for (int i = 0; i < pairs_tried_max; ++i) {
    if (zmq_curve_keypair(open, secret) != 0)
      return absl::UnavailableError(absl::StrCat("no keys can be made: ", zmq_strerror(zmq_errno())));
    if (needs_no_quotes(open)) break;  // else, in the end, one that does is a key as well
  }
  return KeyPair{open, secret};
}

std::string secret_file_text(const KeyPair& pair) {
  return absl::StrCat("# Secret key of telemetry; its public one is ", pair.open, "\nsecret ", pair.secret, "\n");
}

absl::StatusOr<std::string> public_key_of(const std::string& secret) {
  char open[keys::key_chars + 1] = "";
  if (zmq_curve_public(open, secret.c_str()) != 0) return absl::InvalidArgumentError("that is no secret key");
  return open;
}

}  // namespace ccld::decision::admission
