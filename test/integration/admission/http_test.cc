// Tokens and https of the query API, asked with the commands that people use.
#include "test/integration/admission/keys.h"
#include "test/support/tls/certificate.h"

namespace ccld::test {
namespace {

struct Tokens {
  std::string add(const std::vector<std::string>& roles, const std::string& note = "") const {
    std::vector<std::string> command = {ccld, "tokens", "add", "--list", file, "--note", note};
    for (const std::string& role : roles) command.insert(command.end(), {"--role", role});
    return said(command);
  }
  Folder folder;
  std::string file = folder.file("tokens");
};

}  // namespace

TEST_CASE("With tokens the commands need one with the right role, and say what is missing") {
  Tokens tokens;
  const std::string read = tokens.add({"read"}, "prometheus"),
                    acknowledge = tokens.add({"read", "acknowledge"}, "oncall"), tune = tokens.add({"tune"});
  CHECK_FALSE(contains(content(tokens.file), read));
  Service service({"--http-tokens-file", tokens.file});
  const auto ask = [&service](const std::string& token, std::vector<std::string> words) {
    words.insert(words.begin(), ccld);
    words.insert(words.end(), {"--http", service.http});
    return run(words, token.empty() ? std::vector<std::string>{} : std::vector<std::string>{"CCLD_TOKEN=" + token});
  };
  CHECK(ask("", {"status", "--health"}).status == 0);
  const Finished nobody = ask("", {"status"});
  CHECK(nobody.status == 1);
  CHECK(contains(nobody.error, "this service demands a token"));
  CHECK(contains(ask("wrong", {"status"}).error, "this token is not known"));
  CHECK(ask(read, {"status"}).status == 0);
  CHECK(ask(read, {"incidents"}).status == 0);
  CHECK(ask(read, {"silence", "list"}).status == 0);
  CHECK(contains(ask(tune, {"status"}).error, "this token has the role tune, and read is needed"));

  CHECK(contains(ask(read, {"ack", "1"}).error, "and acknowledge is needed"));
  CHECK(contains(ask(acknowledge, {"ack", "1"}).error, "there is no incident 1"));
  CHECK(contains(ask(read, {"silence", "add", "--job", "a", "--for", "1h"}).error, "and acknowledge is needed"));
  CHECK(ask(acknowledge, {"silence", "add", "--job", "a", "--for", "1h"}).status == 0);
  CHECK(contains(ask(acknowledge, {"tune", "--job", "demo", "running=0"}).error, "and tune is needed"));
  CHECK(contains(ask(tune, {"tune", "--job", "demo", "running=0"}).error, "no probe of job 'demo'"));

  CHECK(contains(service.child.wait_for_error("POST /v1/silences from 127.0.0.1 with token "), " (oncall)"));

  std::ofstream(tokens.folder.file("mine")) << read << "\n";
  CHECK(run({ccld, "status", "--http", service.http, "--token-file", tokens.folder.file("mine")}).status == 0);
  CHECK(run({ccld, "status", "--http", service.http}, {"CCLD_TOKEN_FILE=" + tokens.folder.file("mine")}).status == 0);
  require_refused({ccld, "status", "--http", service.http, "--token-file", tokens.folder.file("none")}, 1,
                  "--token-file: cannot read");
  require_refused({ccld, "status", "--http", service.http, "--token-file", tokens.file}, 2,
                  "--token-file: it does not hold one token");

  const Finished doctor = run(
      {ccld, "doctor", "--http", service.http, "--endpoint", service.telemetry, "--dir", tokens.folder.path.string()});
  CHECK(doctor.status == 1);
  CHECK(contains(doctor.output, "this service demands a token"));
  CHECK(contains(doctor.output, "-> `ccld tokens add`"));
  CHECK(contains(ask(read, {"doctor", "--endpoint", service.telemetry, "--dir", tokens.folder.path.string()}).output,
                 "questions need a token, which crosses the network unencrypted"));
}

TEST_CASE("Tokens come and go without a restart, and a wrong line changes nothing") {
  Tokens tokens;
  const std::string one = tokens.add({"read"});
  Service service({"--http-tokens-file", tokens.file});
  const auto works_is = [&service](const std::string& token, bool works) {
    for (const auto deadline = Clock::now() + std::chrono::seconds(10); Clock::now() < deadline; usleep(20'000))
      if ((run({ccld, "status", "--http", service.http}, {"CCLD_TOKEN=" + token}).status == 0) == works) return true;
    return false;
  };
  const std::string two = tokens.add({"read"});
  CHECK(works_is(two, true));
  std::ofstream(tokens.file, std::ios::app) << "not a hash roles=read\n";
  CHECK(contains(service.child.wait_for_error("stays in force"), "--http-tokens-file: " + tokens.file + ":3: "));
  CHECK(works_is(one, true));
  std::ofstream(tokens.file, std::ios::trunc).close();
  CHECK(works_is(two, false));
}

TEST_CASE("By https the commands ask a service whose certificate they trust") {
  Tokens tokens;
  const std::string certificate = tokens.folder.file("cert.pem"), key = tokens.folder.file("cert.key");
  write_certificate(certificate, key);
  const std::string read = tokens.add({"read"});
  Service service({"--http-certificate-file", certificate, "--http-key-file", key, "--http-tokens-file", tokens.file});
  CHECK(service.http.rfind("https://127.0.0.1:", 0) == 0);
  const std::vector<std::string> token = {"CCLD_TOKEN=" + read};
  CHECK(run({ccld, "status", "--http", service.http, "--ca-file", certificate}, token).status == 0);
  const Finished untrusted = run({ccld, "status", "--http", service.http}, token);
  CHECK(untrusted.status == 1);
  CHECK(contains(untrusted.error, "its certificate is not trusted"));
  CHECK(run({ccld, "status", "--http", "http" + service.http.substr(5)}, token).status == 1);
  const std::vector<std::string> serve = {ccld,     "serve",       "--listen",    "tcp://127.0.0.1:0",
                                          "--http", "127.0.0.1:0", "--no-history"};
  const auto with = [&serve](std::vector<std::string> flags) {
    flags.insert(flags.begin(), serve.begin(), serve.end());
    return flags;
  };
  require_refused(with({"--http-certificate-file", certificate}), 2, "need each other");
  require_refused(with({"--http-certificate-file", key, "--http-key-file", key}), 2,
                  "--http-certificate-file: cannot use");
  require_refused(with({"--http-tokens-file", certificate}), 2, "--http-tokens-file: " + certificate + ":1: ");
}

}  // namespace ccld::test
