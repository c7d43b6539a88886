#include "decision/ingest/door.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "decision/ingest/limits.h"
#include "schemas/keys/curve_key.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::ingest {
namespace {

// Where libzmq asks; it knows no other place (RFC 27). Each telemetry socket has a context of its own.
constexpr char questions_endpoint[] = "inproc://zeromq.zap.01";
constexpr char events_endpoint[] = "inproc://door-events";
constexpr char end_endpoint[] = "inproc://door-end";
constexpr int watched_events = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
// Not ours to choose: version, request id, domain, address, identity, mechanism, and of CURVE the key.
constexpr size_t request_parts = 7;

std::vector<zmq::message_t> receive_all(zmq::socket_t& socket) {
  std::vector<zmq::message_t> parts;
  do {
    zmq::message_t part;
    if (!socket.recv(part, zmq::recv_flags::dontwait)) break;
    parts.push_back(std::move(part));
  } while (parts.back().more());
  return parts;
}

std::string z85(const zmq::message_t& key) {
  char text[keys::key_chars + 1] = "";
  if (key.size() != keys::key_chars / 5 * 4 || zmq_z85_encode(text, key.data<uint8_t>(), key.size()) == nullptr)
    return "";
  return text;
}

}  // namespace

const char* name(DoorReason reason) {
  switch (reason) {
    case DoorReason::key: return "key";
    case DoorReason::no_key: return "no_key";
    case DoorReason::service_key: return "service_key";
    case DoorReason::handshake: return "handshake";
  }
  return "unknown";
}

Door::Door(zmq::context_t& context, zmq::socket_t& socket, const DoorOptions& options)
    : keys_(options.keys),
      now_ns_(options.now_ns),
      watched_(socket.handle()),
      questions_(context, zmq::socket_type::rep),
      events_(context, zmq::socket_type::pair),
      end_(context, zmq::socket_type::pair),
      told_to_end_(context, zmq::socket_type::pair),
      errors_(distinct_errors_max) {
  for (zmq::socket_t* each : {&questions_, &events_, &end_, &told_to_end_}) each->set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, *options.secret->newest());
  questions_.bind(questions_endpoint);
  if (zmq_socket_monitor(watched_, events_endpoint, watched_events) != 0) throw zmq::error_t();
  events_.connect(events_endpoint);
  told_to_end_.bind(end_endpoint);
  end_.connect(end_endpoint);
  thread_ = std::thread([this] { run(); });
}

Door::~Door() {
  try {
    end_.send(zmq::str_buffer("end"), zmq::send_flags::none);
    thread_.join();
    zmq_socket_monitor(watched_, nullptr, 0);
  } catch (const zmq::error_t&) {
    thread_.detach();  // the context has ended before us: so has the thread
  }
}

DoorCounters Door::counters() const {
  const std::lock_guard lock(mutex_);
  DoorCounters counters = counters_;
  counters.keys = keys_->newest()->entries().size();
  return counters;
}

std::vector<DistinctError> Door::errors() const {
  const std::lock_guard lock(mutex_);
  return errors_.all();
}

void Door::run() {
  zmq::pollitem_t items[] = {{questions_.handle(), 0, ZMQ_POLLIN, 0},
                             {events_.handle(), 0, ZMQ_POLLIN, 0},
                             {told_to_end_.handle(), 0, ZMQ_POLLIN, 0}};
  for (;;) {
    try {
      zmq::poll(items, std::size(items), std::chrono::milliseconds(-1));
      if ((items[2].revents & ZMQ_POLLIN) != 0) return;
      if ((items[0].revents & ZMQ_POLLIN) != 0) answer_question();
      if ((items[1].revents & ZMQ_POLLIN) != 0) read_event();
    } catch (const zmq::error_t& e) {
      if (e.num() == ETERM) return;
      if (e.num() != EINTR) spdlog::error("telemetry keys: {}", e.what());
    }
  }
}

// Every question gets its answer, else the client would wait until it gives up, and REP takes no other one.
void Door::answer_question() {
  const std::vector<zmq::message_t> request = receive_all(questions_);
  if (request.size() < 2) return;
  const bool curve = request.size() == request_parts && request[5].to_string_view() == "CURVE";
  const std::string key = curve ? z85(request[6]) : "";
  const std::string address = request.size() > 3 ? request[3].to_string() : "";
  const bool admitted = !key.empty() && keys_->newest()->find(key) != nullptr;
  const std::string parts[] = {"1.0",
                               request[1].to_string(),
                               admitted ? "200" : "400",
                               admitted ? "" : "the key is not in the list",
                               admitted ? key : "",
                               ""};
  for (size_t i = 0; i < std::size(parts); ++i)
    questions_.send(zmq::buffer(parts[i]), i + 1 < std::size(parts) ? zmq::send_flags::sndmore : zmq::send_flags::none);
  if (!admitted)
    return refuse(DoorReason::key, key,
                  absl::StrCat("a client at ", address, " has the key ", key, ", which is not in the list"));
  const std::lock_guard lock(mutex_);
  ++counters_.admitted;
}

void Door::read_event() {
  const std::vector<zmq::message_t> event = receive_all(events_);
  uint16_t number = 0;
  uint32_t value = 0;
  if (event.empty() || event[0].size() < sizeof(number) + sizeof(value)) return;
  std::memcpy(&number, event[0].data(), sizeof(number));
  std::memcpy(&value, event[0].data<char>() + sizeof(number), sizeof(value));
  const bool protocol = number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
  if (protocol && value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
    refuse(DoorReason::no_key, "",
           "a client uses no keys: NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE are not set there");
  else if (protocol && value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
    refuse(DoorReason::service_key, "",
           "a client was told another key than this service's: NCCL_PROBE_SERVER_KEY is wrong there");
  else
    refuse(DoorReason::handshake, "",
           "a client broke off the handshake: one without keys, a scanner, or another protocol");
}

void Door::refuse(DoorReason reason, const std::string& key, const std::string& text) {
  const std::lock_guard lock(mutex_);
  ++counters_.refused[static_cast<size_t>(reason)];
  if (errors_.record(absl::StrCat("door ", name(reason), " ", key),
                     absl::StrCat("connection refused (", name(reason), "): ", text), now_ns_()))
    spdlog::warn("telemetry connection refused ({}): {}; more of this kind are only counted", name(reason), text);
}

}  // namespace ccld::decision::ingest
