// What a job would gain, on timelines that are written down here.
#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "decision/whatif/causes.h"
#include "decision/whatif/processors.h"
#include "test/unit/decision/whatif_job.h"

namespace ccld::decision::whatif {

TEST_CASE("With the measured times the measured length comes out again") {
  Job job(8);
  for (int i = 0; i < 30; ++i) job.collective(1, all_8, 5, [&](int g) { return 10.0 + (g * 7 + i * 3) % 5; });
  const std::optional<Graph> g = job.graph();
  REQUIRE(g);
  double first = INFINITY, last = -INFINITY;
  for (const Node& n : g->nodes) first = std::min(first, n.begin_ns), last = std::max(last, n.end_ns);
  CHECK(g->length_ns == Approx(last - first).epsilon(1e-6));
  CHECK(length_with(*g, Change(g->nodes.size())).ns == g->length_ns);
}

TEST_CASE("A GPU that was slow from the first operation on is told from its peers, with what the job would gain") {
  Job job(8);
  for (int i = 0; i < 40; ++i) job.collective(1, all_8, 5, [](int g) { return g == 5 ? 40.0 : 10.0; });
  const Explanation e = job.explain();
  REQUIRE(e.causes.size() == 1);
  CHECK(e.causes[0].kind == Cause::Kind::gpu);
  CHECK(e.causes[0].gpu == 5);
  // 45 ms an operation, 15 without it.
  CHECK(e.length_without_ns / e.length_ns == Approx(1.0 / 3).margin(0.03));
}

TEST_CASE("Without a slow GPU the collectives take as long in which it takes part as those of others") {
  const auto without_ms = [](bool slow) {
    Job job(8);
    for (int i = 0; i < 40; ++i) {
      for (int pair = 0; pair < 4; ++pair) {
        const bool here = slow && pair == 1;
        job.collective(10 + static_cast<uint64_t>(pair), {2 * pair, 2 * pair + 1}, here ? 20 : 2,
                       [=](int g) { return here && g == 2 ? 9.0 : 3.0; });
      }
      job.collective(50, all_8, 1, [](int) { return 1.0; });
    }
    const Explanation e = job.explain();
    CHECK(e.causes.size() == (slow ? 1 : 0));
    return (slow ? e.length_without_ns : e.length_ns) / ms;
  };
  CHECK(without_ms(true) == Approx(without_ms(false)).epsilon(0.05));
}

TEST_CASE("A late host is told from a slow GPU by its launches") {
  Job job(8);
  job.late_host = 2;
  for (int i = 0; i < 40; ++i) job.collective(1, all_8, 5, [](int g) { return g == 2 ? 40.0 : 10.0; });
  const Explanation e = job.explain();
  REQUIRE(e.causes.size() == 1);
  CHECK(e.causes[0].kind == Cause::Kind::host);
  CHECK(e.causes[0].gpu == 2);
}

TEST_CASE(
    "A slow GPU that its host calls late, as all do, is told from its host, however well machines' clocks are known") {
  const double error_ms = GENERATE(-30.0, 0.0, 30.0);
  CAPTURE(error_ms);
  Job job(8);
  job.clock_error_ms = [&](int g) { return g < 4 ? 0 : error_ms; };
  job.queues_ms = [](int g) { return g == 5 ? 40.0 : 0.0; };
  for (int i = 0; i < 40; ++i) job.collective(1, all_8, 5, [](int g) { return 100.0 + (g == 5 ? 40.0 : 0.0); });
  const Explanation e = job.explain();
  REQUIRE(e.causes.size() == 1);
  CHECK(e.causes[0].kind == Cause::Kind::gpu);
  CHECK(e.causes[0].gpu == 5);
}

TEST_CASE("Of replays of a graph the late host is told from the slow GPU by what is within them") {
  for (const Cause::Kind kind : {Cause::Kind::host, Cause::Kind::gpu}) {
    Job job(8);
    for (job.replay = 1; job.replay <= 20; ++job.replay) {
      job.ops[1] = 0;
      for (int i = 0; i < 4; ++i)
        job.collective(1, all_8, 2, [&](int g) {
          const double gpu_ms = g == 3 && kind == Cause::Kind::gpu ? 15 : 10;
          return (i == 0 ? gpu_ms + (g == 3 && kind == Cause::Kind::host ? 25 : 5) : gpu_ms) + (g + i) % 3 * 0.1;
        });
    }
    const Explanation e = job.explain();
    REQUIRE(e.causes.size() == 1);
    CHECK(e.causes[0].gpu == 3);
    CHECK(e.causes[0].kind == kind);
  }
}

TEST_CASE("Two that are equally slow are both named: without one of them nothing is gained") {
  Job job(8);
  for (int i = 0; i < 40; ++i) job.collective(1, all_8, 5, [](int g) { return g == 1 || g == 6 ? 40.0 : 10.0; });
  const Explanation e = job.explain();
  std::set<int> named;
  for (const Cause& c : e.causes) named.insert(c.gpu);
  CHECK(named == std::set<int>{1, 6});
}

TEST_CASE("A quarter of many GPUs that is slow is named whole, however many these are") {
  Job job(96);
  std::vector<int> all(96);
  std::iota(all.begin(), all.end(), 0);
  for (int i = 0; i < 40; ++i) job.collective(1, all, 5, [](int g) { return g % 4 == 1 ? 40.0 + g % 7 : 20.0; });
  const Explanation e = job.explain();
  std::set<int> named;
  for (const Cause& c : e.causes) named.insert(c.gpu);
  CHECK(named.size() == 24);
  CHECK(std::all_of(named.begin(), named.end(), [](int g) { return g % 4 == 1; }));
  CHECK(e.length_without_ns / e.length_ns < 0.6);
}

TEST_CASE("Of two hosts that are equally many the slow one is told, also where it was slow from the start") {
  Job job(8);
  for (int i = 0; i < 40; ++i)
    job.collective(1, all_8, 5, [&](int g) { return (g < 4 ? 10.0 : 14.0) + (g * 7 + i * 3) % 5 * 0.2; });
  const Explanation e = job.explain();
  std::set<int> gpus;
  for (const Cause& c : e.causes) gpus.insert(c.gpu);
  CHECK(gpus == std::set<int>{4, 5, 6, 7});
}

TEST_CASE("A late rank and a connection that has become slow are both named, although the job waits for others then") {
  // GPUs 4 to 7 need 80 ms an iteration; the other four 105, and 60 without either cause: one of them is enough.
  Job job(8);
  const auto iterations = [&](int n, double late_ms, double transfer_ms) {
    for (int i = 0; i < n; ++i) {
      job.collective(1, {0, 1, 2, 3}, transfer_ms, [&](int g) { return g == 2 ? late_ms : 20.0; });
      job.collective(2, {4, 5, 6, 7}, 60, [](int) { return 20.0; });
      job.collective(3, all_8, 1, [](int) { return 1.0; });
    }
  };
  iterations(40, 45, 60);
  const auto graph = job.graph();
  REQUIRE(graph);
  SlowCollectives slow;
  for (size_t i = 0; i < graph->groups.size(); ++i)
    if (graph->nodes[static_cast<size_t>(graph->groups[i].front())].kernel->comm == CommUid{1})
      slow.operations.push_back({static_cast<int>(i), 20.0 / 60});
  const auto kinds = [&] {
    std::set<Cause::Kind> out;
    for (const Cause& c : job.explain(*graph, find_late(*graph, job.timeline, job.past, job.settings), {slow}).causes)
      out.insert(c.kind);
    return out;
  };
  slow.changed = true;
  CHECK(kinds() == std::set{Cause::Kind::gpu, Cause::Kind::collectives});
  // It was so slow from the start on: late ranks make healthy connections look slow, too.
  slow.changed = false;
  CHECK(kinds() == std::set{Cause::Kind::gpu});
  // A small part of the loss is none beside the other.
  slow.changed = true;
  for (auto& [group, lost_part] : slow.operations) lost_part = 2.0 / 60;
  CHECK(kinds() == std::set{Cause::Kind::gpu});
}

TEST_CASE("A wire that is slow in several communicators, in each of them little, is one cause") {
  // An iteration takes 100 ms; without the wire each communicator's operations would take 3.5 ms less.
  Job job(8);
  for (int i = 0; i < 40; ++i)
    for (uint64_t comm : {1, 2}) job.collective(comm, all_8, 10, [](int) { return 40.0; });
  const auto graph = job.graph();
  REQUIRE(graph);
  std::vector<SlowCollectives> slow(2);
  for (size_t i = 0; i < graph->groups.size(); ++i)
    for (size_t comm : {0, 1})
      if (graph->nodes[static_cast<size_t>(graph->groups[i].front())].kernel->comm == CommUid{comm + 1})
        slow[comm].operations.push_back({static_cast<int>(i), 0.35});
  const auto link = [](int sender, int receiver) {
    SlowLink l;
    l.sender = l.at = Rank{sender}, l.receiver = Rank{receiver};
    return std::vector<SlowLink>{l};
  };
  const auto causes = [&] {
    return job.explain(*graph, find_late(*graph, job.timeline, job.past, job.settings), slow).causes;
  };
  slow[0].links = link(3, 4);
  slow[1].links = link(2, 5);  // from the same host to the same host
  const std::vector<Cause> both = causes();
  REQUIRE(both.size() == 2);
  for (const Cause& c : both) CHECK(c.gain_ns == Approx(graph->length_ns * 0.035).epsilon(0.05));
  slow[1].links = link(4, 3);  // the other way
  CHECK(causes().empty());
  // What shows little beside what is enough by itself is not needed.
  slow[1].links = link(2, 5);
  for (auto& [group, lost_part] : slow[0].operations) lost_part = 0.8;
  const std::vector<Cause> one = causes();
  REQUIRE(one.size() == 1);
  CHECK(one[0].collectives == 0);
  CHECK(one[0].gain_ns == Approx(graph->length_ns * 0.08).epsilon(0.05));
}

TEST_CASE("Who waits for a slow GPU in another communicator is no cause") {
  Job job(8);
  for (int i = 0; i < 40; ++i) {
    for (int t = 0; t < 4; ++t)
      job.collective(10 + static_cast<uint64_t>(t), {2 * t, 2 * t + 1}, 1, [](int g) { return g == 5 ? 20.0 : 5.0; });
    for (int d = 0; d < 2; ++d)
      job.collective(20 + static_cast<uint64_t>(d), {d, d + 2, d + 4, d + 6}, 4, [](int) { return 1.0; });
  }
  const Explanation e = job.explain();
  REQUIRE(e.causes.size() == 1);
  CHECK(e.causes[0].gpu == 5);
}

TEST_CASE("Who waits for the root of a Broadcast waits for its host, and a root that left has waited for nobody") {
  Job job(4);
  for (int i = 0; i < 40; ++i) {
    job.collective(1, {0, 1, 2, 3}, 2, [](int) { return 10.0; });
    job.broadcast(1, {0, 1, 2, 3}, 2, [](int g) { return g == 0 ? 30.0 : 5.0; });
  }
  const Explanation e = job.explain();
  REQUIRE(e.causes.size() == 1);
  CHECK(e.causes[0].gpu == 0);
  CHECK(e.causes[0].gain_ns == Approx(25 * 40 * ms).epsilon(0.05));
  // One that only receives is late, while the others leave without it: until the next operation nobody waits.
  Job other(4);
  for (int i = 0; i < 40; ++i) {
    other.broadcast(1, {0, 1, 2, 3}, 2, [](int g) { return g == 2 ? 30.0 : 5.0; });
    other.collective(1, {0, 1, 2, 3}, 2, [](int g) { return g == 2 ? 1.0 : 26.0; });
  }
  CHECK(other.explain().causes.empty());
}

TEST_CASE("A rank whose report was lost does not hide whom the others wait for") {
  Job job(8);
  int round = 0;
  job.loses = [&](int g) { return round % 4 == 0 && g == round / 4 % 7 + 1; };
  for (; round < 40; ++round) job.collective(1, all_8, 5, [](int g) { return g == 0 ? 40.0 : 10.0; });
  const Explanation e = job.explain();
  REQUIRE(e.causes.size() == 1);
  CHECK(e.causes[0].gpu == 0);
  // 30 ms of 45, in three of four operations: after a lost report a rank seems to compute meanwhile.
  CHECK(e.causes[0].gain_ns > 0.45 * e.length_ns);
}

TEST_CASE("What others wait for is known where a report of the GPU between them was lost") {
  const auto shorter_part = [](bool loses) {
    Job job(3);
    for (int i = 0; i < 21; ++i) {
      // GPU 2 waits for GPU 1, and that for GPU 0.
      job.loses = [&](int g) { return loses && g == 1 && i % 3 == 1; };
      job.collective(1, {0, 1}, 1, [](int g) { return g == 0 ? 20.0 : 1.0; });
      job.loses = nullptr;
      job.collective(2, {1, 2}, 1, [](int) { return 2.0; });
    }
    const std::optional<Graph> g = job.graph();
    REQUIRE(g);
    CHECK(length_with(*g, Change(g->nodes.size())).ns == Approx(g->length_ns));
    Change change(g->nodes.size());
    for (int i = g->gpus[0].first; i < g->gpus[0].second; ++i) change.own_less_ns[static_cast<size_t>(i)] = 15 * ms;
    return length_with(*g, change).ns / g->length_ns;
  };
  CHECK(shorter_part(true) == Approx(shorter_part(false)).margin(0.02));
}

TEST_CASE("A Send that ended when its Recv was launched has waited for what the host of that waited for") {
  // For how long all kernels of GPU 1 are queued nobody knows: by that its launches seem to be later than they are.
  const double always_queued_ms = GENERATE(0.0, 2.0);
  Job job(3);
  job.queues_ms = [&](int g) { return g == 1 ? always_queued_ms : 0.0; };
  for (int i = 0; i < 20; ++i) {
    // Only GPU 0 has much to do, and cannot before GPU 1 has reduced, whose GPU takes up the Recv 9 ms later.
    job.collective(1, {0, 1, 2}, 1, [&](int g) { return i > 0 && g == 0 ? 60.0 : 5.0; });
    const double send_ms = job.now_ms[0] + 1;
    job.collective(2, {1, 2}, 50, [](int) { return 2.0; });
    const double launch_ms = job.now_ms[1], recv_ms = launch_ms + 9;
    const uint64_t seq = static_cast<uint64_t>(i) + 1;
    job.add_call(3, 0, 0, abi::Direction::send, 1, seq, send_ms, launch_ms, {});
    job.add_call(3, 1, 1, abi::Direction::recv, 0, seq, recv_ms, recv_ms + 1, {}, launch_ms);
    job.now_ms[0] = launch_ms, job.now_ms[1] = recv_ms + 1;
  }
  const std::optional<Graph> g = job.graph();
  REQUIRE(g);
  CHECK(length_with(*g, Change(g->nodes.size())).ns == Approx(g->length_ns));
  Change change(g->nodes.size());
  for (size_t i = 0; i < g->nodes.size(); ++i)
    if (g->nodes[i].kernel->comm == CommUid{2}) change.transfer_less_ns[i] = 40 * ms;
  CHECK(g->length_ns - length_with(*g, change).ns == Approx(20 * 40 * ms).epsilon(0.05));
}

TEST_CASE("What a slow connection costs is known where one end of a transfer was not reported") {
  const auto shorter_part = [](bool loses_send, bool loses_recv) {
    Job job(3);
    for (int i = 0; i < 21; ++i) {
      job.loses = [&](int g) { return i % 3 == 1 && ((g == 0 && loses_send) || (g == 1 && loses_recv)); };
      job.transfer(1, 0, 1, true, 1, 20);
      job.loses = nullptr;
      job.collective(2, {0, 1, 2}, 1, [](int) { return 2.0; });
    }
    const std::optional<Graph> g = job.graph();
    REQUIRE(g);
    CHECK(length_with(*g, Change(g->nodes.size())).ns == Approx(g->length_ns));
    Change change(g->nodes.size());
    for (const Transfer& t : g->transfers)
      for (int end : {t.send, t.recv}) change.transfer_less_ns[static_cast<size_t>(end)] = 15 * ms;
    return length_with(*g, change).ns / g->length_ns;
  };
  const double whole = shorter_part(false, false);
  CHECK(whole < 0.5);
  CHECK(shorter_part(true, false) == Approx(whole).margin(0.02));
  CHECK(shorter_part(false, true) == Approx(whole).margin(0.02));
}

TEST_CASE("Imbalance that moves, and what happens rarely, is no cause") {
  Job moves(8);
  for (int i = 0; i < 80; ++i) moves.collective(1, all_8, 5, [&](int g) { return (i * 5 + g) % 8 == 0 ? 60.0 : 10.0; });
  CHECK(moves.explain().causes.empty());
  Job rare(8);
  for (int i = 0; i < 80; ++i)
    rare.collective(1, all_8, 5, [&](int g) { return g == 0 && i % 40 == 3 ? 400.0 : 10.0; });
  CHECK(rare.explain().causes.empty());
}

TEST_CASE("A GPU that pauses now and then is told from its peers: it is always the late one") {
  Job job(8);
  for (int i = 0; i < 40; ++i)
    job.collective(1, all_8, 5,
                   [&](int g) { return (g == 3 && i % 4 == 0 ? 60.0 : 10.0) + (g * 7 + i * 3) % 5 * 0.1; });
  const Explanation e = job.explain();
  REQUIRE(e.causes.size() == 1);
  CHECK(e.causes[0].gpu == 3);
}

TEST_CASE("Of two ranks that differ nobody is named: neither has peers") {
  Job job(2);
  for (int i = 0; i < 40; ++i) job.collective(1, {0, 1}, 5, [](int g) { return g == 0 ? 40.0 : 10.0; });
  CHECK(job.explain().causes.empty());
}

TEST_CASE("Two of a role are compared with each other where the other roles say what is usual") {
  // Four stages of two GPUs each. The first and the last one have roles of their own.
  const auto causes = [](auto own_ms) {
    Job job(8);
    for (int i = 0; i < 40; ++i) {
      for (int s = 0; s < 4; ++s) {
        for (int g : {2 * s, 2 * s + 1})
          if (s > 0) job.transfer(30 + static_cast<uint64_t>(g), g - 2, g, true, 0.5, 1);
        const auto reduce = [&] {
          job.collective(40 + static_cast<uint64_t>(s), {2 * s, 2 * s + 1}, 2, [&](int g) { return own_ms(g, i); });
        };
        reduce(), reduce();
      }
    }
    return job.explain().causes;
  };
  // A stage may be longer than the others, and either of its GPUs now and then.
  CHECK(causes([](int g, int i) { return g < 2 ? 30.0 : i % 2 == g % 2 ? 11.0 : 10.0; }).empty());
  for (int slow : {1, 6}) {
    const std::vector<Cause> found = causes([&](int g, int) { return g == slow ? 40.0 : 10.0; });
    REQUIRE(found.size() == 1);
    CHECK(found[0].gpu == slow);
    CHECK(found[0].peers == 1);
  }
}

TEST_CASE("A GPU without peers is told by its past, unless all have become slower") {
  for (const bool all : {false, true}) {
    Job job(2);
    const auto window = [&](double slow) {
      for (int i = 0; i < 40; ++i)
        job.collective(1, {0, 1}, 5, [&](int g) { return g == 0 || all ? 10.0 * slow : 10.0; });
      return job.end_window();
    };
    for (int w = 0; w < 4; ++w) CHECK(window(1).causes.empty());
    const Explanation e = window(3);
    if (all) {
      CHECK(e.causes.empty());
      continue;
    }
    REQUIRE(e.causes.size() == 1);
    CHECK(e.causes[0].gpu == 0);
    CHECK(e.causes[0].peers == 0);
    CHECK(e.causes[0].reference_ns == Approx(10 * ms).epsilon(0.05));
  }
}

TEST_CASE("Where all take so many times as long as before, or so much longer, nobody is late, however much he does") {
  for (const bool times : {false, true}) {
    Job job(4);
    for (int window = 0; window < 6; ++window) {
      const auto own_ms = [&](double usual_ms) {
        return window < 5 ? usual_ms : times ? 1.5 * usual_ms : usual_ms + 10;
      };
      for (int i = 0; i < 20; ++i) {
        job.collective(1, {0, 1}, 2, [&](int) { return own_ms(10); });
        job.collective(2, {2, 3}, 2, [&](int) { return own_ms(40); });
      }
      CHECK(job.end_window().causes.empty());
    }
  }
}

TEST_CASE("What is slow does not become usual: it is told for as long as it lasts") {
  Job job(2);
  for (int w = 0; w < 30; ++w) {
    for (int i = 0; i < 40; ++i) job.collective(1, {0, 1}, 5, [&](int g) { return g == 0 && w > 3 ? 40.0 : 10.0; });
    CHECK(job.end_window().causes.size() == (w > 3 ? 1 : 0));
  }
}

TEST_CASE("The only connection of a pipeline is told by its past") {
  Job job(2);
  job.facts[1].host = 1;
  for (int w = 0; w < 5; ++w) {
    for (int i = 0; i < 40; ++i) {
      job.transfer(30, 0, 1, true, 5, w == 4 ? 50 : 2);
      job.transfer(30, 1, 0, false, 5, 2);
    }
    const Explanation e = job.end_window();
    if (w < 4) {
      CHECK(e.causes.empty());
      continue;
    }
    REQUIRE(e.causes.size() == 1);
    CHECK(e.causes[0].kind != Cause::Kind::gpu);
    CHECK(e.causes[0].reference_ns == Approx(2 * ms).epsilon(0.3));
  }
}

TEST_CASE("From the start on, the two directions of the only wire of a pipeline are compared") {
  const auto causes = [](double up_ms, double down_ms, double rate_min_mbit_s = 20) {
    Job job(2);
    job.facts[1].host = 1;
    for (GpuFacts& f : job.facts) f.proxy_away_part = 0;
    job.settings.network_rate_min_mbit_s = rate_min_mbit_s;
    for (int i = 0; i < 40; ++i) {
      job.transfer(30, 0, 1, true, 5, up_ms);
      job.transfer(30, 1, 0, false, 5, down_ms);
      job.collective(50, {0, 1}, 1, [](int) { return 0.5; });  // tells the clocks of the two GPUs
    }
    return job.explain().causes;
  };
  const auto slow = causes(50, 2);
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].kind == Cause::Kind::connection);
  CHECK(slow[0].gpu == 0);
  CHECK(slow[0].measured_ns == Approx(50 * ms).epsilon(0.1));
  CHECK(slow[0].reference_ns == Approx(2 * ms).epsilon(0.3));
  CHECK(slow[0].peers == 1);
  CHECK(causes(5, 2).empty());  // with one peer, only what takes whatif_lone_times_min times as long counts
  // Both are slow: nothing tells but what the settings expect, for 64 KiB.
  CHECK(causes(30, 30).empty());
  CHECK(causes(80, 80, 0).empty());
  const auto both = causes(80, 80);
  REQUIRE(both.size() == 2);
  for (const Cause& c : both) {
    CHECK(c.kind == Cause::Kind::connection);
    CHECK((c.expected && c.peers == 0));
    CHECK(c.reference_ns == Approx((10 + 65536 * 8 / 20e3) * ms));
  }
}

