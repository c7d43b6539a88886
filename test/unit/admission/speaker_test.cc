#include "decision/ingest/speaker.h"

#include <catch2/catch.hpp>

#include <map>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "decision/ingest/ingest.h"
#include "test/unit/server/wire_batch.h"

namespace ccld::decision {

using namespace ingest;
using namespace test;

namespace {

const std::string key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";

Speaker speaker(const std::string& list) {
  auto parsed = admission::KeyList::parse(list, "keys");
  REQUIRE(parsed.ok());
  return {key, std::make_shared<const admission::KeyList>(*std::move(parsed))};
}

Bytes batch_of(const WireProcess& process, const std::string& comm_host) {
  WireBatch b;
  add_comm_up(b, {.host = comm_host});
  return b.finish(process);
}

// Nobody knows anything, unless a test says so.
struct FixedOwners final : Owners {
  std::optional<Owner> of(CommUid) override { return comm; }
  std::optional<Owner> of(const ProcessId&) override { return process; }
  std::optional<Owner> of(const ProcessId&, const Sibling& s) override {
    const auto found = siblings.find(s.pid);
    return found == siblings.end() ? std::nullopt : std::optional<Owner>(found->second);
  }
  std::optional<Owner> comm, process;
  std::map<uint32_t, Owner> siblings;
};

struct Door {
  std::optional<Batch> accept(const Speaker& speaker, const Bytes& bytes) {
    return ingest.accept(absl::MakeConstSpan(bytes), 0, 0, &speaker, &owners);
  }
  uint64_t rejected(RejectReason reason) const { return ingest.counters().rejected[static_cast<size_t>(reason)]; }
  Ingest ingest;
  FixedOwners owners;
};

}  // namespace

TEST_CASE("A key without bindings speaks for whom it likes, one with them for these only") {
  Door door;
  CHECK(door.accept(speaker(key), batch_of({.job = "a", .host = "n1"}, "n1")).has_value());
  const Speaker bound = speaker(absl::StrCat(key, " job=demo host=node-a host=node-b # node a"));
  CHECK(door.accept(bound, batch_of({.pid = 2}, "node-b")).has_value());
  CHECK_FALSE(door.accept(bound, batch_of({.job = "other"}, "node-a")).has_value());
  CHECK(door.ingest.newest_is_foreign());
  CHECK(door.rejected(RejectReason::job) == 1);
  CHECK_FALSE(door.accept(bound, batch_of({.host = "node-c"}, "node-a")).has_value());
  // A communicator on another host: whoever believes it blames that host.
  CHECK_FALSE(door.accept(bound, batch_of({}, "node-c")).has_value());
  CHECK(door.rejected(RejectReason::host) == 2);
  CHECK(door.accept(bound, batch_of({.pid = 3}, "node-a")).has_value());
  CHECK_FALSE(door.ingest.newest_is_foreign());
  REQUIRE(door.ingest.errors().all().size() == 2);
  CHECK(door.ingest.errors().all()[0].text == absl::StrCat("key ", key, " (node a) may not speak for job 'other'"));
  CHECK(door.ingest.errors().all()[1].count == 2);
}

TEST_CASE("A key that was removed while its connection lasts speaks for nothing any more") {
  Door door;
  CHECK(door.accept(speaker(key), batch_of({}, "node-a")).has_value());
  CHECK_FALSE(door.accept(speaker("# empty"), batch_of({.batch_seq = 2}, "node-a")).has_value());
  CHECK(door.rejected(RejectReason::key) == 1);
  CHECK(door.ingest.newest_is_foreign());
}

TEST_CASE("Who claims to be somebody else's process does not move the numbers of its batches") {
  Door door;
  const Speaker own = speaker(absl::StrCat(key, " host=node-a")), foreign = speaker(absl::StrCat(key, " host=node-b"));
  CHECK(door.accept(own, batch_of({.batch_seq = 1}, "node-a")).has_value());
  CHECK_FALSE(door.accept(foreign, batch_of({.batch_seq = 100}, "node-a")).has_value());
  CHECK(door.accept(own, batch_of({.batch_seq = 2}, "node-a")).has_value());
  CHECK(door.ingest.counters().lost_batches == 0);
}

TEST_CASE(
    "A key that is bound to jobs speaks for no communicator and no process of another one, whatever its batch says") {
  Door door;
  const Speaker bound = speaker(absl::StrCat(key, " job=demo job=second # team a"));
  const Speaker by_host = speaker(absl::StrCat(key, " host=node-a"));
  door.owners.comm = Owner{"other", ""};
  CHECK_FALSE(door.accept(bound, batch_of({}, "node-a")).has_value());
  CHECK(door.ingest.newest_is_foreign());
  CHECK(door.rejected(RejectReason::job) == 1);
  CHECK(door.ingest.errors().all()[0].text ==
        absl::StrCat("key ", key, " (team a) may not speak for job 'other', of which the communicator is known to be"));
  // Ranks of one communicator under several names of the job: keys that are not bound to jobs lose nothing by it.
  CHECK(door.accept(speaker(key), batch_of({.pid = 2}, "node-a")).has_value());
  CHECK(door.accept(by_host, batch_of({.pid = 3}, "node-a")).has_value());
  door.owners.comm = Owner{"second", ""};
  CHECK(door.accept(bound, batch_of({.pid = 4}, "node-a")).has_value());
  door.owners.comm = Owner{"", ""};  // nobody has said
  CHECK(door.accept(bound, batch_of({.pid = 5}, "node-a")).has_value());

  door.owners.process = Owner{"other", "node-a"};
  CHECK_FALSE(door.accept(bound, batch_of({.pid = 6}, "node-a")).has_value());
  CHECK(door.rejected(RejectReason::job) == 2);
  CHECK(door.accept(by_host, batch_of({.pid = 6}, "node-a")).has_value());
  door.owners.process = Owner{"demo", "node-b"};  // by its ids, on a host with another name
  CHECK_FALSE(door.accept(by_host, batch_of({.pid = 7}, "node-a")).has_value());
  CHECK(door.rejected(RejectReason::host) == 1);
}

TEST_CASE(
    "What a bound key says of other processes is heard where it may speak for them, and the rest of its batch always") {
  Door door;
  const auto heard = [&](const std::string& bindings, uint32_t pid) {
    WireBatch b;
    add_agent_health(b);  // about 4712 and 4713
    const auto batch = door.accept(speaker(absl::StrCat(key, bindings)), b.finish({.pid = pid}));
    REQUIRE(batch.has_value());
    std::vector<uint32_t> pids;
    for (const Sibling& s : std::get<AgentHealth>(batch->payloads[0]).siblings) pids.push_back(s.pid);
    return pids;
  };
  using Pids = std::vector<uint32_t>;
  door.owners.siblings = {{4712, {"demo", "node-a"}}, {4713, {"other", "node-b"}}};
  CHECK(heard("", 1) == Pids{4712, 4713});
  CHECK(heard(" job=demo", 2) == Pids{4712});
  CHECK(heard(" host=node-a", 3) == Pids{4712});
  CHECK(heard(" job=demo job=other host=node-a", 4) == Pids{4712});
  // Of which nobody has heard: a rank of a communicator, as the frame of 4712 says.
  door.owners.siblings.clear();
  door.owners.comm = Owner{"other", {}};
  CHECK(heard(" job=demo", 5).empty());
  door.owners.comm = Owner{"demo", {}};
  CHECK(heard(" job=demo", 6) == Pids{4712});
}

TEST_CASE("A damaged message is refused as one, whoever sent it, and is no foreign one") {
  Door door;
  Bytes bytes = batch_of({}, "node-a");
  bytes.resize(bytes.size() / 2);
  CHECK_FALSE(door.accept(speaker(absl::StrCat(key, " host=other")), bytes).has_value());
  CHECK(door.rejected(RejectReason::structure) == 1);
  CHECK_FALSE(door.ingest.newest_is_foreign());
}

}  // namespace ccld::decision
