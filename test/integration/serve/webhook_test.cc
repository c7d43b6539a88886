// The webhook as its receiver meets it: signed messages, failures, a kill of the service, a receiver that hangs.
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <map>
#include <set>

#include "test/integration/serve/receiver.h"
#include "test/integration/serve/service.h"
#include "test/support/net/listener.h"

namespace ccld::test {
namespace {

constexpr char secret[] = "sesame";

std::string hmac(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  HMAC(EVP_sha256(), secret, sizeof(secret) - 1, reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &length);
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof(hex), "%02x", digest[i]);
    out += hex;
  }
  return out;
}

std::vector<std::string> flags(const Folder& folder, const std::string& url) {
  std::ofstream(folder.file("secret")) << secret << '\n';
  return {"--state",   folder.file("state"), "--verdicts", folder.file("v.jsonl"), "--set", "mismatch_settle_s=0",
          "--set",     "advise_restart_cost_s=42",
          "--webhook", url,                  "--webhook-secret-file", folder.file("secret")};
}

std::string id_of(const httplib::Request& m) { return m.get_header_value("X-Ccld-Delivery"); }

}  // namespace

TEST_CASE("Each revision is posted signed and in order, and what the receiver missed comes after a kill with its number") {
  const Folder folder;
  Receiver receiver;
  std::string missed;
  {
    Service service(flags(folder, receiver.url()));
    Sender sender(service.telemetry);
    send_ranks(sender, {1024, 2048}, 0xa1);
    const auto first = receiver.taken([](const auto&, const Json& body) { return body["incident"]["revision"] == 1; });
    Json body = Json::parse(first.body);
    CHECK(body["incident"]["mitigation"]["strategies"].size() == 4);
    CHECK(body["incident"]["mitigation"]["settings"]["advise_restart_cost_s"] == "42");
    body["incident"].erase("mitigation");  // what to do is no part of the record
    CHECK(body["event"] == "incident.revised");
    CHECK(first.get_header_value("X-Ccld-Event") == "incident.revised");
    CHECK(body["delivery"] == id_of(first));
    CHECK(body["run"] == body["incident"]["run"]);
    const Json kept = service.get("/v1/incidents/1?revisions=1")["revisions"][0];
    CHECK(body["incident"].size() == kept.size());
    CHECK(body["incident"]["culprits"] == kept["culprits"]);
    const std::string signature = first.get_header_value("X-Ccld-Signature");
    REQUIRE(signature.rfind("t=", 0) == 0);
    const std::string time = signature.substr(2, signature.find(',') - 2);
    CHECK(signature == "t=" + time + ",v1=" + hmac(time + "." + first.body));

    CHECK(service.ask({"ack", "1", "--by", "alice"}).status == 0);
    const auto ack = receiver.taken([](const auto&, const Json& b) { return b["event"] == "incident.acknowledged"; });
    CHECK(Json::parse(ack.body)["incident"]["acknowledged"]["by"] == "alice");
    service.status_when([](const Json& s) { return s["webhook"]["delivered"] >= 2; });
    CHECK(contains(service.get_text("/metrics"), R"(ccld_webhook_deliveries_total{result="delivered"} )"));

    receiver.answer(503);
    send_ranks(sender, {1024, 2048}, 0xb2, 2);
    missed = id_of(receiver.refused([](const auto&, const Json& b) { return b["incident"]["incident"] == 2; }));
    service.child.signal(SIGKILL);
    service.child.wait();
  }
  receiver.answer(200);
  const Service service(flags(folder, receiver.url()));
  const auto late = receiver.taken([&](const auto& m, const Json&) { return id_of(m) == missed; });
  CHECK(Json::parse(late.body)["run"] != Json::parse(late.body)["incident"]["run"]);
  std::map<uint64_t, uint64_t> newest;
  std::set<std::string> seen;  // what comes again after a kill is older
  for (const auto& m : receiver.all_taken()) {
    if (!seen.insert(id_of(m)).second) continue;
    const Json incident = Json::parse(m.body)["incident"];
    CHECK(incident["revision"] >= newest[incident["incident"]]);
    newest[incident["incident"]] = incident["revision"];
  }
}

TEST_CASE("A receiver that hangs delays neither incidents nor answers nor the end of the service") {
  const Folder folder;
  const Listener listener;
  Service service(flags(folder, "http://127.0.0.1:" + std::to_string(listener.port())));
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 2048}, 0xa1);
  const int client = listener.take();  // its message is never answered
  REQUIRE(client >= 0);
  send_ranks(sender, {1024, 2048}, 0xb2, 2);
  service.status_when([](const Json& s) { return s["incidents_open"] == 2 && s["webhook"]["queue_length"] >= 2; });
  service.child.signal(SIGTERM);
  CHECK(service.child.wait() == 0);
  close(client);
}

TEST_CASE("Wrong options of the webhook are one line that names the option") {
  const Folder folder;
  const auto refused = [&](std::vector<std::string> words, int status, const std::string& part) {
    std::vector<std::string> command = {ccld, "serve", "--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0", "--no-history", "--log-level", "off"};
    command.insert(command.end(), words.begin(), words.end());
    require_refused(command, status, part);
  };
  const std::string url = "http://127.0.0.1:1/";
  refused({"--webhook", "nonsense"}, 2, "--webhook: this is not a URL");
  refused({"--webhook", "ftp://127.0.0.1/"}, 2, "--webhook: scheme 'ftp'");
  refused({"--webhook", "https://user:word@127.0.0.1/"}, 2, "--webhook: the URL has a user or a password");
  refused({"--webhook", url, "--webhook-min-state", "sure"}, 2, "--webhook-min-state: 'sure' is not known");
  refused({"--webhook", url, "--webhook-secret-file", folder.file("none")}, 1, "--webhook-secret-file: cannot read");
  refused({"--webhook", url, "--webhook-ca-file", folder.file("none")}, 1, "--webhook-ca-file: cannot read");
  std::ofstream(folder.file("empty")) << "\n";
  refused({"--webhook", url, "--webhook-secret-file", folder.file("empty")}, 2, "is empty");
  refused({"--webhook-secret-file", folder.file("empty")}, 2, "--webhook-secret-file needs --webhook");
}

}  // namespace ccld::test
