#include "decision/cluster/nats_bus.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "decision/cluster/nats_library.h"
#include "decision/cluster/nats_link.h"
#include "decision/cluster/nats_owned.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::cluster {
namespace {

// JetStream answers within milliseconds. Who leads must not wait so long for an answer that its lease ends meanwhile.
constexpr int64_t answer_ms = 1000;
// Servers that do not let us in need not be asked often. Who has lost them for so long has lost its lease, too.
constexpr std::chrono::seconds mend_period(5);
// If only the order of the servers hides that some refuse this node.
constexpr std::chrono::seconds mend_late_period(60);
constexpr size_t denied_max = 16;  // that are said
// Of what the servers take in one message, the headers that JetStream reads have some tens.
constexpr int64_t header_bytes_max = 512;

class NatsBus final : public Bus {
 public:
  NatsBus(const NatsLibrary& nats, NatsOptions options) : nats_(nats), options_(std::move(options)) {}

  absl::Status connect() {
    const auto made = NatsLink::connect(nats_, options_);
    return made.ok() ? use(*made) : made.status();
  }

  void mend() override {
    const auto old = link();
    const auto now = std::chrono::steady_clock::now();
    if (old->connected()) {
      connected_ = quiet_from_ = now;
      said_.clear();
      say_denied(old->take_denied());
      return;
    }
    // The client tries again by itself. But it keeps the certificates that it has read, and does not say why it fails.
    // While no server answers it is left alone: who ends the service would wait for each of them.
    const bool refused = old->closed_for_good() || (old->refused() && now - connected_ >= mend_period);
    if (!(refused || now - quiet_from_ >= mend_late_period) || now - tried_ < mend_period) return;
    tried_ = quiet_from_ = now;
    const auto made = NatsLink::connect_now(nats_, options_);
    if (!made.ok()) {
      say_refusal(made.status());
      // Its own attempts are many, and would be refused as well.
      if (absl::IsPermissionDenied(made.status())) old->close();
      return;
    }
    if (old->connected()) return;  // it was faster
    old->close();
    if (absl::Status s = use(*made); !s.ok()) spdlog::warn("cluster: {}", std::string(s.message()));
  }

  void close() override { link()->close(); }

  bool connected() const override { return link()->connected(); }

  absl::Status send(const std::string& subject, absl::Span<const uint8_t> bytes) override {
    const auto link = reach();
    if (!link.ok()) return link.status();
    const natsStatus s = nats_.natsConnection_Publish((*link)->connection(), full(subject).c_str(), bytes.data(),
                                                      static_cast<int>(bytes.size()));
    return s == NATS_OK ? absl::OkStatus() : (*link)->error("a message", s);
  }

  absl::Status listen(const std::string& subject, Handler handler) override {
    handlers_.emplace_back(subject, handler);
    const absl::Status s = link()->listen(full(subject), full("").size(), std::move(handler));
    // Servers have refused this node already: it listens once one lets it in.
    return absl::IsFailedPrecondition(s) ? absl::OkStatus() : s;
  }

  absl::StatusOr<std::optional<Lease>> lease() override {
    const auto link = reach_streams();
    if (!link.ok()) return link.status();
    Owned<natsMsg> message(nats_.natsMsg_Destroy);
    jsErrCode code{};
    jsOptions wait = answer_options();
    const natsStatus s =
        nats_.js_GetLastMsg(message.out(), (*link)->js(), stream("lease").c_str(), full("lease").c_str(), &wait, &code);
    if (code == JSStreamNotFoundErr) return lost_streams(**link, "the lease", s);
    if (s == NATS_NOT_FOUND || code == JSNoMessageFoundErr) return std::optional<Lease>();
    if (s != NATS_OK) return (*link)->error("the lease", s);
    return std::optional<Lease>({text_of(message.get()), nats_.natsMsg_GetSequence(message.get())});
  }

  absl::StatusOr<uint64_t> take_lease(const std::string& holder) override {
    jsPubOptions o = put_options();
    o.ExpectNoMessage = true;
    return put("lease", holder, o);
  }

  absl::StatusOr<uint64_t> renew_lease(const std::string& holder, uint64_t of) override {
    jsPubOptions o = put_options();
    o.ExpectLastSubjectSeq = of;
    return put("lease", holder, o);
  }

  absl::Status give_lease_back(uint64_t of) override {
    const auto link = reach();
    if (!link.ok()) return link.status();
    jsErrCode code{};
    jsOptions wait = answer_options();
    const natsStatus s = nats_.js_DeleteMsg((*link)->js(), stream("lease").c_str(), of, &wait, &code);
    return s == NATS_OK ? absl::OkStatus() : (*link)->error("the lease", s);
  }

