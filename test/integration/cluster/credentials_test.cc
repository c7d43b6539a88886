// NATS servers that know their clients by credentials which an operator has signed, for a time.
#include "test/integration/cluster/nats_identities.h"
#include "test/integration/cluster/refused.h"

namespace ccld::test {
namespace {

// A file that is never seen half written.
struct Credentials {
  explicit Credentials(const std::string& text) { become(text); }
  void become(const std::string& text) const {
    std::ofstream(folder.file("new")) << text;
    std::filesystem::rename(folder.file("new"), file());
  }
  std::string file() const { return folder.file("credentials"); }
  std::vector<std::string> flags() const { return {"--cluster-credentials-file", file()}; }
  Folder folder;
};

}  // namespace

TEST_CASE("Nodes with credentials that are none of the account's stay alone, say so once, and come in with right ones",
          "[credentials]") {
  const NatsOperator ours;
  const NatsAccount account, unknown;
  const NatsServers nats(1, "127.0.0.1", ours.config({&account}));
  const Credentials right(account.user()), wrong(unknown.user()), over(account.user({}, -60)), garbage("garbage\n");
  const Node first("first", nats, right.flags());
  const Node is_unknown("is-unknown", nats, wrong.flags()), is_over("is-over", nats, over.flags()),
      has_garbage("has-garbage", nats, garbage.flags()), has_none("has-none", nats);
  const std::vector<const Node*> refused = {&is_unknown, &is_over, &has_garbage, &has_none};
  std::vector<Load> load;
  for (const Node* n : refused) load.emplace_back(*n);
  for (const Node* n : refused) {
    CHECK(contains(refusal_of(*n), "--cluster-credentials-file"));
    check_stands_alone(*n);
  }
  REQUIRE(wait_until([&] { return first.leads(); }));
  CHECK(first.cluster()["nodes"].size() == 1);
  for (const Credentials* c : {&wrong, &over, &garbage}) c->become(account.user());
  for (const Node* n : {&is_unknown, &is_over, &has_garbage}) {
    INFO(n->log());
    CHECK(wait_until([&] { return n->has_all() && n->cluster()["leader"] == "first"; }));
  }
  for (size_t i = 0; i < refused.size(); ++i) {
    INFO(refused[i]->log());
    CHECK(refusals(*refused[i]) == 1);  // but tried again by now
    CHECK(load[i].now() < 0.2);
  }
}

TEST_CASE("A node whose credentials expire while it leads is followed by another one, and back with new ones",
          "[credentials]") {
  const NatsOperator ours;
  const NatsAccount account;
  const NatsServers nats(1, "127.0.0.1", ours.config({&account}));
  const Credentials short_lived(""), lasting(account.user());
  std::unique_ptr<Node> begun;
  for (int lasts_s = 4; begun == nullptr || !begun->leads(); lasts_s *= 2) {
    REQUIRE(lasts_s <= 32);  // on a machine that has no processor for it
    short_lived.become(account.user({}, lasts_s));
    begun = std::make_unique<Node>("first", nats, short_lived.flags());
    wait_until([&] { return begun->leads(); }, std::chrono::seconds(lasts_s));
  }
  const Node& first = *begun;
  const Node second("second", nats, lasting.flags());
  CHECK(contains(refusal_of(first), "--cluster-credentials-file"));
  const Load load(first);
  REQUIRE(wait_until([&] { return second.leads(); }));
  check_stands_alone(first);
  Sender sender(second.service->telemetry);
  const Mismatch fault{0xb2, {&sender, &sender}};
  uint64_t beat = 0;
  REQUIRE(wait_until([&] {
    fault.send(++beat);
    return !second.told().empty();
  }));
  short_lived.become(account.user());
  INFO(first.log());
  CHECK(wait_until([&] {
    return first.has_all() && first.cluster()["leader"] == "second" &&
           first.cluster()["log"] == second.cluster()["log"];
  }));
  CHECK(first.ask("/v1/incidents")["incidents"].size() == 1);
  CHECK(first.told().empty());
  CHECK(refusals(first) == 1);
  CHECK(load.now() < 0.2);
}

}  // namespace ccld::test
