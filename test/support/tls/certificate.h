// A certificate that signs itself, for 127.0.0.1 and localhost, with its key, as PEM files.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

namespace ccld::test {

template <class Write>
void write_pem(const std::string& path, const Write& what) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "we"), std::fclose);
  if (file == nullptr || what(file.get()) != 1) throw std::runtime_error("cannot write " + path);
}

inline void write_certificate(const std::string& certificate_file, const std::string& key_file,
                              const std::string& name = "ccld-test") {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), X509_free);
  constexpr long day_s = 24 * 3600;
  X509_set_version(x509.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509.get()), -day_s);
  X509_gmtime_adj(X509_getm_notAfter(x509.get()), day_s);
  X509_set_pubkey(x509.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(x509.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(x509.get(), subject);
  X509_EXTENSION* const names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
  X509_add_ext(x509.get(), names, -1);
  X509_EXTENSION_free(names);
  X509_sign(x509.get(), key.get(), EVP_sha256());
  write_pem(certificate_file, [&](std::FILE* f) { return PEM_write_X509(f, x509.get()); });
  write_pem(key_file,
            [&](std::FILE* f) { return PEM_write_PrivateKey(f, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
}

}  // namespace ccld::test