  absl::StatusOr<Range> log() override {
    const auto link = reach_streams();
    if (!link.ok()) return link.status();
    Owned<jsStreamInfo> info(nats_.jsStreamInfo_Destroy);
    jsErrCode code{};
    jsOptions wait = answer_options();
    const natsStatus s = nats_.js_GetStreamInfo(info.out(), (*link)->js(), stream("log").c_str(), &wait, &code);
    if (code == JSStreamNotFoundErr) return lost_streams(**link, "the log", s);
    if (s != NATS_OK) return (*link)->error("the log", s);
    return Range{std::max<uint64_t>(1, info->State.FirstSeq), info->State.LastSeq, info->Created};
  }

  absl::StatusOr<std::string> read(uint64_t number) override {
    const auto link = reach();
    if (!link.ok()) return link.status();
    Owned<natsMsg> message(nats_.natsMsg_Destroy);
    jsErrCode code{};
    jsOptions wait = answer_options();
    const natsStatus s = nats_.js_GetMsg(message.out(), (*link)->js(), stream("log").c_str(), number, &wait, &code);
    if (code == JSStreamNotFoundErr) return lost_streams(**link, "the log", s);
    if (s == NATS_NOT_FOUND || code == JSNoMessageFoundErr)
      return absl::NotFoundError(absl::StrCat("entry ", number, " of the log is gone"));
    if (s != NATS_OK) return (*link)->error("the log", s);
    return text_of(message.get());
  }

  absl::StatusOr<uint64_t> append(const std::string& entry, uint64_t after) override {
    jsPubOptions o = put_options();
    if (after == 0)
      o.ExpectNoMessage = true;
    else
      o.ExpectLastSeq = after;
    return put("log", entry, o);
  }

 private:
  std::shared_ptr<NatsLink> link() const {
    const std::lock_guard lock(mutex_);
    return link_;
  }
  absl::StatusOr<std::shared_ptr<NatsLink>> reach() const {
    auto l = link();
    if (!l->connected()) return absl::UnavailableError("no NATS server is reached");
    return l;
  }
  absl::StatusOr<std::shared_ptr<NatsLink>> reach_streams() {
    const auto l = reach();
    if (l.ok())
      if (absl::Status s = make_streams(**l); !s.ok()) return s;
    return l;
  }

  // Without the lock: the client may wait for a server.
  absl::Status use(const std::shared_ptr<NatsLink>& made) {
    for (const auto& [subject, handler] : handlers_)
      if (absl::Status s = made->listen(full(subject), full("").size(), handler); !s.ok()) return s;
    const std::lock_guard lock(mutex_);
    link_ = made;
    return absl::OkStatus();
  }

  void say_refusal(const absl::Status& s) {
    const std::string why(s.message());
    if (absl::IsUnavailable(s) || why == said_) return;  // that no server is reached, whoever asks says
    said_ = why;
    spdlog::warn("cluster: {}; it is tried again every {} s", why, mend_period.count());
  }

  // Once each: what is denied is tried again and again.
  void say_denied(const std::vector<std::string>& all) {
    for (const std::string& what : all)
      if (denied_.size() < denied_max && denied_.insert(what).second)
        spdlog::warn("cluster: NATS: this node's user lacks a right: {}", what);
  }

  std::string full(const std::string& subject) const { return absl::StrCat("ccld.", options_.cluster, ".", subject); }
  std::string stream(const char* name) const { return absl::StrCat("ccld-", options_.cluster, "-", name); }
  std::string text_of(natsMsg* message) const {
    return {nats_.natsMsg_GetData(message), static_cast<size_t>(nats_.natsMsg_GetDataLength(message))};
  }

  jsOptions answer_options() const {
    jsOptions o{};
    nats_.jsOptions_Init(&o);
    o.Wait = answer_ms;
    return o;
  }
  jsPubOptions put_options() const {
    jsPubOptions o{};
    nats_.jsPubOptions_Init(&o);
    o.MaxWait = answer_ms;
    return o;
  }

  // Without a connection the client would keep it, and send it when somebody else may have been first.
  absl::StatusOr<uint64_t> put(const char* where, const std::string& text, jsPubOptions& options) {
    const auto link = reach_streams();
    if (!link.ok()) return link.status();
    const int64_t bytes_max = nats_.natsConnection_GetMaxPayload((*link)->connection());
    if (bytes_max > 0 && static_cast<int64_t>(text.size()) + header_bytes_max > bytes_max)
      return absl::OutOfRangeError(
          absl::StrCat("NATS: ", where, ": ", text.size(), " bytes; servers take ", bytes_max));
    Owned<jsPubAck> ack(nats_.jsPubAck_Destroy);
    jsErrCode code{};
    const natsStatus s = nats_.js_Publish(ack.out(), (*link)->js(), full(where).c_str(), text.data(),
                                          static_cast<int>(text.size()), &options, &code);
    if (s == NATS_OK) return ack->Sequence;
    if (code == JSStreamWrongLastSequenceErr)
      return absl::AbortedError(absl::StrCat("NATS: ", where, ": somebody else was first"));
    if (s == NATS_NO_RESPONDERS || code == JSStreamNotFoundErr) return lost_streams(**link, where, s);
    const absl::Status why = (*link)->error(where, s);
    if (s == NATS_MAX_PAYLOAD || code == JSStreamMessageExceedsMaximumErr) return absl::OutOfRangeError(why.message());
    return code != 0 ? absl::FailedPreconditionError(why.message()) : why;  // it has answered
  }

