#include "decision/cluster/nats_bus.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "decision/cluster/nats_library.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::cluster {
namespace {

// JetStream answers within milliseconds. Who leads must not wait so long for an answer that its lease ends meanwhile.
constexpr int64_t answer_ms = 1000;
constexpr int64_t connect_ms = 1000, reconnect_ms = 200;
// A server that was stopped is left after two of them.
constexpr int64_t ping_ms = 1000;
constexpr int pings_out_max = 2;
// What others sent and nobody took yet: a second of a job of 16,384 ranks. More of it is lost, and counted as lost
// batches.
constexpr int pending_messages_max = 1 << 18, pending_bytes_max = 256 << 20;

template <class T>
class Owned {
 public:
  explicit Owned(void (*destroy)(T*)) : destroy_(destroy) {}
  ~Owned() {
    if (value_ != nullptr) destroy_(value_);
  }
  Owned(const Owned&) = delete;
  T** out() { return &value_; }
  T* get() const { return value_; }
  T* operator->() const { return value_; }

 private:
  T* value_ = nullptr;
  void (*destroy_)(T*);
};

class NatsBus final : public Bus {
 public:
  NatsBus(const NatsLibrary& nats, NatsOptions options) : nats_(nats), options_(std::move(options)) {}
  ~NatsBus() override {
    if (connection_ == nullptr) return;
    nats_.natsConnection_Close(connection_);  // no handler runs after that
    for (const auto& s : subscriptions_) nats_.natsSubscription_Destroy(s->of);
    if (js_ != nullptr) nats_.jsCtx_Destroy(js_);
    nats_.natsConnection_Destroy(connection_);
  }

  absl::Status connect() {
    Owned<natsOptions> o(nats_.natsOptions_Destroy);
    if (natsStatus s = nats_.natsOptions_Create(o.out()); s != NATS_OK) return error("options", s);
    std::vector<const char*> servers;
    for (const std::string& server : options_.servers) servers.push_back(server.c_str());
    const auto set = [](const char* option, natsStatus s) {
      return s == NATS_OK ? absl::OkStatus()
                          : absl::InvalidArgumentError(absl::StrCat(option, ": NATS' client does not take it"));
    };
    const absl::Status all[] = {
        set("--cluster", nats_.natsOptions_SetServers(o.get(), servers.data(), static_cast<int>(servers.size()))),
        set("--cluster-node", nats_.natsOptions_SetName(o.get(), options_.node.c_str())),
        options_.ca_file.empty()
            ? absl::OkStatus()
            : set("--cluster-ca-file", nats_.natsOptions_LoadCATrustedCertificates(o.get(), options_.ca_file.c_str())),
        options_.certificate_file.empty()
            ? absl::OkStatus()
            : set("--cluster-certificate-file",
                  nats_.natsOptions_LoadCertificatesChain(o.get(), options_.certificate_file.c_str(),
                                                          options_.key_file.c_str())),
        options_.credentials_file.empty()
            ? absl::OkStatus()
            : set("--cluster-credentials-file",
                  nats_.natsOptions_SetUserCredentialsFromFiles(o.get(), options_.credentials_file.c_str(), nullptr))};
    for (const absl::Status& s : all)
      if (!s.ok()) return s;
    // To NATS' client tls:// is the same as nats://: it would speak in the clear to a server that takes it.
    const bool any_tls = std::any_of(options_.servers.begin(), options_.servers.end(),
                                     [](const std::string& server) { return absl::StartsWith(server, "tls://"); });
    if (any_tls || !options_.ca_file.empty() || !options_.certificate_file.empty())
      nats_.natsOptions_SetSecure(o.get(), true);
    nats_.natsOptions_SetNoEcho(o.get(), true);
    nats_.natsOptions_SetTimeout(o.get(), connect_ms);
    nats_.natsOptions_SetWriteDeadline(o.get(), connect_ms);
    nats_.natsOptions_SetMaxReconnect(o.get(), -1);
    nats_.natsOptions_SetReconnectWait(o.get(), reconnect_ms);
    nats_.natsOptions_SetPingInterval(o.get(), ping_ms);
    nats_.natsOptions_SetMaxPingsOut(o.get(), pings_out_max);
    const auto now_connected = [](natsConnection*, void* bus) { static_cast<NatsBus*>(bus)->connected_ = true; };
    const auto now_lost = [](natsConnection*, void* bus) { static_cast<NatsBus*>(bus)->connected_ = false; };
    nats_.natsOptions_SetRetryOnFailedConnect(o.get(), true, now_connected, this);
    nats_.natsOptions_SetReconnectedCB(o.get(), now_connected, this);
    nats_.natsOptions_SetDisconnectedCB(o.get(), now_lost, this);
    nats_.natsOptions_SetErrorHandler(
        o.get(), [](natsConnection*, natsSubscription*, natsStatus, void*) {}, nullptr);
    const natsStatus s = nats_.natsConnection_Connect(&connection_, o.get());
    if (s != NATS_OK && s != NATS_NOT_YET_CONNECTED) {
      const char* const why = nats_.nats_GetLastError(nullptr);
      return absl::InvalidArgumentError(
          absl::StrCat("--cluster: ", why != nullptr ? why : nats_.natsStatus_GetText(s)));
    }
    if (s == NATS_OK) connected_ = true;
    if (natsStatus j = nats_.natsConnection_JetStream(&js_, connection_, nullptr); j != NATS_OK)
      return error("JetStream", j);
    return absl::OkStatus();
  }

