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

  // `more`: as start().
  explicit NatsServers(int count = 1, std::string address = "127.0.0.1", const std::string& more = "")
      : address_(std::move(address)) {
    for (int i = 0; i < count; ++i)
      ports_.push_back(free_port()), route_ports_.push_back(free_port()), monitor_ports_.push_back(free_port());
    servers_.resize(ports_.size());
    for (size_t i = 0; i < ports_.size(); ++i) start(i, more);
  }

  // `more`: lines of its configuration.
  void start(size_t i, const std::string& more = "") {
    std::string routes;
    for (int port : route_ports_) routes += (routes.empty() ? "" : ", ") + route(port);
    const std::string config = folder_.file(name(i) + ".conf");
    // Its log is a file: nobody reads a pipe while a test runs.
    std::ofstream(config) << "server_name: " << name(i) << "\nlisten: \"" << address_ << ":" << ports_[i]
                          << "\"\nhttp: \"127.0.0.1:" << monitor_ports_[i] << "\"\nlog_file: \""
                          << folder_.file(name(i) + ".log") << "\"\njetstream { store_dir: \"" << folder_.file(name(i))
                          << "\", max_mem: 64M, max_file: 1G, domain: hub }\n"
                          << (ports_.size() > 1
                                  ? "cluster { name: test, listen: \"127.0.0.1:" + std::to_string(route_ports_[i]) +
                                        "\", routes: [" + routes + "] }\n"
                                  : "")
                          << more;
    servers_[i] = std::make_unique<ChildProcess>(std::vector<std::string>{program(), "-c", config});
    const auto deadline = Clock::now() + start_max;
    while (!answers(i, "/varz")) {
      if (Clock::now() > deadline) FAIL(name(i) << " did not start: " << content(folder_.file(name(i) + ".log")));
      usleep(10'000);
    }
  }
  void kill(size_t i) { servers_[i].reset(); }
  void signal(size_t i, int number) const { servers_[i]->signal(number); }
  // What it had on its disk is lost.
  void forget(size_t i) const { std::filesystem::remove_all(folder_.file(name(i))); }
  size_t count() const { return ports_.size(); }
  pid_t pid(size_t i) const { return servers_[i]->pid(); }

  // It has all that the others have.
  bool is_whole(size_t i) const { return answers(i, "/healthz"); }
  // So many messages its clients have sent, also those that it did not take.
  uint64_t messages_from_clients(size_t i) const {
    const auto answer = client(i).Get("/varz");
    return answer ? Json::parse(answer->body)["in_msgs"].get<uint64_t>() : 0;
  }
  // The server that leads this stream, as server `of` sees it; count(): none is known.
  size_t leader_of(const std::string& stream, size_t of) const {
    const auto answer = client(of).Get("/jsz?streams=true");
    const Json all = answer ? Json::parse(answer->body, nullptr, false) : Json();
    if (!all.is_object()) return count();
    for (const Json& account : all.value("account_details", Json::array())) {
      for (const Json& s : account.value("stream_detail", Json::array())) {
        if (s["name"] != stream) continue;
        for (size_t i = 0; i < count(); ++i)
          if (s.value("cluster", Json::object()).value("leader", "") == name(i)) return i;
      }
    }
    return count();
  }

  std::string urls() const { return urls_of(address_); }
  // By another name of the host.
  std::string urls_of(const std::string& host) const {
    std::string all;
    for (int port : ports_) all += (all.empty() ? "nats://" : ",nats://") + host + ":" + std::to_string(port);
    return all;
  }

 private:
  static std::string route(int port) { return "\"nats://127.0.0.1:" + std::to_string(port) + "\""; }
  static std::string name(size_t i) { return "n" + std::to_string(i); }
  httplib::Client client(size_t i) const {
    httplib::Client c("127.0.0.1", monitor_ports_[i]);
    c.set_connection_timeout(2);
    c.set_read_timeout(2);
    return c;
  }
  bool answers(size_t i, const char* path) const {
    const auto answer = client(i).Get(path);
    return answer && answer->status == 200;
  }

  const std::string address_;
  Folder folder_;
  std::vector<int> ports_, route_ports_, monitor_ports_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
};

}  // namespace ccld::test
