// Tuning probes at run time through the service: a request of an operator (query API, its own threads) is handed to the
// analysis thread, which owns the socket, and goes to every probe it is meant for. What became of it comes back as
// telemetry (ControlState) and shows in the status.
//
//   query API --TuneQueue--> analysis thread --ControlDesk--> ControlRequest to each probe --> ControlState in its
//   telemetry
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "decision/model/control_wishes.h"
#include "decision/model/events.h"
#include "decision/model/newest_batch.h"
#include "schemas/abi/validation_library.h"

namespace ccld::decision::server {

// A rank that holds for less measures nothing; the probe refuses more.
constexpr double hold_s_least = 0.1, hold_s_max = abi::hold_ms_max / 1e3;

// Hardware is to be tested while the job runs (probe/hold/validation.h).
struct ValidationWish {
  CommUid comm;
  std::string meet;  // host:port
  uint32_t hold_ms = 5000;
};

struct TuneRequest {
  std::string job;
  std::string host;             // empty: all of the job
  std::optional<uint32_t> pid;  // nothing: all of them
  ControlWishes wishes;
  std::optional<ValidationWish> validation;  // in place of wishes
};

// The JSON body of POST /v1/tune: {"job": ..., "host"?, "pid"?, and at least one of the wishes}.
// Errors: InvalidArgument, one line that names the field.
absl::StatusOr<TuneRequest> parse_tune_request(const std::string& body);

// That of POST /v1/validate: {"job": ..., "communicator": 16 hexadecimal digits, "meet": "host:port", "hold_s"?:
// number}.
absl::StatusOr<TuneRequest> parse_validate_request(const std::string& body);

struct TuneAnswer {
  uint64_t sequence = 0;  // the probes answer with it; 0: they do not, as to a validation
  size_t matched = 0;     // probes that the request is meant for
  size_t asked = 0;       // of them, those whose connection took the request
};

// Thread-safe. A request waits for the analysis thread's next turn, at most a tenth of a second away.
class TuneQueue {
 public:
  // Errors: Unavailable when too many wait, or nobody has taken it in time; then it is not carried out.
  absl::StatusOr<TuneAnswer> ask(TuneRequest, absl::Duration timeout);
  // Carries out all that wait.
  void serve(const std::function<TuneAnswer(const TuneRequest&)>& carry_out);

 private:
  static constexpr size_t waiting_max = 64;
  struct Waiting {
    TuneRequest request;
    std::optional<TuneAnswer> answer;
    bool given_up = false;
  };
  std::mutex mutex_;
  std::condition_variable answered_;
  std::deque<std::shared_ptr<Waiting>> waiting_;
};

// How to reach each probe: the connection its newest batch came on; and how many batches of it have come, which a batch
// may ask for (Acknowledgement of control.fbs). Another image of a process (model/newest_batch.h) begins another session.
// Bounded. One thread.
class ControlDesk {
 public:
  // False: the connection is gone, or its queue is full.
  using Send = std::function<bool(const std::string& connection, absl::Span<const uint8_t> message)>;

  // `first_sequence`: larger than any before, also of an earlier run of the service: its calendar.
  explicit ControlDesk(uint64_t first_sequence) : sequence_(first_sequence) {}

  // A batch that has not come before, with its payloads or without. Answers it if it asks. `at_other_node`: it came to another
  // node of a cluster, which counts and answers it.
  void heard(const Batch&, const std::string& connection, Nanoseconds now_ns, Nanoseconds realtime_ns, const Send&, bool at_other_node = false);
  void forget(Nanoseconds silent_since_ns);
  bool full() const;
  TuneAnswer carry_out(const TuneRequest&, const Send&);

 private:
  struct Probe {
    std::string job, connection;
    Nanoseconds heard_ns = 0;
    uint64_t session = 0;  // the calendar's time when it was first heard
    uint64_t batches = 0;
    NewestBatch newest;
  };
  Probe* probe_of(const ProcessId&);
  uint64_t sequence_;
  std::map<ProcessId, Probe> probes_;
};

}  // namespace ccld::decision::server
