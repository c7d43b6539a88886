#include "decision/validate/hold_plan.h"

#include <catch2/catch.hpp>

#include <functional>

namespace ccld::decision::validate {
namespace {

// Ranks of a job that calls collectives; `ahead` of what they said they are by then.
struct Job : Group {
  explicit Job(int ranks) {
    for (int r = 0; r < ranks; ++r) {
      Member m;
      m.rank = r;
      m.host = "host" + std::to_string(r / 2);
      members_.push_back(m);
    }
  }
  const std::vector<Member>& members() const override { return members_; }
  Answers perform(const Step& s) override {
    steps.push_back(s);
    Answers out;
    for (const Member& m : members_) {
      if (m.rank == silent) {
        out.missing.push_back(m.rank);
        continue;
      }
      Answer a;
      a.rank = m.rank;
      if (s.kind == StepKind::progress) {
        a.operations = 100 + static_cast<uint64_t>(m.rank);
        a.operations_per_s = 50;
      } else if (s.kind == StepKind::hold) {
        a.holds = holds(m.rank, s.before_op_seq);
        if (m.rank == fails) a.error = "it has several ranks";
      } else if (s.kind == StepKind::identify && m.rank == 0) {
        a.id = "00ff";
      }
      out.all.push_back(a);
    }
    return out;
  }

  std::function<Holds(int, uint64_t)> holds = [](int, uint64_t) { return Holds::holds; };
  int silent = -1, fails = -1;
  std::vector<Step> steps;

 private:
  std::vector<Member> members_;
};

TEST_CASE("All ranks hold before the same collective, a little ahead of the foremost") {
  Job job(4);
  REQUIRE(hold_all(job, 7).ok());
  REQUIRE(job.steps.size() == 2);
  CHECK(job.steps[1].before_op_seq == 103 + 1 + 10);  // a fifth of a second at 50 a second
  CHECK(job.steps[1].within_s == 7);
}

TEST_CASE("Where a rank has passed the collective all are told a later one, ever further ahead") {
  Job job(4);
  job.holds = [](int rank, uint64_t before) {
    return rank == 2 && before < 100 + 3 + 50 ? Holds::passed : Holds::holds;
  };
  REQUIRE(hold_all(job, 7).ok());
  CHECK(job.steps.size() == 6);
  job.holds = [](int, uint64_t) { return Holds::passed; };
  job.steps.clear();
  CHECK(hold_all(job, 7).message() == "rank 3 (host1) calls collectives too fast to be held");
  CHECK(job.steps.size() == 6);
}

TEST_CASE("Why it cannot be is one line that names the rank") {
  Job job(4);
  job.holds = [](int rank, uint64_t) { return rank == 1 ? Holds::not_yet : Holds::holds; };
  CHECK(hold_all(job, 7).message() == "rank 1 (host0) did not call collective 114 of the communicator within 7 s");
  job.fails = 3;
  CHECK(hold_all(job, 7).message() == "rank 3 (host1): it has several ranks");
  job.silent = 0;
  CHECK(hold_all(job, 7).message() == "rank 0 (host0) does not answer any more");
  CHECK(!id_of_rank_0(job).ok());
  job.silent = -1;
  CHECK(*id_of_rank_0(job) == "00ff");
}

}  // namespace
}  // namespace ccld::decision::validate
