#include "decision/ingest/speaker.h"

#include <catch2/catch.hpp>

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

struct Door {
  std::optional<Batch> accept(const Speaker& speaker, const Bytes& bytes) {
    return ingest.accept(absl::MakeConstSpan(bytes), 0, 0, &speaker);
  }
  uint64_t rejected(RejectReason reason) const { return ingest.counters().rejected[static_cast<size_t>(reason)]; }
  Ingest ingest;
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

TEST_CASE("A damaged message is refused as one, whoever sent it, and is no foreign one") {
  Door door;
  Bytes bytes = batch_of({}, "node-a");
  bytes.resize(bytes.size() / 2);
  CHECK_FALSE(door.accept(speaker(absl::StrCat(key, " host=other")), bytes).has_value());
  CHECK(door.rejected(RejectReason::structure) == 1);
  CHECK_FALSE(door.ingest.newest_is_foreign());
}

}  // namespace ccld::decision
