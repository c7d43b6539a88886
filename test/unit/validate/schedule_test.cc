#include "decision/validate/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace ccld::decision::validate {
namespace {

std::vector<std::string> hosts(int count, int gpus) {
  std::vector<std::string> out;
  for (int r = 0; r < count * gpus; ++r) out.push_back("host" + std::to_string(r / gpus));
  return out;
}

Orders ring_of(int ranks) {
  Orders o = orders_by_rank(ranks);
  o.parents.clear();
  return o;
}

// A binary tree over ranks, as NCCL has it over hosts.
Orders tree_of(int ranks) {
  Orders o;
  std::vector<int> parents;
  for (int r = 0; r < ranks; ++r) parents.push_back(r == 0 ? -1 : (r - 1) / 2);
  o.parents.push_back(parents);
  return o;
}

void check_pass(const Pass& pass, const std::vector<std::string>& host_of) {
  std::set<int> ranks;
  std::multiset<std::string> sending, receiving;
  for (const Pair& p : pass) {
    CHECK(ranks.insert(p.from).second);
    CHECK(ranks.insert(p.to).second);
    const std::string &from = host_of[static_cast<size_t>(p.from)], &to = host_of[static_cast<size_t>(p.to)];
    if (from == to) continue;
    sending.insert(from);
    receiving.insert(to);
    if (!p.back) continue;
    sending.insert(to);
    receiving.insert(from);
  }
  for (const std::string& host : host_of) {
    CHECK(sending.count(host) <= 1);
    CHECK(receiving.count(host) <= 1);
  }
}

std::multiset<std::pair<int, int>> links_of(const std::vector<Pass>& passes) {
  std::multiset<std::pair<int, int>> links;
  for (const Pass& pass : passes)
    for (const Pair& p : pass) {
      links.insert({p.from, p.to});
      if (p.back) links.insert({p.to, p.from});
    }
  return links;
}

TEST_CASE("A ring takes two passes, or three where it is odd, however many ranks it has") {
  for (const int ranks : {2, 4, 6, 8, 16, 64, 1024}) CHECK(passes_of(ring_of(ranks), hosts(ranks, 1)).size() == 2);
  for (const int ranks : {3, 5, 7, 15, 1023}) CHECK(passes_of(ring_of(ranks), hosts(ranks, 1)).size() == 3);
}

TEST_CASE("A tree takes at most four passes, however many ranks it has") {
  for (const int ranks : {2, 3, 4, 7, 8, 16, 255, 1024}) CHECK(passes_of(tree_of(ranks), hosts(ranks, 1)).size() <= 4);
}

TEST_CASE("Every link of NCCL's orders is tested once, and no rank or network device does two things at a time") {
  std::mt19937 random(5);
  for (int turn = 0; turn < 200; ++turn) {
    const int count = 1 + static_cast<int>(random() % 6), gpus = 1 + static_cast<int>(random() % 8);
    const std::vector<std::string> host_of = hosts(count, gpus);
    const int ranks = count * gpus;
    Orders o = orders_by_rank(ranks);
    std::shuffle(o.rings[0].begin(), o.rings[0].end(), random);
    o.parents.push_back(tree_of(ranks).parents[0]);
    const std::vector<Pass> passes = passes_of(o, host_of);
    std::set<std::pair<int, int>> wanted;
    for (size_t i = 0; i < o.rings[0].size() && ranks > 1; ++i)
      wanted.insert({o.rings[0][i], o.rings[0][(i + 1) % o.rings[0].size()]});
    for (const std::vector<int>& parents : o.parents)
      for (int r = 0; r < ranks; ++r)
        if (const int above = parents[static_cast<size_t>(r)]; above >= 0) wanted.insert({{r, above}, {above, r}});
    const auto links = links_of(passes);
    CHECK(std::set(links.begin(), links.end()) == wanted);
    CHECK(links.size() == wanted.size());
    for (const Pass& pass : passes) check_pass(pass, host_of);
  }
}

TEST_CASE("A slow link is tested alone, and across with third hosts that have no slow link") {
  const std::vector<std::string> host_of = hosts(4, 2);
  const std::vector<std::pair<int, int>> slow = {{1, 2}};  // host 0 to host 1
  CHECK(lone_passes(slow, host_of) == std::vector<Pass>{{{1, 2, false}}});
  for (const auto& [from, to] : links_of(cross_passes(slow, host_of))) {
    CHECK((from == 1 || to == 2));
    CHECK((from == 1 ? to : from) >= 4);
  }
  CHECK(links_of(cross_passes(slow, host_of)).size() == 2);
  CHECK(cross_passes(slow, hosts(2, 2)).empty());
}

TEST_CASE("However many links are slow, the passes for them are bounded") {
  std::vector<std::pair<int, int>> slow;
  for (int r = 0; r < 100; ++r) slow.emplace_back(r, r + 1);
  CHECK(lone_passes(slow, hosts(128, 1)).size() <= extra_passes_max);
  CHECK(cross_passes(slow, hosts(128, 1)).size() <= extra_passes_max);
}

}  // namespace
}  // namespace ccld::decision::validate
