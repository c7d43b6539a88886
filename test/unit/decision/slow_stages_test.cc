#include "decision/locate/slow_stages.h"

#include <catch2/catch.hpp>
#include <map>
#include <utility>
#include <vector>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {
namespace {

constexpr double lost_ns = 1e9;
constexpr Edge slow{3, 4, 0};

struct Window {
  SlowWindow w;
  Window() { w.slow_rounds = 10, w.staged_ns = lost_ns; }
  // So many steps sit in the stage on average.
  Window& queue(const Edge& e, Stage s, double steps) {
    EdgeLoss& loss = w.edges[e];
    loss.steps = 1000;
    loss.rounds = 10;
    loss.waited_ns[static_cast<size_t>(s)] = steps * lost_ns;
    return *this;
  }
  Window& sent(const Edge& e, double steps) { return w.edges[e].sent_ns = steps * lost_ns, *this; }
  Window& by_late_start(const Edge& e, double steps) { return w.edges[e].unsure_wire_ns = steps * lost_ns, *this; }
};

std::vector<SlowStage> causes(const Window& of, bool network_only = false) {
  const Settings settings;
  const Communicator nobody(CommUid{1}, settings);
  return slow_stages(nobody, grown_stages(of.w, network_only));
}

// Of the one incident of a ring that has become slow like this.
Culprit only_culprit(std::vector<int> processes, std::map<std::pair<Edge, Stage>, Nanoseconds> stage_ns) {
  Settings quick;
  quick.slow_window_s = 5;
  fake::Cluster cluster(quick);
  fake::Comm& ring = cluster.add_comm(std::move(processes));
  ring.rounds(200);
  fake::RoundShape shape;
  shape.comm_ns = 60 * ns_per_ms;
  shape.stage_ns = std::move(stage_ns);
  ring.rounds(600, shape);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  REQUIRE(open[0].culprits.size() == 1);
  return open[0].culprits[0];
}

void check_only(const std::vector<SlowStage>& found, const Edge& edge, Stage stage) {
  REQUIRE(found.size() == 1);
  CHECK(found[0].edge == edge);
  CHECK(found[0].stage == stage);
}

}  // namespace

TEST_CASE("Up a tree, the other child's steps wait for the GPU that waits for a slow link: the link is the cause") {
  // Rank 4 reduces what ranks 3 and 5 send; rank 3 is behind the slow wire, and so is all below rank 5.
  Window w;
  w.queue(slow, Stage::sender_proxy, 3.1).queue(slow, Stage::wire, 3.8);
  w.queue({5, 4, 0}, Stage::receiver_gpu, 7.6).queue({6, 5, 0}, Stage::gpu_to_gpu, 7.6);
  check_only(causes(w), slow, Stage::wire);
}

TEST_CASE("While a tree waits for one child, the slots of its others fill up beyond what a slow proxy lets wait") {
  // The proxy of rank 6 delays what goes to rank 2, for which rank 1 waits, its other children behind it, and the root.
  Window w;
  w.queue({3, 1, 0}, Stage::receiver_gpu, 10).queue({4, 1, 0}, Stage::receiver_gpu, 10);
  w.queue({1, 0, 0}, Stage::receiver_gpu, 4.6).queue({5, 2, 0}, Stage::receiver_gpu, 3.2);
  w.queue({6, 2, 0}, Stage::sender_proxy, 4.1);
  check_only(causes(w), {6, 2, 0}, Stage::sender_proxy);
}

TEST_CASE("Other channels share the GPUs that wait, not the link: it is found from any of them") {
  Window w;
  w.queue(slow, Stage::wire, 4.3).queue(slow, Stage::receiver_gpu, 2.9);
  w.queue({1, 6, 2}, Stage::receiver_gpu, 3.8).queue({7, 4, 2}, Stage::gpu_to_gpu, 1.3);
  check_only(causes(w), slow, Stage::wire);
}

TEST_CASE("A GPU that does not take its steps is the cause if nothing waits in the network") {
  Window w;
  w.queue(slow, Stage::receiver_gpu, 7).queue({2, 3, 0}, Stage::gpu_to_gpu, 5);
  check_only(causes(w), slow, Stage::receiver_gpu);
}

TEST_CASE("Around a ring of GPUs the slow one is where the queues end, however little waits everywhere") {
  // GPU 4 takes its steps late; the slots in front of it are full, and so are those in front of the two before it.
  const std::vector<double> queues{1.3, 0.8, 5.4, 7.9, 5.1, 1.2, 0.6, 1.3};  // in front of ranks 0 to 7
  Window w;
  const auto fill = [&](const std::vector<double>& steps) {
    for (int32_t r = 0; r < 8; ++r) w.queue({(r + 7) % 8, r, 0}, Stage::gpu_to_gpu, steps[static_cast<size_t>(r)]);
  };
  fill(queues);
  check_only(causes(w), slow, Stage::gpu_to_gpu);
  // All GPUs wait alike, as on a machine that is busy: it is none of them.
  fill({5.3, 4.8, 5.4, 7.9, 5.1, 5.2, 4.6, 5.3});
  CHECK(causes(w).empty());
  // The queues end at one of two neighbours: nobody is named by chance.
  fill({0.6, 0.6, 5.4, 8, 2.7, 0.8, 0.7, 0.6});
  CHECK(causes(w).empty());
}

