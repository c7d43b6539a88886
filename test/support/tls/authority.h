// Who signs certificates of servers and clients, for tests. All are PEM files, valid for a day.
#pragma once

#include "test/support/tls/certificate.h"

namespace ccld::test {

class Authority {
 public:
  explicit Authority(std::string name) : name_(std::move(name)) {
    certificate_ = certificate_of(name_, key_.get());
    add(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(certificate_.get(), key_.get(), EVP_sha256());
  }
  // What is signed by it is trusted by whoever has this file.
  void write(const std::string& certificate_file) const {
    write_pem(certificate_file, [&](std::FILE* f) { return PEM_write_X509(f, certificate_.get()); });
  }
  // `names`: of its holder, as in "IP:127.0.0.1,DNS:localhost".
  void sign(const std::string& certificate_file, const std::string& key_file, const std::string& names) const {
    const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const Certificate certificate = certificate_of("of " + name_, key.get());
    add(certificate.get(), NID_subject_alt_name, names.c_str());
    X509_sign(certificate.get(), key_.get(), EVP_sha256());
    write_pem(certificate_file, [&](std::FILE* f) { return PEM_write_X509(f, certificate.get()); });
    write_pem(key_file,
              [&](std::FILE* f) { return PEM_write_PrivateKey(f, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  Certificate certificate_of(const std::string& subject, EVP_PKEY* key) const {
    constexpr long day_s = 24 * 3600;
    Certificate c(X509_new(), X509_free);
    X509_set_version(c.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(c.get()), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(c.get()), -day_s);
    X509_gmtime_adj(X509_getm_notAfter(c.get()), day_s);
    X509_set_pubkey(c.get(), key);
    add_name(X509_get_subject_name(c.get()), subject);
    add_name(X509_get_issuer_name(c.get()), name_);
    return c;
  }
  static void add_name(X509_NAME* to, const std::string& name) {
    X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  }
  static void add(X509* to, int what, const char* text) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, text);
    X509_add_ext(to, extension, -1);
    X509_EXTENSION_free(extension);
  }

  const std::string name_;
  const Key key_{EVP_EC_gen("P-256"), EVP_PKEY_free};
  mutable long serial_ = 0;
  Certificate certificate_{nullptr, X509_free};
};

}  // namespace ccld::test
