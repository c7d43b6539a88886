#include "test/integration/cluster/nats_identities.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <stdexcept>

namespace ccld::test {
namespace {

using nlohmann::json;

constexpr unsigned char seed_prefix = 18 << 3;

uint16_t crc16(const std::string& bytes) {  // CCITT, from 0
  uint16_t crc = 0;
  for (const char c : bytes) {
    crc = static_cast<uint16_t>(crc ^ (static_cast<unsigned char>(c) << 8));
    for (int bit = 0; bit < 8; ++bit) crc = static_cast<uint16_t>((crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1);
  }
  return crc;
}

std::string base32(const std::string& bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  std::string text;
  uint32_t waiting = 0;
  int bits = 0;
  for (const char c : bytes) {
    waiting = waiting << 8 | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 5; bits -= 5) text += digits[waiting >> (bits - 5) & 31];
  }
  if (bits > 0) text += digits[waiting << (5 - bits) & 31];
  return text;
}

std::string base64url(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  text.resize(static_cast<size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                                  reinterpret_cast<const unsigned char*>(bytes.data()),
                                                  static_cast<int>(bytes.size()))));
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  text.erase(std::min(text.find('='), text.size()));
  return text;
}

// As NATS writes keys: a checksum follows.
std::string key_text(const std::string& bytes) {
  const uint16_t crc = crc16(bytes);
  return base32(bytes + static_cast<char>(crc & 0xff) + static_cast<char>(crc >> 8));
}

json subjects(const std::vector<std::string>& allowed, const std::vector<std::string>& denied) {
  json j = json::object();
  if (!allowed.empty()) j["allow"] = allowed;
  if (!denied.empty()) j["deny"] = denied;
  return j;
}

}  // namespace

NatsKey::NatsKey(Of of) : of_(of), key_(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free) {}

std::string NatsKey::raw(int (*get)(const EVP_PKEY*, unsigned char*, size_t*)) const {
  std::string bytes(32, '\0');
  size_t size = bytes.size();
  if (get(key_.get(), reinterpret_cast<unsigned char*>(bytes.data()), &size) != 1 || size != bytes.size())
    throw std::runtime_error("no Ed25519 key");
  return bytes;
}

std::string NatsKey::id() const { return key_text(static_cast<char>(of_) + raw(EVP_PKEY_get_raw_public_key)); }

std::string NatsKey::seed() const {
  const auto of = static_cast<unsigned char>(of_);
  const std::string prefix = {static_cast<char>(seed_prefix | of >> 5), static_cast<char>((of & 31) << 3)};
  return key_text(prefix + raw(EVP_PKEY_get_raw_private_key));
}

std::string NatsKey::token(const std::string& subject, json claims, int expires_s) const {
  claims["version"] = 2;
  const std::time_t now_s = std::time(nullptr);
  json all = {{"jti", subject}, {"iat", now_s}, {"iss", id()}, {"name", subject}, {"sub", subject}, {"nats", claims}};
  if (expires_s != 0) all["exp"] = now_s + expires_s;
  const std::string text =
      base64url(json{{"typ", "JWT"}, {"alg", "ed25519-nkey"}}.dump()) + "." + base64url(all.dump());
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::string signature(64, '\0');
  size_t size = signature.size();
  if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     reinterpret_cast<const unsigned char*>(text.data()), text.size()) != 1)
    throw std::runtime_error("cannot sign with Ed25519");
  return text + "." + base64url(signature);
}

std::string NatsAccount::user(const NatsRights& rights, int expires_s) const {
  const NatsKey user(NatsKey::Of::user);
  const json claims = {{"type", "user"},
                       {"pub", subjects(rights.publish, rights.publish_denied)},
                       {"sub", subjects(rights.subscribe, rights.subscribe_denied)},
                       {"subs", -1},
                       {"data", -1},
                       {"payload", -1}};
  return "-----BEGIN NATS USER JWT-----\n" + key_.token(user.id(), claims, expires_s) +
         "\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n" + user.seed() +
         "\n------END USER NKEY SEED------\n";
}

std::string NatsOperator::config(const std::vector<const NatsAccount*>& accounts) const {
  const auto account = [this](const NatsAccount& a, bool has_streams) {
    json limits = {{"subs", -1},    {"data", -1}, {"payload", -1}, {"imports", -1},
                   {"exports", -1}, {"conn", -1}, {"leaf", -1},    {"wildcards", true}};
    if (has_streams) limits.update({{"mem_storage", -1}, {"disk_storage", -1}, {"streams", -1}, {"consumer", -1}});
    return "  " + a.key_.id() + ": " + key_.token(a.key_.id(), {{"type", "account"}, {"limits", limits}}) + "\n";
  };
  std::string config = "operator: " + key_.token(key_.id(), {{"type", "operator"}}) +
                       "\nsystem_account: " + system_.key_.id() + "\nresolver: MEMORY\nresolver_preload {\n" +
                       account(system_, false);
  for (const NatsAccount* a : accounts) config += account(*a, true);
  return config + "}\n";
}

}  // namespace ccld::test