TEST_CASE("A slow GPU is where the queues of all channels together step down") {
  // In front of GPU 4 steps queue in both channels, behind it in neither; the second one alone steps down behind GPU 3.
  Window w;
  for (int32_t channel : {0, 1}) w.queue({3, 4, channel}, Stage::gpu_to_gpu, 7);
  w.queue({2, 3, 0}, Stage::gpu_to_gpu, 6).queue({2, 3, 1}, Stage::gpu_to_gpu, 7.5);
  w.queue({4, 5, 0}, Stage::gpu_to_gpu, 0.6).queue({4, 5, 1}, Stage::gpu_to_gpu, 0.6);
  w.queue({3, 4, 1}, Stage::gpu_to_gpu, 2.5);
  check_only(causes(w), slow, Stage::gpu_to_gpu);
}

TEST_CASE("A connection that few operations report is as slow as these say") {
  // On a busy machine a probe looks long enough at some operations only.
  Window w;
  w.queue(slow, Stage::wire, 4).queue({7, 0, 0}, Stage::wire, 1.5);
  EdgeLoss& seldom = w.w.edges.at(slow);
  seldom.rounds = 3, seldom.waited_ns[static_cast<size_t>(Stage::wire)] *= 0.3;
  check_only(causes(w), slow, Stage::wire);
}

TEST_CASE("Steps that a late receiver explains count only where nothing else does") {
  const Edge late{0, 1, 0};
  Window w;
  w.queue(late, Stage::wire, 4).by_late_start(late, 4);
  check_only(causes(w, true), late, Stage::wire);
  w.queue(slow, Stage::wire, 5);
  check_only(causes(w, true), slow, Stage::wire);
  // In front of a GPU that a late rank keeps, the network fills up too.
  const Edge kept{2, 5, 0};
  w.queue(kept, Stage::receiver_gpu, 7).queue(kept, Stage::sender_proxy, 4.7);
  check_only(causes(w, true), slow, Stage::wire);
}

TEST_CASE("Of wires of which none is surely slow the slowest is named, and what is nearly as slow") {
  const Edge other{0, 1, 0};
  Window w;
  w.queue(slow, Stage::wire, 10).by_late_start(slow, 10);
  w.queue(other, Stage::wire, 6).by_late_start(other, 6);
  check_only(causes(w), slow, Stage::wire);
  w.queue(other, Stage::wire, 9).by_late_start(other, 9);
  CHECK(causes(w).size() == 2);
  w.queue(other, Stage::wire, 6).by_late_start(other, 0).by_late_start(slow, 0);
  CHECK(causes(w).size() == 2);
}

TEST_CASE("A step at a time through a tree is on a slow wire for half of the time, around a ring all of it") {
  Window w;
  w.queue(slow, Stage::wire, 0.4);
  CHECK(causes(w).empty());
  w.w.signature.algorithm = abi::Algorithm::tree;
  check_only(causes(w), slow, Stage::wire);
}

TEST_CASE("Steps that were on the wire for certain had left the proxy behind which others wait") {
  Window w;
  w.queue(slow, Stage::sender_proxy, 5.5).queue(slow, Stage::wire, 3.9);
  check_only(causes(w), slow, Stage::sender_proxy);  // nobody knows the clocks
  w.sent(slow, 3.9);
  check_only(causes(w), slow, Stage::wire);
}

TEST_CASE("The opposite direction of a throttled wire waits for acknowledgements and is no second cause") {
  // On two nodes, one connection in each direction.
  const Culprit c = only_culprit(
      {0, 4}, {{{Edge{0, 1, 0}, Stage::wire}, 20 * ns_per_ms}, {{Edge{1, 0, 0}, Stage::wire}, 9 * ns_per_ms}});
  CHECK(c.rank == Rank{0});
  CHECK(c.peer == Rank{1});
}

TEST_CASE("A proxy that delays what its rank sends and what it receives is named once, as one proxy") {
  // Neighbours on different nodes.
  const Culprit c = only_culprit({0, 4, 1, 5, 2, 6, 3, 7}, {{{Edge{3, 4, 0}, Stage::sender_proxy}, 20 * ns_per_ms},
                                                            {{Edge{2, 3, 0}, Stage::receiver_proxy}, 18 * ns_per_ms}});
  CHECK(c.rank == Rank{3});
  CHECK(c.component == Component::proxy);
  CHECK_FALSE(c.peer.has_value());
}

}  // namespace ccld::decision