TEST_CASE("Where only hosts compare the clocks of two stages, a direction may seem slow by as much as they are wrong") {
  const auto causes = [](double up_ms, double error_ms, int machines, double queues_ms = 0) {
    Job job(8);
    for (int g = 4; g < 8; ++g) job.facts[static_cast<size_t>(g)].machine = machines - 1;
    job.clock_error_ms = [&](int gpu) { return gpu < 4 ? 0 : error_ms; };
    job.queues_ms = [&](int gpu) { return gpu < 4 ? 1 : 1 + queues_ms; };
    for (int i = 0; i < 40; ++i) {
      job.collective(40, {0, 1, 2, 3}, 1, [](int) { return 1.0; });
      job.collective(41, {4, 5, 6, 7}, 1, [](int) { return 1.0; });
      for (int p = 0; p < 4; ++p) {
        job.transfer(30 + static_cast<uint64_t>(p), p, p + 4, true, 5, up_ms);
        job.transfer(30 + static_cast<uint64_t>(p), p + 4, p, false, 5, 2);
      }
    }
    return job.explain().causes;
  };
  CHECK(causes(2, 0, 2).empty());
  for (const double error_ms : {-2.0, 2.0}) CHECK(causes(2, error_ms, 2).empty());
  const auto slow = causes(50, 2, 2);
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].kind == Cause::Kind::wire);
  // The GPUs of a machine have one clock of the host, but all kernels of a stage may queue for longer.
  for (const double queues_ms : {-0.9, 2.0}) CHECK(causes(2, 0, 1, queues_ms).empty());
  CHECK(causes(20, 0, 1).size() == 1);
}

