#include "decision/report/status_pages.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "decision/report/status_text.h"

namespace ccld::decision::report {
namespace {

constexpr size_t columns = 80;

Snapshot cluster(uint32_t comms, uint32_t ranks_each) {
  Snapshot s;
  s.now_ns = 100 * ns_per_s;
  s.silent_ns = 5 * ns_per_s;
  s.ticks = 7;
  for (uint32_t c = 0; c < comms; ++c) {
    CommStatus comm;
    comm.comm = CommUid(c + 1);
    comm.job = c % 2 == 0 ? "even" : "odd";
    comm.name = absl::StrCat("group-", c);
    comm.rank_count = comm.ranks_seen = static_cast<int>(ranks_each);
    comm.in_flight = c % 3 == 0;
    comm.oldest_op = OpSeq(9);
    for (uint32_t r = 0; r < ranks_each; ++r) {
      RankStatus rank;
      rank.rank = Rank(static_cast<int32_t>(r));
      rank.host = "node";
      rank.up = true;
      comm.ranks.push_back(rank);
    }
    s.status.communicators.push_back(comm);
    ProcessStatus p;
    p.process = {"node", "boot", c + 1, 0, 1};
    p.job = comm.job;
    s.status.processes.push_back(p);
  }
  return s;
}

void add_incident(Snapshot& s, uint64_t id, uint64_t comm, VerdictState state, const std::string& job = "odd") {
  Incident i;
  i.id = id;
  i.comm = CommUid(comm);
  i.state = state;
  i.job = job;
  s.incidents.push_back(i);
}

// Asks page after page until there is no next one.
template <class Ask>
std::vector<std::string> all_pages(size_t limit, const char* list, const char* key, Ask ask) {
  std::vector<std::string> keys;
  PageQuery query;
  query.limit = limit;
  for (;;) {
    const auto page = ask(query);
    REQUIRE(page.ok());
    CHECK(page->at(list).size() <= limit);
    for (const Json& row : page->at(list)) keys.push_back(to_line(row.at(key)));
    if (page->at("next").is_null()) return keys;
    query.after = page->at("next").template get<std::string>();
  }
}

}  // namespace

TEST_CASE("Communicators and jobs with trouble come first, whatever their names") {
  Snapshot s = cluster(6, 2);
  add_incident(s, 1, 4, VerdictState::suspected);
  add_incident(s, 2, 6, VerdictState::confirmed);
  add_incident(s, 3, 2, VerdictState::resolved);
  s.incidents[1].victim_comms.push_back({CommUid(5), "", 2, OpSeq(1)});
  s.status.communicators[1].telemetry_age_ns = 9 * ns_per_s;
  const StatusIndex index(s);
  const Json status = *status_json(s, index, {});
  std::vector<std::string> states;
  for (const Json& c : status["communicators"]) states.push_back(c["state"]);
  CHECK(states == std::vector<std::string>{"confirmed", "suspected", "victim", "silent", "busy", "idle"});
  CHECK(status["communicators"][0]["communicator"] == "0000000000000006");
  CHECK(status["jobs"][0]["job"] == "odd");
  CHECK(status["jobs"][0]["state"] == "confirmed");
  CHECK(status["jobs"][0]["incidents_open"] == 2);
  CHECK(status["jobs"][1]["state"] == "busy");
  CHECK(status["communicators_by_state"]["victim"] == 1);
  CHECK(status["incidents_confirmed"] == 1);
}

TEST_CASE("Pages follow each other without gaps or repetitions, whatever their size") {
  Snapshot s = cluster(23, 7);
  add_incident(s, 1, 20, VerdictState::confirmed);
  const StatusIndex index(s);
  for (const size_t limit : {1, 2, 7, 22, 23, 100}) {
    const auto comms = all_pages(limit, "communicators", "communicator",
                                 [&](const PageQuery& q) { return communicators_json(s, index, q); });
    CHECK(comms.size() == 23);
    CHECK(std::set(comms.begin(), comms.end()).size() == 23);
    CHECK(comms[0] == "\"0000000000000014\"");
    const auto ranks = all_pages(limit, "ranks", "rank",
                                 [&](const PageQuery& q) { return ranks_json(s, index, "0000000000000003", q); });
    CHECK(ranks == std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6"});
    CHECK(all_pages(limit, "jobs", "job", [&](const PageQuery& q) { return jobs_json(s, index, q); }) ==
          std::vector<std::string>{"\"odd\"", "\"even\""});
    const auto processes =
        all_pages(limit, "processes", "pid", [&](const PageQuery& q) { return processes_json(s, index, q); });
    CHECK(std::set(processes.begin(), processes.end()).size() == 23);
  }
}

TEST_CASE("Of an operation in flight it is said how far the ranks are, and who is not there") {
  Snapshot s = cluster(1, 4);
  std::vector<RankStatus>& ranks = s.status.communicators[0].ranks;
  for (RankStatus& r : ranks) r.entered = r.launched = OpSeq(9), r.completed = OpSeq(8), r.begun = true;
  ranks[1].entered = ranks[1].launched = OpSeq(8);  // it does not call
  ranks[1].begun = false;
  ranks[2].begun = false;            // its kernel waits
  ranks[3].completed = OpSeq(9);     // it is done, and in the next one already
  ranks[3].begun = false;
  const Json c = *communicator_json(s, StatusIndex(s), "0000000000000001");
  std::vector<std::string> rows;
  for (const Json& row : c["in_flight"]["progress"])
    rows.push_back(absl::StrCat(row["stage"].get<std::string>(), " ", row["rank_count"].get<int>(), " without ", to_line(row["missing"])));
  CHECK(rows == std::vector<std::string>{"entered 3 without [1]", "launched 3 without [1]", "begun 2 without [1,2]",
                                         "completed 1 without [0,1,2]"});
  Snapshot many = cluster(1, 1000);
  const Json row = (*communicator_json(many, StatusIndex(many), "0000000000000001"))["in_flight"]["progress"][0];
  CHECK(row["rank_count"] == 0);
  CHECK(row["missing"].size() == 8);
}

TEST_CASE("Of few ranks it is said on which channels each waits") {
  Snapshot s = cluster(1, 3);
  const char* const id = "0000000000000001";
  const auto channels = [&](size_t rank) {
    return ranks_json(s, StatusIndex(s), id, {})->at("ranks")[rank]["waiting_channels"];
  };
  CHECK(channels(0) == Json::array());
  s.status.communicators[0].waiting_channels = {0b101, 0, uint64_t{1} << 63};
  CHECK(channels(0) == Json({0, 2}));
  CHECK(channels(1) == Json::array());
  CHECK(channels(2) == Json({63}));
  s = cluster(1, waiting_channels_ranks_max + 1);
  CHECK(channels(0).is_null());
}

TEST_CASE("Lists are asked for by job and by state") {
  Snapshot s = cluster(12, 2);
  add_incident(s, 1, 4, VerdictState::suspected);
  const StatusIndex index(s);
  PageQuery query;
  query.job = "odd";
  CHECK(communicators_json(s, index, query)->at("communicators").size() == 6);
  query.troubled = true;
  CHECK(communicators_json(s, index, query)->at("communicators").size() == 1);
  query.job = "no such job";
  CHECK(communicators_json(s, index, query)->at("communicators").empty());
  PageQuery idle;
  idle.state = Trouble::idle;
  CHECK(communicators_json(s, index, idle)->at("communicators").size() == 8);
  const auto job = job_json(s, index, "odd", {});
  REQUIRE(job.ok());
  CHECK(job->at("communicator_count") == 6);
  CHECK(job->at("incidents")[0]["incident"] == 1);
  CHECK(job_json(s, index, "no such job", {}).status().message() == "there is no job 'no such job'");
  CHECK(ranks_json(s, index, "abc", {}).status().message() == "there is no communicator 'abc'");
}

TEST_CASE("No document grows with the number of ranks") {
  Snapshot s = cluster(3000, 1);
  for (uint32_t r = 1; r < 5000; ++r) {
    RankStatus rank;
    rank.rank = Rank(static_cast<int32_t>(r));
    s.status.communicators[0].ranks.push_back(rank);
  }
  InitStatus init;
  for (int32_t r = 0; r < 5000; ++r) init.ranks.push_back({Rank(r), "node", 1, abi::InitStage::bootstrapped, 0, 0});
  s.status.inits.assign(50, init);
  const StatusIndex index(s);
  PageQuery query;
  query.ranks = true;
  const Json status = *status_json(s, index, query);
  CHECK(to_line(status).size() < (1u << 20));
  CHECK(status["communicators"].size() == page_rows_default);
  CHECK(status["communicators"][0]["ranks"].size() == page_rows_max);
  CHECK(status["communicators"][0]["ranks_next"] == "999");
  CHECK(status["communicators"][1]["ranks_next"] == "");
  CHECK(status["communicator_count"] == 3000);
  CHECK(status["initialization_count"] == 50);
  CHECK(status["initializations"][0]["stages"][0]["count"] == 5000);
}

TEST_CASE("A wrong parameter is refused by name") {
  const auto refused = [](std::multimap<std::string, std::string> parameters, const std::string& message) {
    const auto query = parse_page_query(parameters, with_page | with_state, page_rows_max);
    REQUIRE_FALSE(query.ok());
    CHECK(query.status().message() == message);
  };
  for (const char* limit : {"0", "1001", "-1", "many", "", "1.5", "99999999999999999999"})
    refused({{"limit", limit}}, "limit must be a whole number from 1 to 1000");
  refused({{"colour", "blue"}}, "parameter 'colour' is not known here");
  refused({{"job", "demo"}}, "parameter 'job' is not known here");
  refused({{"state", "bad"}}, "state must be troubled, confirmed, suspected, victim, silent, busy, idle or ended");
  CHECK(parse_page_query({{"limit", "1000"}, {"state", "troubled"}}, with_page | with_state, page_rows_max)->troubled);
}

TEST_CASE("A cursor that no page gave is refused") {
  const Snapshot s = cluster(3, 2);
  const StatusIndex index(s);
  for (const char* after : {"x", "9.0000000000000001", "4.1", "4", ".", "4.zzzzzzzzzzzzzzzz"}) {
    PageQuery query;
    query.after = after;
    CHECK(communicators_json(s, index, query).status().message() ==
          absl::StrCat("after='", after, "' is not what `next` of a page said"));
  }
  PageQuery query;
  query.after = "first";
  CHECK(absl::IsInvalidArgument(ranks_json(s, index, "0000000000000001", query).status()));
  CHECK(absl::IsInvalidArgument(processes_json(s, index, query).status()));
  CHECK(absl::IsInvalidArgument(jobs_json(s, index, query).status()));
}

TEST_CASE("The status for people fits the terminal, whatever names there are") {
  Snapshot s = cluster(40, 3);
  add_incident(s, 1, 4, VerdictState::confirmed);
  for (CommStatus& c : s.status.communicators) {
    c.job = "a-very-long-name-of-a-job-that-somebody-made-with-a-date-2026-11-25T21:40:43Z-and-a-hash-0123456789abcdef";
    c.name = "\x1b[2Jtensor-parallel-group-of-stage-\xe4\xb8\xad\xe6\x96\x87-\xff-and-more";
    c.oldest_age_ns = 3600 * ns_per_s;
    for (RankStatus& r : c.ranks) {
      r.host = "worker-0123456789.cluster.local.example.org";
      r.entered = r.launched = r.completed = OpSeq(123'456'789);
      r.process_state = 'D';
    }
  }
  for (ProcessStatus& p : s.status.processes) p.telemetry_age_ns = 60 * ns_per_s;
  PageQuery query;
  query.ranks = true;
  const StatusIndex index(s);
  const Json status = *status_json(s, index, query);
  for (const size_t width : {20, 40, 60, 80, 132}) {
    const std::string text = status_text(status, {.columns = width, .ranks = true});
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      const std::string line = text.substr(begin, end - begin);
      INFO(line);
      CHECK(width_of(line) <= width);
      CHECK(line.find('\x1b') == std::string::npos);
      begin = end + 1;
    }
  }
  const std::string text = status_text(status, {.columns = columns});
  CHECK(text.find("JOB") < text.find("COMMUNICATOR"));
  CHECK(text.find("confirmed") < text.find("busy"));
  CHECK(text.find("0000000000000004") != std::string::npos);
}

}  // namespace ccld::decision::report
