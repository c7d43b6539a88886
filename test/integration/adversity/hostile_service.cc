#include "test/integration/adversity/hostile_service.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "schemas/abi/process.h"
#include "schemas/wire/control_generated.h"

namespace ccld::adversity {
namespace {

using Bytes = std::vector<uint8_t>;

// A request that could be one, with values nobody asks for, then damaged at some places.
Bytes message(std::mt19937& random) {
  Bytes bytes;
  if (random() % 4 == 0) {
    bytes.resize(random() % 5000);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<uint8_t>(random()); });
    return bytes;
  }
  flatbuffers::FlatBufferBuilder fbb;
  const auto endpoint = fbb.CreateString(std::string(random() % 300, 'x'));
  // Never `running` or an endpoint, which a probe would follow: that is what roles and keys are for.
  const uint32_t fields = random() & ~(abi::control_running | abi::control_endpoint);
  wire::FinishControlRequestBuffer(
      fbb, wire::CreateControlRequest(fbb, random(), fields, true, random(), random(), random(), endpoint));
  bytes.assign(fbb.GetBufferPointer(), fbb.GetBufferPointer() + fbb.GetSize());
  for (auto n = random() % 4; n > 0 && !bytes.empty(); --n)
    bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
  return bytes;
}

}  // namespace

HostileService::HostileService() {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvtimeo, 1);
  socket_.set(zmq::sockopt::sndhwm, 10'000);
  socket_.bind("tcp://127.0.0.1:*");
  endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
  thread_ = std::thread([this] { run(); });
}

HostileService::~HostileService() {
  end_ = true;
  thread_.join();
}

void HostileService::run() {
  std::mt19937 random(1);
  std::set<std::string> clients;
  while (!end_) {
    zmq::message_t part;
    if (socket_.recv(part)) {
      clients.insert(part.to_string());
      while (part.more() && socket_.recv(part)) {
      }
    }
    for (const std::string& client : clients)
      for (int i = 0; i < 20; ++i) {
        const Bytes bytes = message(random);
        if (!socket_.send(zmq::buffer(client), zmq::send_flags::sndmore | zmq::send_flags::dontwait)) continue;
        if (socket_.send(zmq::buffer(bytes), zmq::send_flags::dontwait)) ++sent_;
      }
  }
}

}  // namespace ccld::adversity
