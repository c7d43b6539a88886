// Who is who to NATS servers that know their clients by signed tokens (JWT): an operator, its accounts, their users.
// Keys, their text form and the tokens are those of NATS; what `nsc` would make.
#pragma once

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace ccld::test {

// An Ed25519 key pair.
class NatsKey {
 public:
  enum class Of : unsigned char { account = 0, operators = 14 << 3, user = 20 << 3 };
  explicit NatsKey(Of);
  std::string id() const;    // the public one, as text
  std::string seed() const;  // the secret one
  // A token that says `claims` of `subject`, signed with this key. `expires_s`: seconds from now; 0: never.
  std::string token(const std::string& subject, nlohmann::json claims, int expires_s = 0) const;

 private:
  std::string raw(int (*get)(const EVP_PKEY*, unsigned char*, size_t*)) const;
  const Of of_;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
};

// What a user may do: subjects; nothing allowed is everything that is not denied.
struct NatsRights {
  std::vector<std::string> publish, subscribe, publish_denied, subscribe_denied;
};

class NatsAccount {
 public:
  // Credentials of a new user of this account. Without JWT and seed of that kind a server lets nobody in.
  std::string user(const NatsRights& rights = {}, int expires_s = 0) const;

 private:
  friend class NatsOperator;
  const NatsKey key_{NatsKey::Of::account};
};

class NatsOperator {
 public:
  // Lines of a server's configuration: it takes users of these accounts and no others.
  std::string config(const std::vector<const NatsAccount*>& accounts) const;

 private:
  const NatsKey key_{NatsKey::Of::operators};
  const NatsAccount system_;  // the servers' own
};

}  // namespace ccld::test
