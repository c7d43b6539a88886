#include "decision/server/http_access.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/admission/files.h"
#include "decision/server/exposure.h"
#include "decision/server/surroundings.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

constexpr char tokens_flag[] = "--http-tokens-file", certificate_flag[] = "--http-certificate-file",
               key_flag[] = "--http-key-file";

absl::StatusOr<std::shared_ptr<const admission::TokenList>> read_tokens(const std::string& path) {
  const auto text = admission::read_file(path);
  if (!text.ok()) return text.status();
  auto list = admission::TokenList::parse(*text, path);
  if (!list.ok()) return list.status();
  return std::make_shared<const admission::TokenList>(*std::move(list));
}

absl::Status open_tokens(const std::string& path, HttpAccess& result) {
  auto list = read_tokens(path);
  if (!list.ok()) return naming(tokens_flag, list.status());
  if ((*list)->entries().empty()) spdlog::warn("{}: no token is in '{}': nobody can ask", tokens_flag, path);
  auto book = std::make_shared<admission::TokenBook>(*std::move(list));
  result.tokens = book;
  result.files.push_back({tokens_flag, {path}, [book, path] {
                            auto changed = read_tokens(path);
                            if (changed.ok()) book->replace(*std::move(changed));
                            return changed.status();
                          }});
  return absl::OkStatus();
}

absl::Status open_tls(const std::string& certificate, const std::string& key, HttpAccess& result) {
  auto tls = Tls::load(certificate, key);
  if (!tls.ok()) return naming(certificate_flag, tls.status());
  if (admission::others_can_read(key)) spdlog::warn("{}: others than its owner can read or write '{}'", key_flag, key);
  auto book = std::make_shared<TlsBook>(*std::move(tls));
  result.tls = book;
  result.files.push_back({certificate_flag, {certificate, key}, [book, certificate, key] {
                            auto changed = Tls::load(certificate, key);
                            if (changed.ok()) book->replace(*std::move(changed));
                            return changed.status();
                          }});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HttpAccess> open_http_access(const HttpAccessOptions& options) {
  const bool tokens = !options.tokens_file.empty();
  if (absl::Status s = check_http_exposure(options.address, tokens, options.insecure); !s.ok()) return s;
  if (options.certificate_file.empty() != options.key_file.empty())
    return absl::InvalidArgumentError(absl::StrCat(certificate_flag, " and ", key_flag, " need each other"));
  HttpAccess result;
  if (tokens) {
    if (absl::Status s = open_tokens(options.tokens_file, result); !s.ok()) return s;
  }
  if (!options.certificate_file.empty()) {
    if (absl::Status s = open_tls(options.certificate_file, options.key_file, result); !s.ok()) return s;
  }
  if (!options.address.is_loopback()) {
    if (!tokens) spdlog::warn("--insecure: everyone who reaches {} can ask", options.address.text());
    if (tokens && result.tls == nullptr)
      spdlog::warn("--http {}: tokens and answers cross the network unencrypted; --http-certificate-file encrypts them",
                   options.address.text());
  }
  return result;
}

}  // namespace ccld::decision::server
