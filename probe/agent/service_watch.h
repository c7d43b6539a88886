// What is known of the service at the endpoint, and what is to be said about it: a line when nothing has been delivered
// for a while, and one when it is there again.
//
// Contract
//   look() as often as there is news of the connection, at least once a second. The service is reached when it has
//   answered on this connection (Acknowledgement of the wire); a batch asks for that when wants_answer(). A connection
//   on which no such batch was offered yet is no trouble. Time in which nobody looked, because the process itself was
//   stopped, is not held against the service.
//   A restart is nobody's news. A service that comes and goes is said at once, and then less and less often: after 1,
//   2, 4 ... minutes, at most once an hour in the end. An hour without trouble ends that.
//   Of several endpoints of a service (Transport::Connection) each begins anew, and trouble lasts until one of them is
//   reached: it is said once, when all of them had their time. unanswered() says that the one in use is to be left.
//
// Pure: time is given. Threads: one at a time.
#pragma once

#include <cstdint>

#include "probe/agent/clock.h"
#include "probe/transport/endpoints.h"
#include "probe/transport/transport.h"
#include "schemas/abi/process.h"

namespace ccld::probe {

// A restart takes less.
constexpr uint64_t service_timeout_ns = 5 * ns_per_s;
// At the end of the process that much is enough: a service that is there answers within milliseconds.
constexpr uint64_t service_timeout_at_end_ns = 1 * ns_per_s;
// A connection that is tried or made, and made again, without anything that says why: an attempt alone takes 10 s.
constexpr uint64_t service_undecided_ns = 20 * ns_per_s;
// Often enough to notice within seconds; a hundred thousand processes then cost the service 20,000 answers a second, a
// few percent of a core.
constexpr uint64_t service_ask_ns = 5 * ns_per_s;
// A service analyses for seconds at most between two looks at what has come.
constexpr uint64_t service_answer_ns = 10 * ns_per_s;
// Of several endpoints one that is stopped is to be left within 10 s: at rest batches are 2 s apart, so that an answer
// is asked for every 4 s, and then it is waited for. Two nodes or more share these questions, and each answers fewer
// than one alone would. One that takes longer to answer has too much to do, and another takes its processes.
constexpr uint64_t service_ask_of_several_ns = 3 * ns_per_s;
constexpr uint64_t service_answer_of_several_ns = 5 * ns_per_s;
// A question may be lost. Not more often: they wait in front of a stopped service.
constexpr uint64_t service_ask_again_ns = 30 * ns_per_s;
// Longer between two looks: this process did not run.
constexpr uint64_t service_look_ns_max = 2 * ns_per_s;
constexpr uint64_t service_said_again_ns_min = 60 * ns_per_s, service_said_again_ns_max = 3600 * ns_per_s;

class ServiceWatch {
 public:
  enum class News : uint8_t {
    none,
    trouble,  // a warning: said() says which
    back,     // it ends that warning
    reached,  // for the first time, without a warning before
    moved,    // reached at another endpoint than before, without a warning
  };

  // Another service, or none.
  void restart() { *this = ServiceWatch(); }

  News look(const Transport::Connection&, uint64_t now_ns, bool process_ends = false);
  bool wants_answer(uint64_t now_ns) const;
  // A batch that asks goes to the transport, which takes it (asked) or does not.
  void offered();
  void asked(uint64_t now_ns);
  void answered();

  abi::ServiceState state() const { return state_; }
  uint64_t since_ns() const { return since_ns_; }  // begin of that state
  // What the newest warning is about; `connecting`: no state lasts. none: that trouble is over.
  abi::ServiceState said() const { return said_; }
  // Of several endpoints: the service at the one in use does not acknowledge.
  bool unanswered() const;
  uint64_t answer_ns() const { return endpoints_ > 1 ? service_answer_of_several_ns : service_answer_ns; }

 private:
  uint64_t follow(const Transport::Connection&, uint64_t now_ns);
  abi::ServiceState judge(Link) const;
  void begin_connection();
  News reached();
  bool lasts(bool process_ends) const;
  // How long it takes to try all of several endpoints.
  uint64_t round_ns() const { return endpoints_ > 1 ? endpoints_ * endpoint_wait_ns : 0; }

  abi::ServiceState state_ = abi::ServiceState::connecting;
  uint64_t since_ns_ = 0;  // 0: nobody has looked
  uint64_t lasts_ns_ = 0;  // how long this process has seen it, in `connected` since something was offered
  uint64_t looked_ns_ = 0;

  size_t endpoints_ = 1, endpoint_ = 0;
  size_t reached_endpoint_ = 0;  // the last one
  uint64_t moves_ = 0;

  bool up_ = false;
  uint64_t handshakes_ = 0;
  bool offered_ = false;    // a question, on this connection
  bool waits_ = false;      // a question is not answered
  uint64_t asked_ns_ = 0;   // the newest on this connection; 0: none
  uint64_t waited_ns_ = 0;  // for the answer
  bool answers_ = false;    // on this connection
  bool ever_answered_ = false;

  bool ever_reached_ = false;
  bool trouble_ = false;
  uint64_t trouble_ns_ = 0;                           // how long this process has seen it
  abi::ServiceState said_ = abi::ServiceState::none;  // the trouble that was said last; none: its end, too
  uint64_t said_ns_ = 0;                              // 0: never
  uint64_t said_again_ns_ = 0;                        // how long nothing is said after that
};

}  // namespace ccld::probe