  // Not asked of the client: that locks itself for a second at a time while it tries to connect to who does not answer,
  // and the analysis must not wait.
  bool connected() const override { return connected_; }

  absl::Status send(const std::string& subject, absl::Span<const uint8_t> bytes) override {
    if (!connected()) return absl::UnavailableError("no NATS server is reached");
    const natsStatus s =
        nats_.natsConnection_Publish(connection_, full(subject).c_str(), bytes.data(), static_cast<int>(bytes.size()));
    return s == NATS_OK ? absl::OkStatus() : error("a message", s);
  }

  absl::Status listen(const std::string& subject, Handler handler) override {
    auto listener = std::make_unique<Listener>();
    listener->nats = &nats_;
    listener->prefix_chars = full("").size();
    listener->handler = std::move(handler);
    const auto on_message = [](natsConnection*, natsSubscription*, natsMsg* message, void* closure) {
      const auto* const l = static_cast<const Listener*>(closure);
      const char* const name = l->nats->natsMsg_GetSubject(message);
      l->handler(name + l->prefix_chars, {reinterpret_cast<const uint8_t*>(l->nats->natsMsg_GetData(message)),
                                          static_cast<size_t>(l->nats->natsMsg_GetDataLength(message))});
      l->nats->natsMsg_Destroy(message);
    };
    const natsStatus s =
        nats_.natsConnection_Subscribe(&listener->of, connection_, full(subject).c_str(), on_message, listener.get());
    if (s != NATS_OK) return error(subject, s);
    nats_.natsSubscription_SetPendingLimits(listener->of, pending_messages_max, pending_bytes_max);
    subscriptions_.push_back(std::move(listener));
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Lease>> lease() override {
    if (absl::Status s = make_streams(); !s.ok()) return s;
    Owned<natsMsg> message(nats_.natsMsg_Destroy);
    jsErrCode code{};
    jsOptions wait = patience();
    const natsStatus s =
        nats_.js_GetLastMsg(message.out(), js_, stream("lease").c_str(), full("lease").c_str(), &wait, &code);
    if (code == JSStreamNotFoundErr) return lost_streams("the lease", s);
    if (s == NATS_NOT_FOUND || code == JSNoMessageFoundErr) return std::optional<Lease>();
    if (s != NATS_OK) return error("the lease", s);
    return std::optional<Lease>({text_of(message.get()), nats_.natsMsg_GetSequence(message.get())});
  }

  absl::StatusOr<uint64_t> take_lease(const std::string& holder) override {
    if (absl::Status s = make_streams(); !s.ok()) return s;
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
    if (!connected()) return absl::UnavailableError("no NATS server is reached");
    jsErrCode code{};
    jsOptions wait = patience();
    const natsStatus s = nats_.js_DeleteMsg(js_, stream("lease").c_str(), of, &wait, &code);
    return s == NATS_OK ? absl::OkStatus() : error("the lease", s);
  }

  absl::StatusOr<Range> log() override {
    if (absl::Status s = make_streams(); !s.ok()) return s;
    Owned<jsStreamInfo> info(nats_.jsStreamInfo_Destroy);
    jsErrCode code{};
    jsOptions wait = patience();
    const natsStatus s = nats_.js_GetStreamInfo(info.out(), js_, stream("log").c_str(), &wait, &code);
    if (code == JSStreamNotFoundErr) return lost_streams("the log", s);
    if (s != NATS_OK) return error("the log", s);
    return Range{std::max<uint64_t>(1, info->State.FirstSeq), info->State.LastSeq, info->Created};
  }

  absl::StatusOr<std::string> read(uint64_t number) override {
    if (!connected()) return absl::UnavailableError("no NATS server is reached");
    Owned<natsMsg> message(nats_.natsMsg_Destroy);
    jsErrCode code{};
    jsOptions wait = patience();
    const natsStatus s = nats_.js_GetMsg(message.out(), js_, stream("log").c_str(), number, &wait, &code);
    if (code == JSStreamNotFoundErr) return lost_streams("the log", s);
    if (s == NATS_NOT_FOUND || code == JSNoMessageFoundErr)
      return absl::NotFoundError(absl::StrCat("entry ", number, " of the log is gone"));
    if (s != NATS_OK) return error("the log", s);
    return text_of(message.get());
  }

  absl::StatusOr<uint64_t> append(const std::string& entry, uint64_t after) override {
    if (absl::Status s = make_streams(); !s.ok()) return s;
    jsPubOptions o = put_options();
    if (after == 0)
      o.ExpectNoMessage = true;
    else
      o.ExpectLastSeq = after;
    return put("log", entry, o);
  }

 private:
  struct Listener {
    const NatsLibrary* nats = nullptr;
    size_t prefix_chars = 0;
    Handler handler;
    natsSubscription* of = nullptr;
  };

  std::string full(const std::string& subject) const { return absl::StrCat("ccld.", options_.cluster, ".", subject); }
  std::string stream(const char* name) const { return absl::StrCat("ccld-", options_.cluster, "-", name); }
  std::string text_of(natsMsg* message) const {
    return {nats_.natsMsg_GetData(message), static_cast<size_t>(nats_.natsMsg_GetDataLength(message))};
  }

  absl::Status error(const std::string& what, natsStatus s) const {
    const char* why = nats_.nats_GetLastError(nullptr);
    // Closed for good: what closed it, not what found it closed.
    const char* closed_by = nullptr;
    if (s == NATS_CONNECTION_CLOSED && connection_ != nullptr &&
        nats_.natsConnection_GetLastError(connection_, &closed_by) != NATS_OK && closed_by != nullptr &&
        *closed_by != '\0')
      why = closed_by;
    return absl::UnavailableError(
        absl::StrCat("NATS: ", what, ": ", why != nullptr && *why != '\0' ? why : nats_.natsStatus_GetText(s)));
  }

  jsOptions patience() const {
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

  // The client would keep it, and send it when somebody else may have been first.
  absl::StatusOr<uint64_t> put(const char* where, const std::string& text, jsPubOptions& options) {
    if (!connected()) return absl::UnavailableError("no NATS server is reached");
    Owned<jsPubAck> ack(nats_.jsPubAck_Destroy);
    jsErrCode code{};
    const natsStatus s = nats_.js_Publish(ack.out(), js_, full(where).c_str(), text.data(),
                                          static_cast<int>(text.size()), &options, &code);
    if (s == NATS_OK) return ack->Sequence;
    if (code == JSStreamWrongLastSequenceErr)
      return absl::AbortedError(absl::StrCat("NATS: ", where, ": somebody else was first"));
    if (s == NATS_NO_RESPONDERS || code == JSStreamNotFoundErr) return lost_streams(where, s);
    return error(where, s);
  }

  // They are made again at the next attempt, if the servers have lost them.
  absl::Status lost_streams(const std::string& what, natsStatus s) {
    const std::lock_guard lock(mutex_);
    streams_made_ = false;
    return error(what, s);
  }

  absl::Status make_streams() {
    const std::lock_guard lock(mutex_);
    if (streams_made_) return absl::OkStatus();
    if (!connected()) return absl::UnavailableError("no NATS server is reached");
    if (absl::Status s = make("lease", js_MemoryStorage, options_.lease_lasts_ns, 0, 1); !s.ok()) return s;
    if (absl::Status s = make("log", js_FileStorage, options_.log_age_max_ns, options_.log_bytes_max, 0); !s.ok())
      return s;
    streams_made_ = true;
    return absl::OkStatus();
  }

  absl::Status make(const char* name, jsStorageType storage, int64_t age_max_ns, int64_t bytes_max,
                    int64_t messages_max) {
    jsErrCode code{};
    jsOptions wait = patience();
    const std::string stream_name = stream(name), subject = full(name);
    Owned<jsStreamInfo> there(nats_.jsStreamInfo_Destroy), made(nats_.jsStreamInfo_Destroy);
    if (nats_.js_GetStreamInfo(there.out(), js_, stream_name.c_str(), &wait, &code) == NATS_OK) return absl::OkStatus();
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
    const natsStatus s = nats_.js_AddStream(made.out(), js_, &config, &wait, &code);
    // Two nodes that begin at the same time ask for the same one.
    if (s == NATS_OK || code == JSStreamNameExistErr) return absl::OkStatus();
    return error(absl::StrCat("the stream ", stream_name, " cannot be made"), s);
  }

  const NatsLibrary& nats_;
  const NatsOptions options_;
  natsConnection* connection_ = nullptr;
  jsCtx* js_ = nullptr;
  std::atomic<bool> connected_ = false;
  std::vector<std::unique_ptr<Listener>> subscriptions_;
  std::mutex mutex_;
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
  const auto nats = load_nats();
  if (!nats.ok()) return nats.status();
  auto bus = std::make_unique<NatsBus>(**nats, options);
  if (absl::Status s = bus->connect(); !s.ok()) return s;
  return bus;
}

}  // namespace ccld::decision::cluster
