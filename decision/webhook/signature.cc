#include "decision/webhook/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ccld::decision::webhook {

std::string signature(absl::string_view secret, int64_t time_s, absl::string_view body) {
  const std::string text = absl::StrCat(time_s, ".", body);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest,
       &length);
  return absl::StrCat("t=", time_s, ",v1=", absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), length)));
}

}  // namespace ccld::decision::webhook
