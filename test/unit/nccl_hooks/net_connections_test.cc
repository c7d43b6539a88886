#include "nccl/hooks/net_connections.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace ccld;
using hooks::NetConnection;
using hooks::NetConnections;

namespace {

// Identities of resources and communicators: addresses of NCCL's objects.
const int resources = 1, other_resources = 2;
constexpr bool for_collectives = true, for_pairs = false;

NetConnection to(int peer) { return {abi::Direction::send, 0, peer, 1, "nic1"}; }

// What a communicator was told.
struct Comm {
  uint32_t hidden = 0;
  std::vector<int> peers;  // its ranks, of connections that collectives may use

  NetConnections::Listener listener() {
    return {[this](uint32_t more) { hidden |= more; },
            [this](const NetConnection& connection, int peer) {
              CHECK(connection.net_name == "nic1");
              peers.push_back(peer);
            }};
  }
};

}  // namespace

TEST_CASE(
    "a communicator is told of connections that another one of the same resources made before and after it came") {
  NetConnections connections;
  Comm parent, child;
  connections.joins(&resources, &parent, {0, 1, 2, 3}, parent.listener());
  connections.makes(&resources, &parent, to(2), for_collectives, abi::hidden_pxn);
  connections.joins(&resources, &child, {0, 2, 3}, child.listener());
  CHECK(child.hidden == abi::hidden_pxn);
  CHECK(child.peers == std::vector<int>{1});  // as the child numbers its ranks

  connections.makes(&resources, &child, to(3), for_collectives, abi::hidden_network);
  CHECK(parent.hidden == (abi::hidden_pxn | abi::hidden_network));
  CHECK(parent.peers == std::vector<int>{2, 3});
  CHECK(child.peers == std::vector<int>{1, 2});
}

TEST_CASE("a communicator is not told of connections to ranks that it does not have, nor of other resources") {
  NetConnections connections;
  Comm parent, child, stranger;
  connections.joins(&resources, &parent, {0, 1, 2, 3}, parent.listener());
  connections.joins(&resources, &child, {3, 0}, child.listener());
  connections.joins(&other_resources, &stranger, {0, 1, 2, 3}, stranger.listener());
  connections.makes(&resources, &parent, to(2), for_collectives, abi::hidden_pxn);
  for (const Comm* other : {&child, &stranger}) {
    CHECK(other->hidden == 0);
    CHECK(other->peers.empty());
  }
}

TEST_CASE("connections for pairs of ranks hide things and are no part of the topology") {
  NetConnections connections;
  Comm parent, child;
  connections.joins(&resources, &parent, {0, 1}, parent.listener());
  connections.makes(&resources, &parent, to(1), for_pairs, abi::hidden_network);
  connections.joins(&resources, &child, {0, 1}, child.listener());
  for (const Comm* each : {&parent, &child}) {
    CHECK(each->hidden == abi::hidden_network);
    CHECK(each->peers.empty());
  }
}

TEST_CASE("a communicator that connects before it joins is told when it joins") {
  NetConnections connections;
  Comm comm;
  connections.makes(&resources, &comm, to(1), for_collectives, abi::hidden_network);
  CHECK(comm.peers.empty());
  connections.joins(&resources, &comm, {0, 1}, comm.listener());
  CHECK(comm.hidden == abi::hidden_network);
  CHECK(comm.peers == std::vector<int>{1});
}

TEST_CASE("nothing is told to who has left, and resources are forgotten with their last communicator") {
  NetConnections connections;
  Comm parent, child, later;
  connections.joins(&resources, &parent, {0, 1}, parent.listener());
  connections.joins(&resources, &child, {0, 1}, child.listener());
  connections.leaves(&resources, &parent);
  connections.makes(&resources, &child, to(1), for_collectives, abi::hidden_pxn);
  CHECK(parent.hidden == 0);
  CHECK(child.hidden == abi::hidden_pxn);
  connections.leaves(&resources, &child);
  connections.leaves(&resources, &child);  // NCCL frees a communicator whose initialization failed once more
  CHECK(connections.resources_known() == 0);
  // Another one at the same address.
  connections.joins(&resources, &later, {0, 1}, later.listener());
  CHECK(later.hidden == 0);
}
