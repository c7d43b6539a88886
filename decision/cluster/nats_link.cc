#include "decision/cluster/nats_link.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "decision/cluster/nats_owned.h"

namespace ccld::decision::cluster {
namespace {

constexpr int64_t connect_ms = 1000, reconnect_ms = 200;
// A server that was stopped is left after two of them.
constexpr int64_t ping_ms = 1000;
constexpr int pings_out_max = 2;
// What others sent and nobody took yet: a second of a job of 16,384 ranks. More of it is lost, and counted as lost
// batches.
constexpr int pending_messages_max = 1 << 18, pending_bytes_max = 256 << 20;
constexpr size_t denied_waiting_max = 16;  // that wait to be taken

bool wants_tls(const NatsOptions& o) {
  // To NATS' client tls:// is the same as nats://: it would speak in the clear to a server that takes it.
  const bool says_so = std::any_of(o.servers.begin(), o.servers.end(),
                                   [](const std::string& server) { return absl::StartsWith(server, "tls://"); });
  return says_so || !o.ca_file.empty() || !o.certificate_file.empty();
}

absl::Status set_options(const NatsLibrary& nats, const NatsOptions& from, natsOptions* to) {
  std::vector<const char*> servers;
  for (const std::string& server : from.servers) servers.push_back(server.c_str());
  const auto set = [](const char* option, natsStatus s) {
    return s == NATS_OK ? absl::OkStatus()
                        : absl::InvalidArgumentError(absl::StrCat(option, ": NATS' client does not take it"));
  };
  const absl::Status all[] = {
      set("--cluster", nats.natsOptions_SetServers(to, servers.data(), static_cast<int>(servers.size()))),
      set("--cluster-node", nats.natsOptions_SetName(to, from.node.c_str())),
      from.ca_file.empty()
          ? absl::OkStatus()
          : set("--cluster-ca-file", nats.natsOptions_LoadCATrustedCertificates(to, from.ca_file.c_str())),
      from.certificate_file.empty()
          ? absl::OkStatus()
          : set("--cluster-certificate-file",
                nats.natsOptions_LoadCertificatesChain(to, from.certificate_file.c_str(), from.key_file.c_str())),
      from.credentials_file.empty()
          ? absl::OkStatus()
          : set("--cluster-credentials-file",
                nats.natsOptions_SetUserCredentialsFromFiles(to, from.credentials_file.c_str(), nullptr))};
  for (const absl::Status& s : all)
    if (!s.ok()) return s;
  if (wants_tls(from)) nats.natsOptions_SetSecure(to, true);
  // Answers of JetStream carry the lease and the log. They come under a subject that only nodes may use: whoever hears,
  // and may publish, where all clients of an account are answered could forge them.
  const std::string inbox = absl::StrCat("ccld.", from.cluster, ".inbox");
  nats.natsOptions_SetCustomInboxPrefix(to, inbox.c_str());
  nats.natsOptions_SetNoEcho(to, true);
  nats.natsOptions_SetTimeout(to, connect_ms);
  nats.natsOptions_SetWriteDeadline(to, connect_ms);
  nats.natsOptions_SetMaxReconnect(to, -1);
  nats.natsOptions_SetPingInterval(to, ping_ms);
  nats.natsOptions_SetMaxPingsOut(to, pings_out_max);
  return absl::OkStatus();
}

bool is_refusal(natsStatus s) { return s != NATS_OK && s != NATS_NO_SERVER && s != NATS_TIMEOUT; }

// In the middle of the handshake, or before the first answer: with TLS 1.3 a client hears no more when its certificate
// is refused. What the client finds then differs from time to time.
bool hangs_up(natsStatus s, absl::string_view why) {
  return absl::StrContains(why, " alert ") || s == NATS_IO_ERROR || s == NATS_CONNECTION_CLOSED ||
         (s == NATS_PROTOCOL_ERROR && absl::EndsWith(why, "got ''"));
}

// Why a server that was reached did not let this node in: what the client says, and the option that it is about.
absl::Status refusal(const NatsOptions& options, natsStatus s, absl::string_view why) {
  // It begins with a place in the client's source.
  if (const size_t place_end = why.find("): "); absl::StartsWith(why, "(") && place_end != why.npos)
    why.remove_prefix(place_end + 3);
  const char* about = options.credentials_file.empty() ? "--cluster" : "--cluster-credentials-file";
  if (s == NATS_CONNECTION_AUTH_FAILED) {
    about = "it does not take this node's --cluster-credentials-file, or user and password in --cluster";
  } else if (absl::StrContains(why, "mismatch")) {
    about = "the server's certificate is not for its name in --cluster";
  } else if (s == NATS_SECURE_CONNECTION_WANTED) {
    about = "the server speaks no TLS, which this node demands";
  } else if (hangs_up(s, why)) {
    about = "it ends the connection";
    why = "does it demand another --cluster-certificate-file?";
  } else if (s == NATS_SSL_ERROR) {
    about = "--cluster-ca-file is not of who signed the server's certificate";
  }
  return absl::PermissionDeniedError(absl::StrCat("NATS: a server does not let this node in: ", about, ": ", why));
}

}  // namespace

// By a thread of the client's, which may still do so when the connection is no more.
struct NatsLink::Told {
  std::atomic<bool> connected = false, closed = false, refused = false;
  const NatsLibrary& nats;
  std::mutex mutex;
  std::vector<std::string> denied;