TEST_CASE("Where threads wait for processors everywhere, a transfer is slow by more than that explains") {
  const auto causes = [](double slow_ms, double turn_wait_ms) {
    Job job(4);
    for (int g = 0; g < 4; ++g) job.facts[g].host = g / 2;
    job.turn_wait_ms = turn_wait_ms;
    for (int i = 0; i < 40; ++i) {
      job.transfer(30, 0, 2, true, 5, slow_ms);
      job.transfer(31, 1, 3, true, 5, 2);
      job.transfer(30, 2, 0, false, 5, 2);
      job.transfer(31, 3, 1, false, 5, 2);
      job.collective(50, {0, 1, 2, 3}, 1, [](int) { return 0.5; });
    }
    return job.explain().causes;
  };
  CHECK(causes(24, 0).size() == 1);
  CHECK(causes(24, 1.6).empty());  // 22 ms longer; 15 turns are 24 ms
  CHECK(causes(80, 1.6).size() == 1);
}

TEST_CASE("What all wait for a processor is what the median process does on the host on which it waits least") {
  std::vector<GpuFacts> facts(6);
  for (size_t g = 0; g < facts.size(); ++g) facts[g].host = static_cast<int>(g / 3);
  CHECK(common_turn_wait_ns(facts) == 0);
  const double waits_ms[] = {4, 4, 90, 3, 3, 0.1};
  for (size_t g = 0; g < facts.size(); ++g) facts[g].turn_wait_ns = waits_ms[g] * ms;
  CHECK(common_turn_wait_ns(facts) == 3 * ms);
  // The other host has processors: the first one is short of them, and its processes are late for that.
  for (size_t g = 3; g < facts.size(); ++g) facts[g].turn_wait_ns = 0.01 * ms;
  CHECK(common_turn_wait_ns(facts) == 0.01 * ms);
}