  // They are made again at the next attempt, if the servers have lost them.
  absl::Status lost_streams(const NatsLink& link, const std::string& what, natsStatus s) {
    const std::lock_guard lock(making_);
    streams_made_ = false;
    return link.error(what, s);
  }

  absl::Status make_streams(const NatsLink& link) {
    const std::lock_guard lock(making_);
    if (streams_made_) return absl::OkStatus();
    if (absl::Status s = make(link, "lease", js_MemoryStorage, options_.lease_lasts_ns, 0, 1); !s.ok()) return s;
    if (absl::Status s = make(link, "log", js_FileStorage, options_.log_age_max_ns, options_.log_bytes_max, 0); !s.ok())
      return s;
    streams_made_ = true;
    return absl::OkStatus();
  }

  absl::Status make(const NatsLink& link, const char* name, jsStorageType storage, int64_t age_max_ns,
                    int64_t bytes_max, int64_t messages_max) {
    jsErrCode code{};
    jsOptions wait = answer_options();
    const std::string stream_name = stream(name), subject = full(name);
    Owned<jsStreamInfo> there(nats_.jsStreamInfo_Destroy), made(nats_.jsStreamInfo_Destroy);
    if (nats_.js_GetStreamInfo(there.out(), link.js(), stream_name.c_str(), &wait, &code) == NATS_OK)
      return absl::OkStatus();
    const char* subjects[] = {subject.c_str()};
    jsStreamConfig config{};
    nats_.jsStreamConfig_Init(&config);
    config.Name = stream_name.c_str();
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = storage;
    config.MaxAge = age_max_ns;
    if (bytes_max > 0) config.MaxBytes = bytes_max;
    if (messages_max > 0) config.MaxMsgsPerSubject = messages_max;
    config.Replicas = options_.replicas;
    const natsStatus s = nats_.js_AddStream(made.out(), link.js(), &config, &wait, &code);
    // Two nodes that begin at the same time ask for the same one.
    if (s == NATS_OK || code == JSStreamNameExistErr) return absl::OkStatus();
    return link.error(absl::StrCat("the stream ", stream_name, " cannot be made"), s);
  }

  const NatsLibrary& nats_;
  const NatsOptions options_;
  std::vector<std::pair<std::string, Handler>> handlers_;  // by subject; complete before the first mend()
  // Of the thread that mends: when there was a connection last, when one was tried last, and the later of both; the
  // refusal that was said last.
  std::chrono::steady_clock::time_point connected_, tried_, quiet_from_ = std::chrono::steady_clock::now();
  std::string said_;
  std::set<std::string> denied_;
  mutable std::mutex mutex_;
  std::shared_ptr<NatsLink> link_;  // another one after one that was closed for good
  std::mutex making_;
  bool streams_made_ = false;
};

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bus>> open_nats(const NatsOptions& options) {
  if (options.servers.empty()) return absl::InvalidArgumentError("--cluster: no server is named");
  for (const std::string& server : options.servers) {
    if (!absl::StartsWith(server, "nats://") && !absl::StartsWith(server, "tls://"))
      return absl::InvalidArgumentError(
          absl::StrCat("--cluster: '", server, "' is not nats://HOST:PORT or tls://HOST:PORT"));
  }
  if (!is_name(options.cluster))
    return absl::InvalidArgumentError(
        absl::StrCat("--cluster-name: '", options.cluster, "' is not 1 to 63 letters, digits, '-' and '_'"));
  if (!is_name(options.node))
    return absl::InvalidArgumentError(
        absl::StrCat("--cluster-node: '", options.node, "' is not 1 to 63 letters, digits, '-' and '_'"));
  if (options.certificate_file.empty() != options.key_file.empty())
    return absl::InvalidArgumentError("--cluster-certificate-file and --cluster-key-file need each other");
  // It is read each time that the node connects. That it was never there is said before that.
  if (const std::string& file = options.credentials_file; !file.empty() && access(file.c_str(), R_OK) != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("--cluster-credentials-file: cannot read '", file, "': ", std::strerror(errno)));
  const auto nats = load_nats();
  if (!nats.ok()) return nats.status();
  auto bus = std::make_unique<NatsBus>(**nats, options);
  if (absl::Status s = bus->connect(); !s.ok()) return s;
  return bus;
}

}  // namespace ccld::decision::cluster
