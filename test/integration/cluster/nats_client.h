// A client of NATS that is no node: another tenant of the same servers, or an operator.
#pragma once

#include <nats/nats.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "test/support/catch/catch.h"
#include "test/support/files/folder.h"

namespace ccld::test {

class NatsClient {
 public:
  NatsClient(const std::string& url, const std::string& credentials) {
    const std::string file = folder_.file("credentials");
    std::ofstream(file) << credentials;
    natsOptions* options = nullptr;
    REQUIRE(natsOptions_Create(&options) == NATS_OK);
    REQUIRE(natsOptions_SetURL(options, url.c_str()) == NATS_OK);
    REQUIRE(natsOptions_SetUserCredentialsFromFiles(options, file.c_str(), nullptr) == NATS_OK);
    // What a server denies it says later; the client's own handler would print it.
    natsOptions_SetErrorHandler(
        options, [](natsConnection*, natsSubscription*, natsStatus, void*) {}, nullptr);
    // The client leaves out a signature whose first byte is 0, which one in 256 is.
    natsStatus s = NATS_CONNECTION_AUTH_FAILED;
    for (int tries = 0; s == NATS_CONNECTION_AUTH_FAILED && tries < 4; ++tries)
      s = natsConnection_Connect(&connection_, options);
    natsOptions_Destroy(options);
    if (s != NATS_OK) FAIL("no connection to " << url << ": " << nats_GetLastError(nullptr));
  }
  ~NatsClient() {
    natsSubscription_Destroy(subscription_);
    natsConnection_Destroy(connection_);
  }
  NatsClient(const NatsClient&) = delete;

  void listen(const std::string& subject) {
    REQUIRE(natsConnection_SubscribeSync(&subscription_, connection_, subject.c_str()) == NATS_OK);
    flush();
  }
  // What has come since listen(), how often, by subject.
  const std::map<std::string, int>& heard() {
    flush();
    for (natsMsg* message = nullptr; natsSubscription_NextMsg(&message, subscription_, 10) == NATS_OK;
         natsMsg_Destroy(message))
      ++heard_[natsMsg_GetSubject(message)];
    return heard_;
  }
  // The server has it when this returns.
  void say(const std::string& subject, const std::string& text) {
    REQUIRE(natsConnection_Publish(connection_, subject.c_str(), text.data(), static_cast<int>(text.size())) ==
            NATS_OK);
    flush();
  }
  // The answer, if there is one. On a busy machine it may take long.
  std::optional<std::string> ask(const std::string& subject, const std::string& text = "", int64_t wait_ms = 30'000) {
    natsMsg* answer = nullptr;
    if (natsConnection_RequestString(&answer, connection_, subject.c_str(), text.c_str(), wait_ms) != NATS_OK)
      return std::nullopt;
    std::string all(natsMsg_GetData(answer), static_cast<size_t>(natsMsg_GetDataLength(answer)));
    natsMsg_Destroy(answer);
    return all;
  }

 private:
  void flush() { REQUIRE(natsConnection_FlushTimeout(connection_, 60'000) == NATS_OK); }

  const Folder folder_;
  natsConnection* connection_ = nullptr;
  natsSubscription* subscription_ = nullptr;
  std::map<std::string, int> heard_;
};

}  // namespace ccld::test
