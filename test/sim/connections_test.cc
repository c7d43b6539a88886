#include "test/sim/faults/connections.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace ccld::sim {
namespace {

LayoutSizes two_stages_on_two_hosts(bool world) {
  LayoutSizes s;
  s.pipeline = 2;
  s.data = 4;
  s.gpus_per_host = 4;
  s.world = world;
  return s;
}

TEST_CASE("where each stage has a host only transfers use the network") {
  const Layout layout(two_stages_on_two_hosts(false));
  const PipelineNetwork network(layout, 2);
  CHECK(network.transfers() == std::vector<Edge>{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {4, 0}, {5, 1}, {6, 2}, {7, 3}});
  CHECK(network.links() == network.transfers());
  CHECK(network.between_hosts() == network.transfers());
  CHECK(network.senders() == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(network.beside({1, 5}) == std::vector<Edge>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

TEST_CASE(
    "the whole job's communicator takes its own connections and proxies out, and puts a few bytes beside the rest") {
  const Layout layout(two_stages_on_two_hosts(true));
  const PipelineNetwork network(layout, 1);
  // Its ring leaves the hosts at 3 and 7, its tree joins 0 and 4.
  CHECK(network.links() == std::vector<Edge>{{1, 5}, {2, 6}, {3, 7}, {5, 1}, {6, 2}, {7, 3}});
  CHECK(network.senders() == std::vector<int>{1, 2, 5, 6});
  CHECK(network.between_hosts() == network.transfers());
  CHECK(network.beside({1, 5}) == std::vector<Edge>{{0, 4}, {1, 5}, {2, 6}, {3, 4}, {3, 7}});
}

TEST_CASE("a link that gradients cross is not one that only the pipeline uses") {
  LayoutSizes s = two_stages_on_two_hosts(false);
  s.gpus_per_host = 2;  // a data group has two hosts, and so has each pair of stages
  const Layout layout(s);
  const PipelineNetwork network(layout, 1);
  CHECK(network_edges(layout, CommKind::data, 1).size() > 0);
  // Gradients go between hosts 0 and 1 and between 2 and 3, transfers between 0 and 2 and between 1 and 3.
  CHECK(network.between_hosts() == network.transfers());
  for (int busy : {1, 2, 5, 6}) CHECK(std::count(network.senders().begin(), network.senders().end(), busy) == 0);
  s.gpus_per_host = 3;  // hosts are 0 to 2, 3 to 5, 6 and 7
  const Layout crossed(s);
  const PipelineNetwork shared(crossed, 1);
  for (const Edge& e : shared.between_hosts())
    CHECK_FALSE((crossed.host_of(e.first) == 0 && crossed.host_of(e.second) == 1));
}

}  // namespace
}  // namespace ccld::sim