  explicit Told(const NatsLibrary& n) : nats(n) {}
  // Before it tries again.
  void look_at(natsConnection* c) {
    const char* why = nullptr;
    refused = is_refusal(nats.natsConnection_GetLastError(c, &why));
  }
  void deny() {
    const char* const what = nats.nats_GetLastError(nullptr);
    const std::lock_guard lock(mutex);
    if (what != nullptr && denied.size() < denied_waiting_max) denied.emplace_back(what);
  }
};

// What a subscription's thread needs, which may call once more when the subscription is no more.
struct NatsLink::Listener {
  const NatsLibrary* nats = nullptr;
  size_t prefix_chars = 0;
  natsSubscription* of = nullptr;
  std::mutex mutex;
  Bus::Handler handler;  // none: it is closed
};

NatsLink::NatsLink(const NatsLibrary& nats) : nats_(nats), told_(std::make_shared<Told>(nats)) {}

NatsLink::~NatsLink() {
  close();
  for (const auto& l : listeners_) nats_.natsSubscription_Destroy(l->of);
  if (js_ != nullptr) nats_.jsCtx_Destroy(js_);
  if (connection_ != nullptr) nats_.natsConnection_Destroy(connection_);
}

absl::StatusOr<std::shared_ptr<NatsLink>> NatsLink::connect(const NatsLibrary& nats, const NatsOptions& options) {
  return made(nats, options, true);
}

absl::StatusOr<std::shared_ptr<NatsLink>> NatsLink::connect_now(const NatsLibrary& nats, const NatsOptions& options) {
  auto link = made(nats, options, false);
  // The client (3.4.1) leaves out a signature whose first byte is 0, which one in 256 is: the next one is another.
  if (absl::IsPermissionDenied(link.status()) && !options.credentials_file.empty()) link = made(nats, options, false);
  return link;
}

absl::StatusOr<std::shared_ptr<NatsLink>> NatsLink::made(const NatsLibrary& nats, const NatsOptions& options,
                                                         bool wait_for_server) {
  std::shared_ptr<NatsLink> link(new NatsLink(nats));
  if (absl::Status s = link->open(options, wait_for_server); !s.ok()) return s;
  return link;
}

absl::Status NatsLink::open(const NatsOptions& options, bool wait_for_server) {
  Owned<natsOptions> o(nats_.natsOptions_Destroy);
  if (natsStatus s = nats_.natsOptions_Create(o.out()); s != NATS_OK) return error("options", s);
  if (absl::Status s = set_options(nats_, options, o.get()); !s.ok()) return s;

  using TheirTold = std::shared_ptr<Told>;
  auto theirs = std::make_unique<TheirTold>(told_);
  const auto now_connected = [](natsConnection*, void* t) { (*static_cast<TheirTold*>(t))->connected = true; };
  const auto now_lost = [](natsConnection*, void* t) { (*static_cast<TheirTold*>(t))->connected = false; };
  const auto now_closed = [](natsConnection*, void* t) {  // the last that it tells
    const std::unique_ptr<TheirTold> told(static_cast<TheirTold*>(t));
    (*told)->closed = true;
  };
  if (wait_for_server) nats_.natsOptions_SetRetryOnFailedConnect(o.get(), true, now_connected, theirs.get());
  nats_.natsOptions_SetReconnectedCB(o.get(), now_connected, theirs.get());
  nats_.natsOptions_SetDisconnectedCB(o.get(), now_lost, theirs.get());
  nats_.natsOptions_SetClosedCB(o.get(), now_closed, theirs.get());
  const auto before_next = [](natsConnection* c, int, void* t) {
    (*static_cast<TheirTold*>(t))->look_at(c);
    return reconnect_ms;
  };
  nats_.natsOptions_SetCustomReconnectDelay(o.get(), before_next, theirs.get());
  // Without one the client prints errors. What a slow reader loses is counted as lost batches.
  const auto on_error = [](natsConnection*, natsSubscription*, natsStatus s, void* t) {
    if (s == NATS_NOT_PERMITTED) (*static_cast<TheirTold*>(t))->deny();
  };
  nats_.natsOptions_SetErrorHandler(o.get(), on_error, theirs.get());
  const natsStatus s = nats_.natsConnection_Connect(&connection_, o.get());
  if (s != NATS_OK && s != NATS_NOT_YET_CONNECTED) {
    const char* const said = nats_.nats_GetLastError(nullptr);
    const char* const why = said != nullptr && *said != '\0' ? said : nats_.natsStatus_GetText(s);
    if (wait_for_server) return absl::InvalidArgumentError(absl::StrCat("--cluster: ", why));
    return is_refusal(s) ? refusal(options, s, why) : error("no server answers", s);
  }
  (void)theirs.release();
  if (s == NATS_OK) told_->connected = true;
  if (natsStatus j = nats_.natsConnection_JetStream(&js_, connection_, nullptr); j != NATS_OK)
    return error("JetStream", j);
  return absl::OkStatus();
}

bool NatsLink::connected() const { return told_->connected && !told_->closed; }
bool NatsLink::closed_for_good() const { return told_->closed; }
bool NatsLink::refused() const { return told_->refused; }

std::vector<std::string> NatsLink::take_denied() {
  const std::lock_guard lock(told_->mutex);
  return std::exchange(told_->denied, {});
}

absl::Status NatsLink::listen(const std::string& subject, size_t prefix_chars, Bus::Handler handler) {
  const auto listener = std::make_shared<Listener>();
  listener->nats = &nats_;
  listener->prefix_chars = prefix_chars;
  listener->handler = std::move(handler);
  const auto on_message = [](natsConnection*, natsSubscription*, natsMsg* message, void* theirs) {
    Listener& l = **static_cast<std::shared_ptr<Listener>*>(theirs);
    {
      const std::lock_guard lock(l.mutex);
      if (l.handler)
        l.handler(l.nats->natsMsg_GetSubject(message) + l.prefix_chars,
                  {reinterpret_cast<const uint8_t*>(l.nats->natsMsg_GetData(message)),
                   static_cast<size_t>(l.nats->natsMsg_GetDataLength(message))});
    }
    l.nats->natsMsg_Destroy(message);
  };
  auto theirs = std::make_unique<std::shared_ptr<Listener>>(listener);
  if (natsStatus s =
          nats_.natsConnection_Subscribe(&listener->of, connection_, subject.c_str(), on_message, theirs.get());
      s != NATS_OK) {
    absl::Status why = error(subject, s);
    return s == NATS_CONNECTION_CLOSED ? absl::FailedPreconditionError(why.message()) : why;
  }
  listeners_.push_back(listener);
  nats_.natsSubscription_SetPendingLimits(listener->of, pending_messages_max, pending_bytes_max);
  // If that is refused, the client may still call: better to lose a few bytes than to let it.
  const auto on_end = [](void* l) { delete static_cast<std::shared_ptr<Listener>*>(l); };
  natsStatus s = nats_.natsSubscription_SetOnCompleteCB(listener->of, on_end, theirs.release());
  return s == NATS_OK ? absl::OkStatus() : error(subject, s);
}

void NatsLink::close() {
  if (connection_ != nullptr) nats_.natsConnection_Close(connection_);
  for (const auto& l : listeners_) {
    const std::lock_guard lock(l->mutex);
    l->handler = nullptr;
  }
}

absl::Status NatsLink::error(const std::string& what, natsStatus s) const {
  const char* const why = nats_.nats_GetLastError(nullptr);
  return absl::UnavailableError(
      absl::StrCat("NATS: ", what, ": ", why != nullptr && *why != '\0' ? why : nats_.natsStatus_GetText(s)));
}

}  // namespace ccld::decision::cluster
