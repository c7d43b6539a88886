// A receiver of the webhook that takes messages or refuses them.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "test/integration/serve/service.h"

namespace ccld::test {

class Receiver {
 public:
  Receiver() {
    server_.Post("/hook", [this](const httplib::Request& request, httplib::Response& response) {
      const std::lock_guard lock(mutex_);
      response.status = status_;
      (status_ == 200 ? taken_ : refused_).push_back(Json::parse(request.body));
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~Receiver() {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/hook"; }
  void answer(int status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  std::vector<Json> taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  std::vector<Json> refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Json> taken_, refused_;
  int status_ = 200, port_ = 0;
  httplib::Server server_;
  std::thread thread_;
};

}  // namespace ccld::test
