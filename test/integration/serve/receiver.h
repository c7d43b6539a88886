// A receiver of the webhook that takes messages or refuses them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
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
      (status_ == 200 ? taken_ : refused_).push_back(request);
      changed_.notify_all();
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
  // The first message that was answered 200, or was not, and is as wished.
  using Wished = std::function<bool(const httplib::Request&, const Json& body)>;
  httplib::Request taken(const Wished& wished) { return wait_for(taken_, wished); }
  httplib::Request refused(const Wished& wished) { return wait_for(refused_, wished); }
  std::vector<httplib::Request> all_taken() {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  std::vector<httplib::Request> all_refused() {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

 private:
  httplib::Request wait_for(const std::vector<httplib::Request>& messages, const Wished& wished) {
    std::unique_lock lock(mutex_);
    httplib::Request found;
    const bool came = changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      for (const auto& m : messages)
        if (wished(m, Json::parse(m.body))) return found = m, true;
      return false;
    });
    REQUIRE(came);
    return found;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<httplib::Request> taken_, refused_;
  int status_ = 200, port_ = 0;
  httplib::Server server_;
  std::thread thread_;
};

}  // namespace ccld::test
