// The telemetry of a job of many ranks, between nodes. make check-cluster: 16,384 ranks.
#include "test/integration/cluster/cpu_time.h"
#include "test/integration/cluster/nodes.h"

namespace ccld::test {
namespace {

constexpr int32_t ranks_of_process = 8;

int number_from_environment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

// What one process of the job has done since it last said so: two operations of each of its ranks.
Bytes batch_of(int32_t process, int32_t ranks, uint64_t batch_seq) {
  WireBatch b;
  for (int32_t i = 0; i < ranks_of_process; ++i) {
    const int32_t rank = process * ranks_of_process + i;
    if (batch_seq == 1)
      add_comm_up(b, {.comm_uid = 0xa1,
                      .rank = rank,
                      .rank_count = ranks,
                      .node = process,
                      .node_count = ranks / ranks_of_process,
                      .local_rank = i,
                      .cuda_device = i,
                      .ring_next = (rank + 1) % ranks});
    WireRounds rounds{.comm_uid = 0xa1, .rank = rank};
    const uint64_t first = 2 * batch_seq - 1, at_ns = batch_seq * 1'000'000'000;
    rounds.op_seq = {first, first + 1};
    rounds.enter = {at_ns, at_ns + 1000}, rounds.launch = {at_ns + 10, at_ns + 1010};
    rounds.begin = {at_ns + 20, at_ns + 1020}, rounds.end = {at_ns + 900, at_ns + 1900};
    add_rounds(b, rounds);
  }
  WireProcess p{.batch_seq = batch_seq};
  p.pid = 1000 + static_cast<uint32_t>(process);
  return b.finish(p);
}

}  // namespace

TEST_CASE("What the ranks of a large job say at one node comes to the others, and what does not is counted",
          "[relay]") {
  const int32_t ranks = number_from_environment("CCLD_TEST_RANKS", 1024);
  const int seconds = number_from_environment("CCLD_TEST_SECONDS", 3);
  const int32_t processes = ranks / ranks_of_process;
  const NatsServers nats;
  Nodes nodes(nats);
  nodes.leader();
  std::vector<std::unique_ptr<Sender>> senders;
  for (const auto& n : nodes.all) senders.push_back(std::make_unique<Sender>(n->service->telemetry));
  std::vector<double> cpu;
  for (const auto& n : nodes.all) cpu.push_back(cpu_s(n->service->child.pid()));
  const double nats_cpu = cpu_s(nats.pid(0));
  const auto begun = Clock::now();
  uint64_t bytes = 0;
  // Each process says something once in a second, all through it.
  for (uint64_t beat = 1; beat <= static_cast<uint64_t>(seconds); ++beat) {
    for (int32_t process = 0; process < processes; ++process) {
      const Bytes batch = batch_of(process, ranks, beat);
      bytes += batch.size();
      senders[static_cast<size_t>(process) % 3]->send(batch);
      std::this_thread::sleep_until(begun + std::chrono::seconds(beat - 1) +
                                    std::chrono::microseconds(1'000'000LL * (process + 1) / processes));
    }
  }
  const uint64_t messages = static_cast<uint64_t>(processes) * static_cast<uint64_t>(seconds);
  const auto sum = [&](const char* what) {
    uint64_t all = 0;
    for (const auto& n : nodes.all) all += n->cluster()["telemetry"][what].get<uint64_t>();
    return all;
  };
  // Each message is heard by its node and sent on, or counted; the two others have it from there. On a machine so busy
  // that a connection to NATS is lost some do not come.
  REQUIRE(wait_until([&] { return sum("sent") + sum("not_sent") >= messages; }));
  wait_until([&] { return sum("received") + sum("received_dropped") >= 2 * sum("sent"); }, std::chrono::seconds(5));
  CHECK(sum("sent") + sum("not_sent") == messages);
  CHECK(sum("received") + sum("received_dropped") <= 2 * sum("sent"));
  CHECK(sum("received") > 0);
  CHECK(sum("received_dropped") == 0);
  const double took_s = std::chrono::duration<double>(Clock::now() - begun).count();
  CHECK(nodes.told().empty());
  for (size_t i = 0; i < 3; ++i) cpu[i] = cpu_s(nodes[i].service->child.pid()) - cpu[i];
  const double relayed_per_s = static_cast<double>(sum("sent")) / took_s;
  WARN(ranks << " ranks, " << relayed_per_s << " messages/s, CPU seconds of the nodes " << cpu[0] << ", " << cpu[1]
             << ", " << cpu[2] << " in " << took_s << " s");
  if (const char* const out = std::getenv("CCLD_TEST_CLUSTER_OUT"))
    std::ofstream(out) << Json{{"ranks", ranks},
                               {"messages", messages},
                               {"bytes", bytes},
                               {"seconds", took_s},
                               {"relayed_per_s", relayed_per_s},
                               {"sent", sum("sent")},
                               {"not_sent", sum("not_sent")},
                               {"received", sum("received")},
                               {"dropped", sum("received_dropped")},
                               {"cpu_s_of_nodes", cpu},
                               {"cpu_s_of_nats", cpu_s(nats.pid(0)) - nats_cpu}};
}

}  // namespace ccld::test
