// Keys, lists and tokens as an operator makes them, with `ccld keys` and `ccld tokens`, and a sender that has a key.
#pragma once

#include "test/integration/serve/service.h"

namespace ccld::test {

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// What a command prints; it must succeed.
inline std::string said(const std::vector<std::string>& command) {
  const Finished finished = run(command);
  INFO(finished.error);
  REQUIRE(finished.status == 0);
  return first_line(finished.output);
}

// A pair: the secret key in a file, the public one as text.
struct Key {
  Key(const Folder& folder, const std::string& name)
      : file(folder.file(name)), open(said({ccld, "keys", "make", file})) {}
  std::string secret() const {
    const std::string text = content(file), word = "\nsecret ";
    return first_line(text.substr(text.find(word) + word.size()));
  }
  const std::string file, open;
};

// A service that lets in the keys of its list.
struct KeyedService {
  explicit KeyedService(std::vector<std::string> more = {}) : key(folder, "service.key"), list(folder.file("allowed")) {
    std::ofstream(list) << "# probes\n";
    std::vector<std::string> flags = {"--telemetry-secret-file", key.file, "--telemetry-allow-file", list};
    flags.insert(flags.end(), more.begin(), more.end());
    service = std::make_unique<Service>(flags);
  }
  void add(const Key& probe, const std::vector<std::string>& bindings = {}) {
    std::vector<std::string> command = {ccld, "keys", "add", probe.open, "--list", list};
    command.insert(command.end(), bindings.begin(), bindings.end());
    said(command);
  }
  // Waits until the service has read its list again.
  void has_keys(size_t count) const {
    service->status_when([count](const Json& s) { return s["access"]["keys"] == count; });
  }
  Json status_when(const std::function<bool(const Json&)>& wished) const { return service->status_when(wished); }

  Folder folder;
  Key key;
  std::string list;
  std::unique_ptr<Service> service;
};

class KeyedSender {
 public:
  KeyedSender(const std::string& endpoint, const std::string& service_key, const Key& own)
      : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::curve_serverkey, service_key);
    socket_.set(zmq::sockopt::curve_publickey, own.open);
    socket_.set(zmq::sockopt::curve_secretkey, own.secret());
    socket_.connect(endpoint);
  }
  void send(const WireProcess& process, const std::string& comm_host = "node-a", uint64_t comm_uid = 0xabc) {
    WireBatch b;
    add_comm_up(b, {.comm_uid = comm_uid, .host = comm_host});
    send_bytes(b.finish(process));
  }
  void send_bytes(const Bytes& bytes) { REQUIRE(socket_.send(zmq::buffer(bytes), zmq::send_flags::none).has_value()); }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

}  // namespace ccld::test
