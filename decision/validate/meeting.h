// How ranks meet: the coordinator, in the process of rank 0, listens at an address, all ranks connect to it (ZeroMQ).
//
// Contract
//   Meeting::wait_for_all() returns when every rank has come, or says who has not. Messages that are not understood are
//   ignored: anybody may reach the port. A rank that comes twice ends the meeting, because nobody can tell who is
//   right.
// Errors: one line. Threads: Meeting one, Attendance one other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/validate/group.h"
#include "decision/validate/messages.h"

namespace ccld::decision::validate {

class Meeting : public Group {
 public:
  // `address`: "host:port". The port is bound when this returns.
  static absl::StatusOr<std::unique_ptr<Meeting>> open(const std::string& address, int ranks, double timeout_s);
  ~Meeting() override;

  // Members are known afterwards. `who_came`: also when not all did.
  absl::Status wait_for_all(const std::string& program);
  const std::vector<Member>& members() const override;
  Answers perform(const Step&) override;
  // Of steps that follow.
  void set_timeout(double timeout_s);

 private:
  struct State;
  explicit Meeting(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

// A rank that rank 0 has left alone ends within so long, and what it still has to end with it.
double left_alone_s(double timeout_s);

// A rank's side.
class Attendance {
 public:
  static absl::StatusOr<std::unique_ptr<Attendance>> open(const std::string& address, const Hello&, double timeout_s);
  ~Attendance();

  // Blocks. The coordinator may be busy with a rank that does not answer: longer than the timeout, but not for ever.
  // Cancelled when it is not `wanted` any more, which is asked now and then; without it, it always is.
  absl::StatusOr<Step> next(const std::function<bool()>& wanted = {});
  void answer(const Answer&);

 private:
  struct State;
  explicit Attendance(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace ccld::decision::validate