TEST_CASE("Of experts that exchange other sizes each time the late one is told by the others") {
  const auto causes = [](int slow) {
    Job job(8);
    uint64_t drawn = 1;
    const auto bytes = [&](int, int) { return (drawn = drawn * 6364136223846793005u + 1) >> 44; };
    for (int i = 0; i < 40; ++i)
      for (int layer = 0; layer < 2; ++layer)
        job.exchange(
            1, all_8, 3, [&](int g) { return (g == slow ? 16.0 : 10.0) + (g * 7 + i * 3) % 5 * 0.1; }, bytes);
    return job.explain().causes;
  };
  CHECK(causes(-1).empty());
  for (int slow : {0, 5}) {
    const std::vector<Cause> found = causes(slow);
    REQUIRE(found.size() == 1);
    CHECK(found[0].gpu == slow);
    CHECK(found[0].peers == 7);
  }
}

TEST_CASE("A connection whose transfers are never of the same size is told by its past") {
  const auto causes = [](double later_ms) {
    Job job(2);
    job.facts[1].host = 1;
    std::vector<Cause> found;
    for (int window = 0; window < 10; ++window) {
      for (int i = 0; i < 40; ++i) {
        job.bytes_of_call = static_cast<uint64_t>((1 << 20) + 39'997 * i + 131 * window);
        job.transfer(1, 0, 1, true, 5, window < 9 ? 2 : later_ms);
        job.transfer(1, 1, 0, false, 5, 2);
      }
      found = job.end_window().causes;
    }
    return found;
  };
  CHECK(causes(2).empty());
  const std::vector<Cause> found = causes(50);
  REQUIRE(!found.empty());
  for (const Cause& c : found) {
    CHECK(c.kind != Cause::Kind::gpu);
    CHECK(c.reference_ns == Approx(2 * ms).epsilon(0.3));
  }
}

TEST_CASE("Stages of a pipeline have roles of their own: the longer one is no straggler") {
  Job job(8);
  for (int i = 0; i < 40; ++i) {
    for (int p = 0; p < 4; ++p) {
      const auto comm = 30 + static_cast<uint64_t>(p);
      job.transfer(comm, p, p + 4, true, 5, 1);
      job.transfer(comm, p + 4, p, false, 25, 1);
    }
    for (int s = 0; s < 2; ++s)
      job.collective(40 + static_cast<uint64_t>(s), {4 * s, 4 * s + 1, 4 * s + 2, 4 * s + 3}, 2,
                     [](int) { return 1.0; });
  }
  CHECK(job.explain().causes.empty());
}

TEST_CASE("A stage in the middle that has a layer more than the next one is no straggler") {
  Job job(12);  // four stages of three GPUs
  const auto own_ms = [](int g) { return (g / 3 == 1 ? 12.0 : 10.0) + g % 3 * 0.05; };
  for (int i = 0; i < 40; ++i) {
    for (int g = 0; g < 9; ++g) job.transfer(30 + static_cast<uint64_t>(g), g, g + 3, true, own_ms(g), 1);
    for (int g = 8; g >= 0; --g) job.transfer(30 + static_cast<uint64_t>(g), g + 3, g, false, own_ms(g + 3), 1);
    for (int s = 0; s < 4; ++s)
      job.collective(60 + static_cast<uint64_t>(s), {3 * s, 3 * s + 1, 3 * s + 2}, 2, [](int) { return 1.0; });
  }
  CHECK(job.explain().causes.empty());
}

TEST_CASE("A last stage that computes more is no straggler, however many calls all stages have in common") {
  Job job(8);  // four stages of two GPUs
  const auto reduce = [&](int stage, double first_ms, double ms) {
    for (int layer = 0; layer < 10; ++layer)
      job.collective(40 + static_cast<uint64_t>(stage), {2 * stage, 2 * stage + 1}, 1,
                     [&](int) { return layer == 0 ? first_ms : ms; });
  };
  const auto send = [&](int from, int to) {
    for (int t = 0; t < 2; ++t)
      job.transfer(static_cast<uint64_t>(50 + 10 * t + std::min(from, to)), 2 * from + t, 2 * to + t, from < to, 0.5,
                   0.5);
  };
  for (int i = 0; i < 20; ++i) {
    for (int s = 0; s < 4; ++s) {
      reduce(s, 2, 2);
      if (s < 3) send(s, s + 1);
    }
    for (int s = 3; s >= 0; --s) {
      reduce(s, s == 3 ? 25 : 4, 4);
      if (s > 0) send(s, s - 1);
    }
  }
  CHECK(job.explain().causes.empty());
}

TEST_CASE("A wire that only the Sends of a pipeline cross is told by all of its connections together") {
  Job job(8);
  job.collective(50, all_8, 1, [](int) { return 0.5; });  // GPUs are numbered as they are heard of
  for (int i = 0; i < 40; ++i) {
    for (int p = 0; p < 4; ++p) {
      const auto comm = 30 + static_cast<uint64_t>(p);
      job.transfer(comm, p, p + 4, true, 5, 50);
      job.transfer(comm, p + 4, p, false, 5, 2);
    }
    for (int s = 0; s < 2; ++s)
      job.collective(40 + static_cast<uint64_t>(s), {4 * s, 4 * s + 1, 4 * s + 2, 4 * s + 3}, 2,
                     [](int) { return 1.0; });
    job.collective(50, all_8, 1, [](int) { return 0.5; });
  }
  const Explanation e = job.explain();
  REQUIRE(e.causes.size() == 1);
  CHECK(e.causes[0].kind == Cause::Kind::wire);
  CHECK(e.causes[0].transfers.size() == 160);
  CHECK(e.causes[0].measured_ns == Approx(50 * ms).epsilon(0.1));
  CHECK(e.causes[0].reference_ns == Approx(2 * ms).epsilon(0.3));
}

TEST_CASE("Peers that have become slow, too, are no reference: what there was before is") {
  Job job(8);
  for (int w = 0; w < 5; ++w) {
    job.collective(50, all_8, 1, [](int) { return 0.5; });
    for (int i = 0; i < 20; ++i) {
      for (int p = 0; p < 4; ++p) {
        const auto comm = 30 + static_cast<uint64_t>(p);
        job.transfer(comm, p, p + 4, true, 5, w == 4 ? 120 : 2);
        job.transfer(comm, p + 4, p, false, 5, w == 4 ? 30 : 2);
      }
      job.collective(50, all_8, 1, [](int) { return 0.5; });
    }
    const Explanation e = job.end_window();
    if (w < 4) {
      CHECK(e.causes.empty());
      continue;
    }
    REQUIRE(e.causes.size() == 2);
    for (const Cause& c : e.causes) {
      CHECK(c.kind == Cause::Kind::wire);
      CHECK(c.peers == 0);
      CHECK(c.reference_ns == Approx(2 * ms).epsilon(0.3));
    }
    CHECK(e.length_without_ns < 0.4 * e.length_ns);
  }
}

TEST_CASE("A few transfers that take very long make no connection slow") {
  const auto causes_with = [](int every) {
    Job job(8);
    job.collective(50, all_8, 1, [](int) { return 0.5; });
    for (int i = 0; i < 40; ++i) {
      for (int p = 0; p < 4; ++p) {
        job.transfer(30 + static_cast<uint64_t>(p), p, p + 4, true, 5, p == 1 && i % every == 0 ? 150 : 2);
        job.transfer(30 + static_cast<uint64_t>(p), p + 4, p, false, 5, 2);
      }
      job.collective(50, all_8, 1, [](int) { return 0.5; });
    }
    return job.explain().causes;
  };
  CHECK(causes_with(4).empty());
  const auto half = causes_with(2);
  REQUIRE(half.size() == 1);
  CHECK(half[0].kind == Cause::Kind::connection);
  CHECK(half[0].gpu == 1);
}

TEST_CASE("Stages of a transfer tell whose proxy, or that the network, makes it slow") {
  const auto cause_of = [](const Waits& waits) {
    Job job(8);
    job.collective(50, all_8, 1, [](int) { return 0.5; });
    const Waits healthy{0.2, 0.1, 0.1, 0.1};
    for (int i = 0; i < 40; ++i) {
      for (int p = 0; p < 4; ++p) {
        const auto comm = 30 + static_cast<uint64_t>(p);
        job.transfer(comm, p, p + 4, true, 5, p == 1 ? 50 : 2, 0.1, p == 1 ? &waits : &healthy);
        job.transfer(comm, p + 4, p, false, 5, 2, 0.1, &healthy);
      }
      job.collective(50, all_8, 1, [](int) { return 0.5; });
    }
    const Explanation e = job.explain();
    REQUIRE(e.causes.size() == 1);
    CHECK(e.causes[0].transfers.size() == 40);
    return e.causes[0];
  };
  // 20 steps wait for 20 ms of 50 each: 8 of them all the time.
  const Cause sender = cause_of({20, 0.1, 0.1, 0.1});
  CHECK(sender.kind == Cause::Kind::proxy);
  CHECK(sender.gpu == 1);
  const Cause receiver = cause_of({0.2, 0.1, 0.1, 20});
  CHECK(receiver.kind == Cause::Kind::proxy);
  CHECK(receiver.gpu == 5);
  // The network takes what it is given, up to all slots: in front of it no proxy has a queue.
  CHECK(cause_of({0.2, 20, 0.1, 0.1}).kind == Cause::Kind::connection);
  CHECK(cause_of({1, 0.1, 20, 0.1}).kind == Cause::Kind::connection);
  CHECK(cause_of({14, 0.1, 8, 0.1}).kind == Cause::Kind::proxy);
  // Something else takes most of the time.
  CHECK(cause_of({1, 0.1, 0.1, 0.1}).kind == Cause::Kind::connection);
}

TEST_CASE("A proxy that was seen not to poll is the cause, whatever else seems to wait") {
  Job job(8);
  job.collective(50, all_8, 1, [](int) { return 0.5; });
  for (int i = 0; i < 40; ++i) {
    for (int p = 0; p < 4; ++p) {
      const auto comm = 30 + static_cast<uint64_t>(p);
      const Waits waits{1, 1, 20, 1};
      job.transfer(comm, p, p + 4, true, 5, p == 2 ? 50 : 2, 0.1, p == 2 ? &waits : nullptr, 45'000);
      job.transfer(comm, p + 4, p, false, 5, 2);
    }
    job.collective(50, all_8, 1, [](int) { return 0.5; });
  }
  const Explanation e = job.explain();
  REQUIRE(e.causes.size() == 1);
  CHECK(e.causes[0].kind == Cause::Kind::proxy);
  CHECK(e.causes[0].gpu == 6);
}

TEST_CASE("Where processes count for how long their proxies do not look, that alone tells proxies") {
  const auto cause_with = [](double sender, double receiver, const Waits& waits) {
    Job job(8);
    job.collective(50, all_8, 1, [](int) { return 0.5; });
    for (GpuFacts& f : job.facts) f.proxy_away_part = 0.02;
    job.facts[1].proxy_away_part = sender, job.facts[5].proxy_away_part = receiver;
    const Waits healthy{0.2, 0.1, 0.1, 0.1};
    for (int i = 0; i < 40; ++i) {
      for (int p = 0; p < 4; ++p) {
        const auto comm = 30 + static_cast<uint64_t>(p);
        job.transfer(comm, p, p + 4, true, 5, p == 1 ? 50 : 2, 0.1, p == 1 ? &waits : &healthy);
        job.transfer(comm, p + 4, p, false, 5, 2, 0.1, &healthy);
      }
      job.collective(50, all_8, 1, [](int) { return 0.5; });
    }
    const Explanation e = job.explain();
    REQUIRE(e.causes.size() == 1);
    return e.causes[0];
  };
  const Waits on_the_wire{0.2, 0.1, 20, 0.1}, before_the_proxy{20, 0.1, 0.1, 0.1};
  const Cause sender = cause_with(0.9, 0.02, on_the_wire), receiver = cause_with(0.02, 0.9, on_the_wire);
  CHECK((sender.kind == Cause::Kind::proxy && sender.gpu == 1));
  CHECK((receiver.kind == Cause::Kind::proxy && receiver.gpu == 5));
  CHECK(cause_with(0.02, 0.1, on_the_wire).kind == Cause::Kind::connection);
  CHECK(cause_with(0.02, 0.1, before_the_proxy).kind == Cause::Kind::connection);
  // Both are away alike, on a busy machine: the stages tell.
  CHECK(cause_with(0.7, 0.6, on_the_wire).kind == Cause::Kind::connection);
  CHECK(cause_with(0.7, 0.6, before_the_proxy).kind == Cause::Kind::proxy);
}

}  // namespace ccld::decision::whatif
