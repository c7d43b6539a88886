#include "decision/cluster/relay.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ccld::decision::cluster {
namespace {

constexpr char telemetry[] = "telemetry.", answers[] = "answers.";

// A first byte: the length of the connection, with this bit if the message is detail. Then the connection, then the
// message.
constexpr uint8_t detail_bit = 0x80;
constexpr size_t connection_chars_max = 0x7f;

std::vector<uint8_t> framed(absl::Span<const uint8_t> message, const std::string& connection, Priority priority) {
  std::vector<uint8_t> out;
  out.reserve(1 + connection.size() + message.size());
  out.push_back(static_cast<uint8_t>(connection.size() | (priority == Priority::detail ? detail_bit : 0)));
  out.insert(out.end(), connection.begin(), connection.end());
  out.insert(out.end(), message.begin(), message.end());
  return out;
}

// Nothing: it is no such message.
std::optional<Priority> unframed(absl::Span<const uint8_t> bytes, Relayed& out) {
  if (bytes.empty()) return std::nullopt;
  const size_t connection_chars = bytes[0] & connection_chars_max;
  if (bytes.size() < 1 + connection_chars) return std::nullopt;
  const auto message = bytes.subspan(1 + connection_chars);
  out.connection.assign(bytes.begin() + 1, bytes.begin() + 1 + static_cast<std::ptrdiff_t>(connection_chars));
  out.bytes.assign(message.begin(), message.end());
  return (bytes[0] & detail_bit) != 0 ? Priority::detail : Priority::evidence;
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
        const auto priority = unframed(bytes, r);
        if (!priority.has_value()) return;
        r.connection = absl::StrCat(std::string(1, mark), subject.substr(sizeof telemetry - 1), "/", r.connection);
        put(&Waiting::telemetry, std::move(r), *priority);
      });
  if (!s.ok()) return s;
  outbox_.start();
  return bus_.listen(absl::StrCat(answers, node_), [this](const std::string&, absl::Span<const uint8_t> bytes) {
    Relayed r;
    if (const auto priority = unframed(bytes, r); priority.has_value()) put(&Waiting::answers, std::move(r), *priority);
  });
}

void Relay::send(const std::string& connection, absl::Span<const uint8_t> message, Priority priority) {
  if (connection.size() > connection_chars_max)
    ++too_long_;
  else
    outbox_.put(absl::StrCat(telemetry, node_), framed(message, connection, priority), priority);
}

bool Relay::answer(const std::string& connection, absl::Span<const uint8_t> message) {
  const size_t slash = connection.find('/');
  if (!is_relayed(connection) || slash == std::string::npos) return false;
  return outbox_.put(absl::StrCat(answers, connection.substr(1, slash - 1)),
                     framed(message, connection.substr(slash + 1), Priority::evidence), Priority::evidence);
}

void Relay::put(std::vector<Relayed> Waiting::*where, Relayed r, Priority priority) {
  {
    const std::lock_guard lock(mutex_);
    if (!has_room(waiting_bytes_, r.bytes.size(), waiting_bytes_max, priority)) {
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
