#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "decision/webhook/receiver.h"
#include "decision/webhook/url.h"
#include "httplib.h"

namespace ccld::decision::webhook {
namespace {

constexpr int64_t retry_after_s_max = 24 * 3600;
// What the receiver says is of no interest beyond its status.
constexpr uint64_t answer_bytes_max = 1 << 20;

class HttpReceiver : public Receiver {
 public:
  HttpReceiver(const Url& url, const std::string& ca_file, int64_t timeout_ms) : target_(url.target), client_(url.origin) {
    const std::chrono::milliseconds timeout(timeout_ms);
    client_.set_connection_timeout(timeout);
    client_.set_read_timeout(timeout);
    client_.set_write_timeout(timeout);
    client_.set_follow_location(false);
    client_.set_url_encode(false);  // it is as its owner wrote it
    client_.enable_server_certificate_verification(true);
    if (!ca_file.empty()) client_.set_ca_cert_path(ca_file.c_str());
  }

  Answer post(const std::vector<std::string>& headers, const std::string& body) override {
    if (interrupted_) return {.error = "interrupted"};
    httplib::Request request;
    request.method = "POST";
    request.path = target_;
    request.body = body;
    request.set_header("Content-Type", "application/json");
    request.set_header("User-Agent", "ccld/" CCLD_VERSION);
    for (const std::string& header : headers) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(header, absl::MaxSplits(": ", 1));
      request.set_header(parts.first, parts.second);
    }
    uint64_t received = 0;
    request.content_receiver = [this, &received](const char*, size_t size, uint64_t, uint64_t) {
      received += size;
      return !interrupted_ && received <= answer_bytes_max;
    };
    const httplib::Result result = client_.send(request);
    if (interrupted_) return {.error = "interrupted"};
    if (!result) return {.error = httplib::to_string(result.error())};
    int64_t retry_after_s = 0;
    if (!absl::SimpleAtoi(result->get_header_value("Retry-After"), &retry_after_s)) retry_after_s = 0;
    return {.status = result->status, .retry_after_s = std::clamp<int64_t>(retry_after_s, 0, retry_after_s_max)};
  }

  void interrupt() override {
    interrupted_ = true;
    client_.stop();
  }

 private:
  const std::string target_;
  httplib::Client client_;
  std::atomic<bool> interrupted_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Receiver>> open_receiver(const std::string& url, const std::string& ca_file, int64_t post_timeout_ms) {
  const auto parsed = parse_url(url);
  if (!parsed.ok()) return parsed.status();
  return std::make_unique<HttpReceiver>(*parsed, ca_file, post_timeout_ms);
}

std::string receiver_name(const std::string& url) {
  const auto parsed = parse_url(url);
  return parsed.ok() ? parsed->origin : "";
}

}  // namespace ccld::decision::webhook
