#include "decision/report/call_pages.h"

#include <catch2/catch.hpp>
#include <ctime>

#include "test/support/snapshots/slow_job.h"

namespace ccld::decision::report {
namespace {

using test::slow_job;
constexpr auto* id = test::slow_job_comm_text;
constexpr size_t answer_bytes_max = size_t{1} << 20;

}  // namespace

TEST_CASE("The calls document has a column for each call and names the culprit first") {
  const Json calls = *calls_json(slow_job({}), id);
  CHECK(calls["recorded"] == true);
  REQUIRE(calls["calls"].size() == 100);
  CHECK(calls["calls"][99]["time"] == calls["time"]);
  CHECK(calls["calls"][0]["time"] < calls["calls"][1]["time"]);
  CHECK(calls["calls"][99]["op_seq"] == 100);
  CHECK(calls["calls"][99]["function"] == "AllReduce");
  CHECK(calls["calls"][99]["bytes"] == 4096);
  CHECK(calls["calls"][99]["longest_ms"] == 84);
  REQUIRE(calls["worst"].size() == 8);
  CHECK(calls["worst"][0]["rank"] == 6);
  CHECK(calls["worst"][0]["late_ms"].size() == 100);
  CHECK(calls["worst"][0]["late_mean_ms"].get<double>() == Approx(80).epsilon(0.07));
  CHECK(calls["worst"][1]["late_mean_ms"].get<double>() == Approx(0.5).epsilon(0.07));
}

TEST_CASE("Ranks come in pages, by host, without gaps or repetitions") {
  const Snapshot s = slow_job({.ranks = 37});
  for (const size_t limit : {1, 8, 36, 37, 100}) {
    std::vector<int32_t> ranks;
    PageQuery query;
    query.limit = limit;
    for (;;) {
      const Json page = *call_ranks_json(s, id, query);
      CHECK(page["ranks"].size() <= limit);
      for (const Json& row : page["ranks"]) ranks.push_back(row["rank"]);
      if (page["next"].is_null()) break;
      query.after = page["next"];
    }
    REQUIRE(ranks.size() == 37);
    for (int32_t r = 0; r < 37; ++r) CHECK(ranks[static_cast<size_t>(r)] == r);
  }
  PageQuery wrong;
  wrong.after = "37";
  CHECK(call_ranks_json(s, id, wrong).status().message() == "after must be what `next` of a page said");
}

TEST_CASE("A hundred thousand ranks are quantiles of groups of hosts and the fifty worst, in less than 1 MiB") {
  const Snapshot s = slow_job({.ranks = 100'000, .culprit = 61'300});
  const std::clock_t begin = std::clock();
  const Json calls = *calls_json(s, id);
  const double cpu_ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  CHECK(cpu_ms < 2000);  // a tenth of that is usual; with the sanitizers, more
  CHECK(to_line(calls).size() < answer_bytes_max);
  REQUIRE(calls["worst"].size() == worst_ranks_max);
  CHECK(calls["worst"][0]["rank"] == 61'300);
  const Json& groups = calls["groups"];
  CHECK(groups.size() <= late_groups_max);
  CHECK(groups.size() > late_groups_max / 2);
  uint64_t ranks = 0;
  for (const Json& g : groups) {
    ranks += g["rank_count"].get<uint64_t>();
    CHECK(g["median_ms"].size() == 100);
    CHECK(g["median_ms"][0].get<double>() < 1);
  }
  CHECK(ranks == 100'000);
  // The group that has the culprit shows it, and leads to its ranks.
  size_t hit = 0;
  while (hit < groups.size() && groups[hit]["max_ms"][0].get<double>() < 40) ++hit;
  REQUIRE(hit < groups.size());
  PageQuery query;
  query.after = groups[hit]["after"];
  query.limit = groups[hit]["rank_count"];
  const Json page = *call_ranks_json(s, id, query);
  CHECK(page["ranks"][0]["host"] == groups[hit]["first_host"]);
  CHECK(page["ranks"].back()["host"] == groups[hit]["last_host"]);
  bool found = false;
  for (const Json& row : page["ranks"]) found = found || row["rank"] == 61'300;
  CHECK(found);
}

TEST_CASE("The largest page of ranks is less than 1 MiB, whatever hosts are called and however late they are") {
  const Snapshot s =
      slow_job({.ranks = 1000, .culprit = 3, .host_prefix = std::string(240, 'h'), .others_ms = 123'456});
  PageQuery query;
  query.limit = page_rows_max;
  CHECK(to_line(*call_ranks_json(s, id, query)).size() < answer_bytes_max);
  CHECK(to_line(*calls_json(s, id)).size() < answer_bytes_max);
}

TEST_CASE("Where nothing is recorded the documents say so") {
  Snapshot s = slow_job({});
  s.status.calls.clear();
  const Json calls = *calls_json(s, id);
  CHECK(calls["recorded"] == false);
  CHECK(calls["calls"].empty());
  CHECK(calls["groups"].empty());
  CHECK(call_ranks_json(s, id, {})->at("recorded") == false);
  CHECK(call_history_json(s, id)->at("from_time").is_null());
  CHECK(calls_json(s, "abc").status().message() == "there is no communicator 'abc'");
  CHECK(call_ranks_json(s, "abc", {}).status().message() == "there is no communicator 'abc'");
  CHECK(call_history_json(s, "abc").status().message() == "there is no communicator 'abc'");
}

TEST_CASE("The history goes up to now, also where no call was made any more") {
  Snapshot s = slow_job({});
  CallHistory history;
  const Nanoseconds begin_ns = s.now_ns / CallHistory::bucket_ns * CallHistory::bucket_ns - 60 * ns_per_s;
  history.add(640, CallTimes{5 * ns_per_ms, 4 * ns_per_ms}, begin_ns);
  history.settle(begin_ns + CallHistory::bucket_ns);
  s.status.communicators[0].call_history = history.over();
  const Json json = *call_history_json(s, id);
  CHECK(json["bucket_s"] == 10);
  CHECK(json["from_time"] == s.clock.text(begin_ns));
  REQUIRE(json["calls"].size() == 6);
  CHECK(json["calls"][0].get<double>() == Approx(640).epsilon(0.04));
  CHECK(json["calls"][5] == 0);
  CHECK(json["longest_ms"][0].get<double>() == Approx(5).epsilon(0.07));
  CHECK(json["longest_ms"][5].is_null());
  s.now_ns += 3600 * ns_per_s;
  CHECK(call_history_json(s, id)->at("calls") == Json(std::vector<int>(CallHistory::buckets_max, 0)));
}

}  // namespace ccld::decision::report
