// Who leads, and that what is written to the log comes to all nodes, once, whatever happens to the one that leads.
#include "decision/cluster/member.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "test/support/json/hostile.h"
#include "test/unit/cluster/shared_bus.h"

namespace ccld::decision::cluster {
namespace {

Shared* time_of = nullptr;
Nanoseconds now() { return time_of->now_ns; }

struct TestNode {
  SharedBus bus;
  std::vector<report::Json> applied;
  std::vector<bool> turns;  // whether it led since
  std::vector<uint64_t> last_ids;  // with which it led
  Nanoseconds held_up_ns = 0;
  // Its history.
  history::LogPosition position;
  uint64_t last_id = 0;
  bool stores = true;  // what it tells itself
  absl::Status disk, reading;
  Member member;

  TestNode(Shared& shared, const std::string& name)
      : bus(shared),
        member(
            bus,
            {.node = name,
             .run = "run-of-" + name,
             .about = report::Json::object(),
             .lease = {},
             .refused_max_ns = ns_per_s,
             .clock_ns = now},
            {.position = [this]() -> absl::StatusOr<history::LogPosition> { return position; },
             .apply =
                 [this](std::vector<report::Json> entries, history::LogPosition after, history::LogPosition through) {
                   if (!disk.ok()) return disk;
                   if (after != position) return absl::AbortedError("elsewhere");
                   applied.insert(applied.end(), entries.begin(), entries.end());
                   position = through;
                   return absl::OkStatus();
                 },
             .standing = [this]() -> absl::StatusOr<history::Standing> {
               if (!reading.ok()) return reading;
               history::Standing s;
               s.log = position;
               s.last_id = last_id;
               return s;
             },
             .wrote = [this](const report::Json&, history::LogPosition at) { own(at); },
             .last_id = [this] { return last_id; },
             .held_up_ns = [this] { return held_up_ns; }}) {
    REQUIRE(member.listen().ok());
  }
  void own(history::LogPosition at) {
    if (stores && history::is_next(at, position)) position = at;
  }
  bool keep(const report::Json& entry) {
    const auto at = member.keep(entry);
    if (at.ok()) own(*at);
    return at.ok();
  }
  // What it was told, without who led when.
  std::vector<int> numbers() const {
    std::vector<int> out;
    for (const report::Json& e : applied)
      if (e.contains("n")) out.push_back(e["n"].get<int>());
    return out;
  }
};

struct Cluster {
  Shared shared;
  std::vector<std::unique_ptr<TestNode>> nodes;
  explicit Cluster(int count) {
    time_of = &shared;
    for (int i = 0; i < count; ++i)
      nodes.push_back(std::make_unique<TestNode>(shared, std::string(1, static_cast<char>('a' + i))));
  }
  TestNode& operator[](size_t i) { return *nodes[i]; }
  void pass(Nanoseconds ns, const std::vector<size_t>& running) {
    for (const Nanoseconds until_ns = shared.now_ns + ns; shared.now_ns < until_ns; shared.now_ns += 100 * ns_per_ms)
      for (size_t i : running) {
        nodes[i]->member.look();
        if (const auto turn = nodes[i]->member.take_turn()) {
          nodes[i]->turns.push_back(turn->leads);
          if (turn->leads) nodes[i]->last_ids.push_back(turn->standing.last_id);
        }
      }
  }
  int leading() const {
    int count = 0;
    for (const auto& n : nodes) count += n->member.leads() ? 1 : 0;
    return count;
  }
};

report::Json entry(int n) { return {{"n", n}}; }

int leads_entries(const Shared& shared) {
  return static_cast<int>(std::count_if(shared.log.begin(), shared.log.end(),
                                        [](const std::string& e) { return e.find("\"leads\"") != e.npos; }));
}

}  // namespace

TEST_CASE("One node leads; when it is gone another one does, having applied all that it wrote") {
  Cluster c(3);
  c.pass(ns_per_s, {0, 1, 2});
  REQUIRE(c.leading() == 1);
  REQUIRE(c[0].member.leads());
  CHECK(c[0].turns == std::vector<bool>{true});
  CHECK(c[1].turns.empty());
  CHECK(c[0].keep(entry(1)));
  CHECK(c[0].keep(entry(2)));
  CHECK_FALSE(c[1].keep(entry(3)));
  c.pass(10 * ns_per_s, {0, 1, 2});  // the lease is renewed
  CHECK(c[0].member.leads());
  CHECK(c[1].member.view().leader == "a");
  CHECK(c[1].member.view().nodes.size() == 3);

  c.pass(4 * ns_per_s, {1, 2});  // the first one is killed
  REQUIRE(c[1].member.leads());
  CHECK_FALSE(c[2].member.leads());
  CHECK(c[1].numbers() == std::vector<int>{1, 2});
  CHECK(c[1].keep(entry(3)));
  c.pass(ns_per_s, {1, 2});
  CHECK(c[2].numbers() == std::vector<int>{1, 2, 3});
}

TEST_CASE("A node that was stopped while it led, and goes on, writes nothing and follows") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[0].keep(entry(1)));
  c.pass(4 * ns_per_s, {1});
  REQUIRE(c[1].member.leads());
  CHECK_FALSE(c[0].member.leads());  // its lease is over by its own clock
  CHECK_FALSE(c[0].keep(entry(9)));
  REQUIRE(c[1].keep(entry(2)));
  c.pass(ns_per_s, {0, 1});
  CHECK(c.leading() == 1);
  CHECK(c[1].member.leads());
  c.pass(ns_per_s, {0, 1});
  CHECK(c[0].numbers() == std::vector<int>{2});  // its own first one is in its history already
  CHECK(c[0].turns == std::vector<bool>{true, false});
}

