// NATS servers with JetStream on this host, for tests. Skipped where nats-server is not installed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "test/integration/serve/child_process.h"
#include "test/integration/serve/service.h"

namespace ccld::test {

class NatsServers {
 public:
  // Empty: it is not installed. Debian has it where only root's PATH looks.
  static std::string program() {
    const std::string path = run({"/bin/sh", "-c", "PATH=$PATH:/usr/sbin; command -v nats-server"}).output;
    return path.substr(0, path.find('\n'));
  }

  explicit NatsServers(int count = 1) {
    for (int i = 0; i < count; ++i) ports_.push_back(free_port()), route_ports_.push_back(free_port());
    servers_.resize(ports_.size());
    for (size_t i = 0; i < ports_.size(); ++i) start(i);
  }

  void start(size_t i) {
    std::string routes;
    for (int port : route_ports_) routes += "\"nats://127.0.0.1:" + std::to_string(port) + "\", ";
    const std::string name = "n" + std::to_string(i), config = folder_.file(name + ".conf");
    std::ofstream(config) << "server_name: " << name << "\nlisten: 127.0.0.1:" << ports_[i]
                          << "\njetstream { store_dir: \"" << folder_.file(name) << "\", max_mem: 64M, max_file: 1G }\n"
                          << (ports_.size() > 1
                                  ? "cluster { name: test, listen: \"127.0.0.1:" + std::to_string(route_ports_[i]) +
                                        "\", routes: [" + routes + "] }\n"
                                  : "");
    servers_[i] = std::make_unique<ChildProcess>(std::vector<std::string>{program(), "-c", config});
    REQUIRE(!servers_[i]->wait_for_error("Server is ready", start_max).empty());
  }
  void kill(size_t i) { servers_[i].reset(); }
  void signal(size_t i, int number) const { servers_[i]->signal(number); }
  size_t count() const { return ports_.size(); }

  std::string urls() const {
    std::string all;
    for (int port : ports_) all += (all.empty() ? "" : ",") + std::string("nats://127.0.0.1:") + std::to_string(port);
    return all;
  }

 private:
  Folder folder_;
  std::vector<int> ports_, route_ports_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
};

}  // namespace ccld::test
