// NATS servers that demand TLS and certificates of their clients.
#include "test/integration/cluster/refused.h"
#include "test/support/tls/authority.h"

namespace ccld::test {
namespace {

struct Files {
  Folder folder;
  std::string ca(const Authority& of) const {
    const std::string file = folder.file("ca-" + std::to_string(++count_) + ".pem");
    of.write(file);
    return file;
  }
  std::vector<std::string> certificate(const Authority& of, const std::string& names = "DNS:node") const {
    const std::string number = std::to_string(++count_);
    const std::vector<std::string> pair = {folder.file(number + ".pem"), folder.file(number + ".key")};
    of.sign(pair[0], pair[1], names);
    return pair;
  }
  // A server's configuration: its certificate is of `of`, for 127.0.0.1 alone, and its clients have theirs from there.
  std::string server(const Authority& of) const {
    const auto pair = certificate(of, "IP:127.0.0.1");
    return "tls { cert_file: \"" + pair[0] + "\", key_file: \"" + pair[1] + "\", ca_file: \"" + ca(of) +
           "\", verify: true, timeout: 60 }\n";
  }

 private:
  mutable int count_ = 0;
};

std::vector<std::string> flags(const std::string& ca, const std::vector<std::string>& pair = {}) {
  std::vector<std::string> all = {"--cluster-ca-file", ca};
  if (!pair.empty()) all.insert(all.end(), {"--cluster-certificate-file", pair[0], "--cluster-key-file", pair[1]});
  return all;
}

}  // namespace

TEST_CASE("Nodes with the right certificates are one service over TLS; others say what is wrong and stay alone",
          "[tls]") {
  const Authority ours("ours"), other("other");
  const Files files;
  const std::string ca = files.ca(ours), wrong_ca = files.ca(other);
  const auto right = files.certificate(ours), wrong = files.certificate(other);
  const NatsServers nats(1, "127.0.0.1", files.server(ours));
  Nodes nodes(nats, flags(ca, right));
  auto by_name = flags(ca, right);
  by_name.insert(by_name.end(), {"--cluster", nats.urls_of("localhost")});
  const Node trusts_other("trusts-other", nats, flags(wrong_ca, right)), is_other("is-other", nats, flags(ca, wrong)),
      has_none("has-none", nats, flags(ca)), without_tls("without-tls", nats), other_name("other-name", nats, by_name);
  const std::vector<const Node*> refused = {&trusts_other, &is_other, &has_none, &without_tls, &other_name};
  std::vector<Load> load;
  for (const Node* n : refused) load.emplace_back(*n);

  CHECK(contains(refusal_of(trusts_other), "--cluster-ca-file"));
  CHECK(contains(refusal_of(is_other), "--cluster-certificate-file"));
  CHECK(contains(refusal_of(has_none), "--cluster-certificate-file"));
  CHECK(contains(refusal_of(without_tls), "--cluster-ca-file"));
  CHECK(contains(refusal_of(other_name), "not for its name in --cluster"));
  for (const Node* n : refused) check_stands_alone(*n);

  // They are no part of it, and what they saw is not told.
  const size_t leader = nodes.leader();
  Sender sender(nodes[0].service->telemetry), to_another(nodes[1].service->telemetry);
  REQUIRE(is_found(nodes, Mismatch(0xb2, {&sender, &to_another})));
  CHECK(nodes.incidents() == std::set<uint64_t>{1});
  CHECK(wait_until([&] { return nodes.have_all_that_was_told(); }));
  CHECK(nodes[leader].cluster()["nodes"].size() == 3);

  // Right files in the place of the wrong ones.
  ours.write(wrong_ca);
  ours.sign(wrong[0], wrong[1], "DNS:node");
  for (const Node* n : {&trusts_other, &is_other}) {
    INFO(n->log());
    CHECK(wait_until([&] { return n->has_all() && n->cluster()["leader"] == nodes[leader].name(); }));
  }
  for (size_t i = 0; i < refused.size(); ++i) {
    INFO(refused[i]->log());
    CHECK(refusals(*refused[i]) == 1);  // but tried again by now
    CHECK(load[i].now() < 0.2);
    CHECK(refused[i]->told().empty());
  }
  nodes.check_told_once();
}

TEST_CASE("Servers that get certificates of another authority have the nodes back, which read theirs again", "[tls]") {
  const Authority old("old"), next("next");
  const Files files;
  const std::string ca = files.ca(old);
  const auto pair = files.certificate(old);
  NatsServers nats(1, "127.0.0.1", files.server(old));
  Nodes nodes(nats, flags(ca, pair));
  nodes.leader();
  Sender sender(nodes[0].service->telemetry);
  REQUIRE(is_found(nodes, Mismatch(0xa1, {&sender, &sender})));
  REQUIRE(wait_until([&] { return nodes.have_all_that_was_told(); }));
  next.write(ca);
  next.sign(pair[0], pair[1], "DNS:node");
  nats.kill(0);
  nats.start(0, files.server(next));
  REQUIRE(is_found(nodes, Mismatch(0xa2, {&sender, &sender})));
  CHECK(nodes.incidents() == std::set<uint64_t>{1, 2});
  nodes.check_told_once();
}

TEST_CASE("A node that is told to use TLS speaks to no server in the clear", "[tls]") {
  const Authority ours("ours");
  const Files files;
  const std::string ca = files.ca(ours);
  const auto pair = files.certificate(ours);
  NatsServers nats;
  const std::string clear = nats.urls();
  const Node by_ca("by-ca", nats, flags(ca)), by_url("by-url", nats, {"--cluster", "tls" + clear.substr(4)}),
      by_pair("by-pair", nats, {"--cluster-certificate-file", pair[0], "--cluster-key-file", pair[1]});
  for (const Node* n : {&by_ca, &by_url, &by_pair}) {
    CHECK(contains(refusal_of(*n), "the server speaks no TLS"));
    check_stands_alone(*n);
  }
}

TEST_CASE("Files for TLS or credentials that cannot be read end the service before it listens", "[tls]") {
  const Folder folder;
  const std::string none = folder.file("none");
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--cluster-ca-file", none},
                                                {"--cluster-credentials-file", none},
                                                {"--cluster-certificate-file", none, "--cluster-key-file", none}}) {
    std::vector<std::string> command = {
        ccld,          "serve",   "--listen",           "tcp://127.0.0.1:0", "--http",
        "127.0.0.1:0", "--state", folder.file("state"), "--cluster",         "nats://127.0.0.1:1"};
    command.insert(command.end(), wrong.begin(), wrong.end());
    require_refused(command, 2, wrong[0] + ": ");
  }
}

}  // namespace ccld::test
