#include "decision/cluster/relay.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ccld::decision::cluster {
namespace {

constexpr char telemetry[] = "telemetry.", answers[] = "answers.";

// The connection, in front of which is its length, then the message.
std::vector<uint8_t> framed(absl::Span<const uint8_t> message, const std::string& connection) {
  std::vector<uint8_t> out;
  out.reserve(1 + connection.size() + message.size());
  out.push_back(static_cast<uint8_t>(connection.size()));
  out.insert(out.end(), connection.begin(), connection.end());
  out.insert(out.end(), message.begin(), message.end());
  return out;
}

// Nothing: it is no such message.
bool unframed(absl::Span<const uint8_t> bytes, Relayed& out) {
  if (bytes.empty() || bytes.size() < 1 + size_t{bytes[0]}) return false;
  const auto message = bytes.subspan(1 + bytes[0]);
  out.connection.assign(bytes.begin() + 1, bytes.begin() + 1 + bytes[0]);
  out.bytes.assign(message.begin(), message.end());
  return true;
}

}  // namespace

Relay::~Relay() {
  if (event_ >= 0) close(event_);
}

absl::Status Relay::start() {
  event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_ < 0) return absl::UnavailableError(absl::StrCat("no event descriptor: ", std::strerror(errno)));
  const absl::Status s =
      bus_.listen(absl::StrCat(telemetry, "*"), [this](const std::string& subject, absl::Span<const uint8_t> bytes) {
        Relayed r;
        if (!unframed(bytes, r)) return;
        r.connection = absl::StrCat(std::string(1, mark), subject.substr(sizeof telemetry - 1), "/", r.connection);
        put(&Waiting::telemetry, std::move(r));
      });
  if (!s.ok()) return s;
  return bus_.listen(absl::StrCat(answers, node_), [this](const std::string&, absl::Span<const uint8_t> bytes) {
    Relayed r;
    if (unframed(bytes, r)) put(&Waiting::answers, std::move(r));
  });
}

void Relay::send(const std::string& connection, absl::Span<const uint8_t> message) {
  const bool sent =
      connection.size() <= UINT8_MAX && bus_.send(absl::StrCat(telemetry, node_), framed(message, connection)).ok();
  ++(sent ? sent_ : not_sent_);
}

bool Relay::answer(const std::string& connection, absl::Span<const uint8_t> message) {
  const size_t slash = connection.find('/');
  if (!is_relayed(connection) || slash == std::string::npos) return false;
  return bus_
      .send(absl::StrCat(answers, connection.substr(1, slash - 1)), framed(message, connection.substr(slash + 1)))
      .ok();
}

void Relay::put(std::vector<Relayed> Waiting::*where, Relayed r) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_bytes_ + r.bytes.size() > waiting_bytes_max) {
      ++dropped_;
      return;
    }
    ++received_;
    waiting_bytes_ += r.bytes.size();
    (waiting_.*where).push_back(std::move(r));
  }
  const uint64_t one = 1;
  if (write(event_, &one, sizeof one) < 0) return;  // it is readable already
}

Relay::Waiting Relay::take_all() {
  uint64_t count = 0;
  if (read(event_, &count, sizeof count) < 0 && errno != EAGAIN) return {};
  const std::lock_guard lock(mutex_);
  waiting_bytes_ = 0;
  return std::exchange(waiting_, {});
}

}  // namespace ccld::decision::cluster
