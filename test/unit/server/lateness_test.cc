#include "decision/report/lateness.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace ccld::decision::report {
namespace {

using Micros = RecordedCall::Micros;

CommStatus ranks_on(const std::vector<std::string>& hosts) {
  CommStatus c;
  for (size_t r = 0; r < hosts.size(); ++r) {
    RankStatus rank;
    rank.rank = Rank(static_cast<int32_t>(r));
    rank.host = hosts[r];
    c.ranks.push_back(rank);
  }
  return c;
}

std::shared_ptr<const RecordedCall> call(const std::vector<double>& late) {
  auto c = std::make_shared<RecordedCall>();
  for (const double ms : late)
    c->late.push_back(ms < 0 ? Micros::none : Micros::encode(static_cast<uint64_t>(ms * 1e3)));
  return c;
}

}  // namespace

TEST_CASE("Ranks stand by host, hosts by their lowest rank, however they are named") {
  const CommStatus c = ranks_on({"node10", "node9", "node10", "node9"});
  std::vector<int32_t> order;
  for (const RankStatus* r : ranks_by_host(c)) order.push_back(r->rank.value);
  CHECK(order == std::vector<int32_t>{0, 2, 1, 3});
}

TEST_CASE("The worst are those that are late on average over what was measured") {
  const CommStatus c = ranks_on({"a", "a", "b", "b"});
  const auto ranks = ranks_by_host(c);
  const auto means = mean_late_ms(ranks, {call({0, 2, 40, -1}), call({1, 4, -1, -1})});
  CHECK(means[1] == Approx(3).epsilon(0.07));
  CHECK(means[2] == Approx(40).epsilon(0.07));
  CHECK(std::isnan(means[3]));
  CHECK(worst(means, 2) == std::vector<size_t>{2, 1});
  CHECK(worst(means, 10) == std::vector<size_t>{2, 1, 0});
}

TEST_CASE("Groups are whole hosts, and no more of them than asked for") {
  std::vector<std::string> hosts;
  for (int r = 0; r < 80; ++r) hosts.push_back(absl::StrCat("node", r / 8));
  const CommStatus c = ranks_on(hosts);
  const auto by_host = ranks_by_host(c);
  CHECK(host_groups(by_host, 20).size() == 10);
  const auto groups = host_groups(by_host, 4);
  REQUIRE(groups.size() == 4);
  CHECK(groups[0].hosts == 3);
  CHECK(groups[3].hosts == 1);
  CHECK(groups[3].first == 72);
  CHECK(groups[3].end == 80);
}

TEST_CASE("A group says its median, its 95th percentile and its latest") {
  std::vector<double> late;
  for (int r = 0; r < 100; ++r) late.push_back(r < 90 ? 1 : r < 99 ? 10 : 100);
  const CommStatus c = ranks_on(std::vector<std::string>(100, "node"));
  const auto by_host = ranks_by_host(c);
  const LateQuantiles q = late_quantiles(by_host, {0, 100, 1}, *call(late));
  CHECK(late_ms(q.median) == Approx(1).epsilon(0.07));
  CHECK(late_ms(q.p95) == Approx(10).epsilon(0.07));
  CHECK(late_ms(q.most) == Approx(100).epsilon(0.07));
  CHECK(late_quantiles(by_host, {0, 100, 1}, *call({})).most == Micros::none);
}

TEST_CASE("Milliseconds have two digits, and are written as such") {
  for (int code = 0; code < 255; ++code) {
    const double ms = late_ms(static_cast<uint8_t>(code));
    if (ms < 1000) CHECK(absl::StrCat(ms).size() <= 5);
  }
}

}  // namespace ccld::decision::report