TEST_CASE("A node whose clock stood still with it writes nothing either: the log has another newest entry") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[0].keep(entry(1)));
  c.pass(4 * ns_per_s, {1});
  REQUIRE(c[1].member.leads());
  c.shared.now_ns -= 4 * ns_per_s;  // what the first one believes
  CHECK_FALSE(c[0].keep(entry(9)));
  CHECK_FALSE(c[0].member.leads());
  c.shared.now_ns += 4 * ns_per_s;
  for (const std::string& text : c.shared.log) CHECK(text != entry(9).dump());
}

TEST_CASE("Cut off from the bus nobody leads for longer than the lease lasts; afterwards one does") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  c[0].bus.cut = c[1].bus.cut = true;
  c.pass(3 * ns_per_s, {0, 1});
  CHECK(c.leading() == 0);
  CHECK_FALSE(c[0].member.view().connected);
  c[1].bus.cut = false;
  c.pass(3 * ns_per_s, {0, 1});
  CHECK(c[1].member.leads());
  c[0].bus.cut = false;
  c.pass(3 * ns_per_s, {0, 1});
  CHECK(c.leading() == 1);
}

TEST_CASE("An entry of which the answer was lost is in the log once") {
  Cluster c(1);
  c.pass(ns_per_s, {0});
  c.shared.loses_answers = true;
  CHECK(c[0].keep(entry(1)));
  CHECK(c[0].keep(entry(2)));
  CHECK(std::count(c.shared.log.begin(), c.shared.log.end(), entry(1).dump()) == 1);
}

TEST_CASE("A renewal of which the answer was lost does not end the lead") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[0].member.leads());
  c.shared.loses_answers = true;
  c.pass(5 * ns_per_s, {0, 1});
  CHECK_FALSE(c.shared.loses_answers);
  CHECK(c[0].turns == std::vector<bool>{true});
  CHECK(c[1].turns.empty());
}

TEST_CASE("A node whose renewal comes after its lease was over begins to lead anew: it has left out what was reported") {
  Cluster c(1);
  c.pass(ns_per_s, {0});
  REQUIRE(c[0].turns == std::vector<bool>{true});
  const size_t entries = c.shared.log.size();
  c.shared.renewal_takes_ns = 2 * ns_per_s;  // asked for after one, held for two and a half
  c.pass(3 * ns_per_s, {0});
  CHECK(c[0].member.leads());
  CHECK(c[0].turns == std::vector<bool>{true, false, true});
  CHECK(c.shared.log.size() == entries + 1);
}

TEST_CASE("A node that took the lease and did not hear so leads at its next attempt") {
  Cluster c(2);
  c.shared.loses_answers = true;
  c.pass(100 * ns_per_ms, {0});
  CHECK_FALSE(c[0].member.leads());
  c.pass(ns_per_s, {0, 1});
  CHECK(c[0].member.leads());
}

