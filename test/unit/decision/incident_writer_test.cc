#include "decision/analysis/incident_writer.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

namespace {

Finding hang_of(int victims_here, uint32_t victims_elsewhere, size_t comms) {
  Finding f;
  f.op = OpSeq{9};
  for (int r = 0; r < victims_here; ++r) f.victims.push_back(Rank{r});
  f.victims_elsewhere = victims_elsewhere;
  for (size_t i = 0; i < comms; ++i) f.victim_comms.push_back({CommUid{100 + i}, "data", 8, OpSeq{3}});
  return f;
}

struct Written {
  Settings settings;
  Communicator comm{CommUid{1}, settings};
  IncidentWriter writer{settings};
};

}  // namespace

TEST_CASE("Victims are those of the communicator and those elsewhere, of which only a sample is listed") {
  Written f;
  const uint64_t id = f.writer.open(f.comm, hang_of(40, 8 * 70, 70), 1, 2);
  const Incident& i = *f.writer.book().find(id);
  CHECK(i.victim_count == 40 + 8 * 70);
  CHECK(i.victim_sample.size() == victims_sampled);
  CHECK(i.victim_comm_count == 70);
  CHECK(i.victim_comms.size() == victim_comms_max);
}

TEST_CASE("More victims elsewhere are counted, and are no reason to hand the incident out again") {
  Written f;
  const uint64_t id = f.writer.open(f.comm, hang_of(3, 0, 0), 1, 2);
  f.writer.book().take_changed(9);
  f.writer.update(id, f.comm, hang_of(3, 16, 2), 3);
  CHECK(f.writer.book().take_changed(9).empty());
  CHECK(f.writer.book().find(id)->victim_count == 3 + 16);
  f.writer.update(id, f.comm, hang_of(3, 8, 1), 4);
  CHECK(f.writer.book().find(id)->victim_count == 3 + 8);
  CHECK(f.writer.book().find(id)->victim_comm_count == 1);
}

TEST_CASE("Another culprit is handed out") {
  Written f;
  const uint64_t id = f.writer.open(f.comm, hang_of(3, 0, 0), 1, 2);
  f.writer.book().take_changed(9);
  Finding named = hang_of(3, 0, 0);
  named.culprits.push_back(make_culprit(f.comm, Rank{2}, Component::gpu, Condition::kernel_stuck, "it stands still"));
  f.writer.update(id, f.comm, named, 3);
  REQUIRE(f.writer.book().take_changed(9).size() == 1);
  CHECK(f.writer.book().find(id)->located_ns == 3);
}

TEST_CASE("An incident says what is not measured on its communicator, and on how many ranks") {
  Written f;
  ProcessTable processes(f.settings);
  Batch batch;
  batch.process = {"host", "boot", 1, 0, 1};
  for (int r = 0; r < 3; ++r) {
    CommUp up;
    up.comm = CommUid{1};
    up.rank = Rank{r};
    up.rank_count = 3;
    up.hidden = r == 0 ? 0u : uint32_t{abi::hidden_pxn};
    for (int again = 0; again < 2; ++again) f.comm.up(up, *processes.heard(batch, 1), 1);
  }
  const uint64_t id = f.writer.open(f.comm, hang_of(3, 0, 0), 1, 2);
  const std::vector<Evidence>& evidence = f.writer.book().find(id)->evidence;
  REQUIRE(evidence.size() == 1);
  CHECK(words(evidence[0]) == "not measured: proxies of other ranks that send for a rank (PXN)");
  CHECK(evidence[0].value == 2);
}

TEST_CASE("Of a GPU or process at fault it is said if nobody tells how its GPU is") {
  Written f;
  ProcessTable processes(f.settings);
  Batch batch;
  batch.process = {"host", "boot", 1, 0, 1};
  ProcessModel& process = *processes.heard(batch, 1);
  for (int r = 0; r < 3; ++r) {
    CommUp up;
    up.comm = CommUid{1};
    up.rank = Rank{r};
    up.rank_count = 3;
    f.comm.up(up, process, 1);
  }
  const auto unknown = [&](Component component) {
    Finding finding = hang_of(1, 0, 0);
    finding.culprits.resize(1);
    finding.culprits[0].rank = Rank{1};
    finding.culprits[0].component = component;
    const uint64_t id = f.writer.open(f.comm, finding, 1, 2);
    std::string out;
    for (const Evidence& e : f.writer.book().find(id)->evidence)
      if (e.kind == EvidenceKind::not_measured) out += words(e);
    return out;
  };
  CHECK(unknown(Component::gpu) == "not measured: GPU health (no NVML)");
  CHECK(unknown(Component::process) == "not measured: GPU health (no NVML)");
  CHECK(unknown(Component::link).empty());  // it has nothing to do with it
  process.metrics =
      std::make_shared<const MetricTable>(merged(nullptr, {{{abi::MetricId::gpu_xid_count, "0000:10:00.0", 0}}}, 1));
  CHECK(unknown(Component::gpu).empty());
}

}  // namespace ccld::decision