TEST_CASE("A node does not lead again before its analysis has heard that it did not") {
  Cluster c(1);
  c.pass(ns_per_s, {0});
  REQUIRE(c[0].member.leads());
  c.shared.log.push_back(entry(7).dump());  // of another node
  CHECK_FALSE(c[0].keep(entry(1)));
  c[0].member.look();
  CHECK_FALSE(c[0].member.leads());
  CHECK_FALSE(c[0].member.take_turn()->leads);
  c[0].member.look();
  CHECK(c[0].member.leads());
  CHECK(c[0].numbers() == std::vector<int>{7});
}

TEST_CASE("A log that was lost and has as many entries again is applied from its beginning") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[0].keep(entry(1)));
  c.pass(ns_per_s, {0, 1});
  c.shared.log = {entry(2).dump(), entry(3).dump(), entry(4).dump()};
  c.shared.log_made_ns = 2;
  c.pass(ns_per_s, {1});
  CHECK(c[1].numbers() == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("A node whose disk hangs lets another one lead, and leads again only when it answers") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[0].keep(entry(1)));
  c[0].held_up_ns = 2 * ns_per_s;  // slow
  c.pass(ns_per_s, {0, 1});
  CHECK(c[0].member.leads());
  c[0].held_up_ns = 6 * ns_per_s;
  c.pass(ns_per_s, {0, 1});
  CHECK(c[1].member.leads());
  CHECK(c[0].turns == std::vector<bool>{true, false});
  CHECK(c[1].numbers() == std::vector<int>{1});
  REQUIRE(c[1].keep(entry(2)));
  c.pass(4 * ns_per_s, {0});  // the other one is killed
  CHECK(c.leading() == 0);
  CHECK(c[0].applied.empty());
  c[0].held_up_ns = 0;
  c.pass(ns_per_s, {0});
  CHECK(c[0].member.leads());
  CHECK(c[0].numbers() == std::vector<int>{2});
}

TEST_CASE("What is nested deep is no entry of the log and no word of a node: the others count") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  const std::string deep = test::nested(100'000);
  c.shared.log.push_back("{\"revisions\":" + deep + "}");
  c.shared.log.push_back(entry(2).dump());
  c.pass(ns_per_s, {1});
  CHECK(c[1].numbers() == std::vector<int>{2});
  CHECK(std::count_if(c[1].applied.begin(), c[1].applied.end(), [](const auto& e) { return e.is_discarded(); }) == 1);
  const std::string word = R"({"node": "z", "leads": true, "more": )" + deep + "}";
  REQUIRE(c[0].bus.send("nodes", {reinterpret_cast<const uint8_t*>(word.data()), word.size()}).ok());
  CHECK(c[1].member.view().nodes.size() == 2);
}

TEST_CASE("A node that ends gives the lease back") {
  Cluster c(2);
  c[0].member.start();
  while (!c[0].member.leads()) std::this_thread::yield();
  c[0].member.stop();
  CHECK_FALSE(c.shared.lease.has_value());
  c.pass(ns_per_s, {1});
  CHECK(c[1].member.leads());
}

TEST_CASE("A node goes on from where its history is: after a restart, and where the database is another one") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[0].keep(entry(1)));
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[1].numbers() == std::vector<int>{1});
  TestNode again(c.shared, "b");
  again.position = c[1].position;
  again.member.look();
  CHECK(again.applied.empty());
  // Its database is set aside; an older copy takes its place.
  again.position.entry = 1;
  c.pass(11 * ns_per_s, {0});
  again.member.look();
  CHECK(again.numbers() == std::vector<int>{1});
  again.position.entry = 1;
  REQUIRE(c[0].keep(entry(2)));
  again.member.look();
  again.member.look();
  CHECK(again.numbers() == std::vector<int>{1, 1, 2});
}

TEST_CASE("What its leader could not store it has from the log before it leads again") {
  Cluster c(1);
  c.pass(ns_per_s, {0});
  REQUIRE(c[0].keep(entry(1)));
  c[0].stores = false;
  REQUIRE(c[0].keep(entry(2)));
  c[0].stores = true;
  REQUIRE(c[0].keep(entry(3)));  // behind one that is missing
  c.shared.now_ns += 4 * ns_per_s;
  c.pass(ns_per_s, {0});
  REQUIRE(c[0].turns == std::vector<bool>{true, false, true});
  CHECK(c[0].numbers() == std::vector<int>{2, 3});
}

TEST_CASE("A database that is replaced while its node is about to lead gets all of the log first") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[0].keep(entry(1)));
  c.pass(ns_per_s, {0, 1});
  c[1].position = {};
  c.pass(4 * ns_per_s, {1});
  REQUIRE(c[1].member.leads());
  CHECK(c[1].numbers() == std::vector<int>{1, 1});
}

TEST_CASE("A node that cannot lead, for its own history, leaves that to another one and writes nothing") {
  Cluster c(2);
  c[0].reading = absl::UnavailableError("disk I/O error");
  c.pass(ns_per_s, {0});
  CHECK(c.leading() == 0);
  CHECK(c.shared.log.empty());
  CHECK_FALSE(c.shared.lease.has_value());
  c.pass(ns_per_s, {0, 1});
  CHECK(c[1].member.leads());
  CHECK(leads_entries(c.shared) == 1);
}

TEST_CASE("A node that cannot lead tries again after some seconds") {
  Cluster c(1);
  c[0].reading = absl::UnavailableError("disk I/O error");
  c.pass(ns_per_s, {0});
  c[0].reading = absl::OkStatus();
  c.pass(2 * ns_per_s, {0});
  CHECK(c.leading() == 0);
  c.pass(4 * ns_per_s, {0});
  CHECK(c[0].member.leads());
}

TEST_CASE("Numbers go on after the highest that any node has, and all are told so") {
  Cluster c(2);
  c[1].last_id = 100;
  c.pass(100 * ns_per_ms, {1});  // it says so and leads
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[1].last_ids == std::vector<uint64_t>{100});
  c.pass(4 * ns_per_s, {0});
  REQUIRE(c[0].last_ids == std::vector<uint64_t>{100});
  CHECK(report::Json::parse(c.shared.log.back())["leads"]["last_id"] == 100);
}

TEST_CASE(
    "A node with a history of its own that joins one that leads: it leads anew, and its numbers go on after that") {
  Cluster c(2);
  c.pass(ns_per_s, {0});
  REQUIRE(c[0].last_ids == std::vector<uint64_t>{0});
  c[1].last_id = 100;
  c.pass(4 * ns_per_s, {0, 1});
  CHECK(c[0].turns == std::vector<bool>{true, false, true});
  CHECK(c[0].last_ids == std::vector<uint64_t>{0, 100});
  c.pass(10 * ns_per_s, {0, 1});
  CHECK(c[0].turns.size() == 3);
  const std::string forged = R"({"node": "z", "leads": false, "last_id": 18446744073709551615})";
  REQUIRE(c[1].bus.send("nodes", {reinterpret_cast<const uint8_t*>(forged.data()), forged.size()}).ok());
  c.pass(4 * ns_per_s, {0, 1});
  CHECK(c[0].turns.size() == 3);
}

TEST_CASE("A node whose entries the servers refuse says why, and after a while lets another one try") {
  Cluster c(2);
  c.pass(ns_per_s, {0, 1});
  REQUIRE(c[0].member.leads());
  c.shared.refusal = "insufficient resources";
  c.shared.refusal_takes_ns = 300 * ns_per_ms;
  CHECK_FALSE(c[0].keep(entry(1)));
  CHECK(c[0].member.view().log_error == "insufficient resources");
  CHECK_FALSE(c[0].member.leads());
  c.shared.refusal.clear();
  c.pass(ns_per_s, {0, 1});
  CHECK(c[1].member.leads());
  c.pass(ns_per_s, {0, 1});
  CHECK(c[0].member.view().log_error.empty());
  CHECK(c[0].turns == std::vector<bool>{true, false});
}

TEST_CASE("While the servers refuse who is to lead, the nodes try in turn") {
  Cluster c(2);
  c.shared.refusal = "insufficient resources";
  c.pass(20 * ns_per_s, {0, 1});
  CHECK(c.leading() == 0);
  for (size_t i : {0, 1}) CHECK(c[i].member.view().log_error == "insufficient resources");
  c.shared.refusal.clear();
  c.pass(6 * ns_per_s, {0, 1});
  CHECK(c.leading() == 1);
}

TEST_CASE("An entry that is too long is refused at once, and the node leads on") {
  Cluster c(1);
  c.pass(ns_per_s, {0});
  c.shared.entry_bytes_max = 100;
  CHECK(absl::IsOutOfRange(c[0].member.keep({{"n", std::string(200, 'x')}}).status()));
  CHECK(c[0].keep(entry(1)));
}

}  // namespace ccld::decision::cluster
