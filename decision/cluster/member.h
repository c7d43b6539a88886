// A node of a cluster: whether it leads, and how its history comes to be that of all.
//
//   Member member(bus, options, keeper);
//   member.listen(), member.start();
//   if (auto turn = member.take_turn()) ...       // the analysis thread: lead, or follow
//   if (member.keep(entry).ok()) tell(...);        // the reporting thread, while it leads
//
// Contract
//   One node leads. What it finds it appends to the log before it tells anybody, behind the newest entry that it knows:
//   a node that was stopped, or cut off, and does not know yet that another one leads, can append nothing. The others
//   apply the log to their own histories, and whoever leads next has applied all of it first. How far a history has it,
//   the history says (history/log_position.h): what it lost, or what its leader could not store, is applied again.
//   Without the bus nobody leads. A node that cannot lead for a reason of its own, or whose entries the servers refuse,
//   leaves the lease to the others for a while.
// Errors: none; said once in the log each time. Threads: a thread of its own; take_turn() and view() any, keep() one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "decision/cluster/bus.h"
#include "decision/cluster/lease.h"
#include "decision/history/replica.h"

namespace ccld::decision::cluster {

struct MemberOptions {
  std::string node, run;
  report::Json about;  // what the others are told of this node every second: an object
  LeaseTimes lease;
  // A leader that has waited so long for its disk, or for who reads its verdicts, lets another node lead: a disk that
  // is only slow answers within a second or two.
  Nanoseconds held_up_max_ns = 5 * ns_per_s;
  // So long the servers may refuse what this node appends, while they are reached.
  Nanoseconds refused_max_ns = 10 * ns_per_s;
  Nanoseconds rest_ns = 5 * ns_per_s;   // after it gave the lease back because it could not lead
  Nanoseconds (*clock_ns)() = nullptr;  // monotonic
};

// The history of this node, and what it tells. As server::Reporter.
struct Keeper {
  std::function<absl::StatusOr<history::LogPosition>()> position;
  // In order, into a history that is at `after`, and then at `through`. Once they are on the disk. Aborted: it is not
  // there.
  std::function<absl::Status(std::vector<report::Json> entries, history::LogPosition after,
                             history::LogPosition through)>
      apply;
  std::function<absl::StatusOr<history::Standing>()> standing;
  std::function<void(const report::Json& leads, history::LogPosition)> wrote;  // does not wait
  std::function<uint64_t()> last_id;
  std::function<Nanoseconds()> held_up_ns;  // how long it has waited for a disk or a reader
};

class Member {
 public:
  Member(Bus&, MemberOptions, Keeper);
  ~Member();
  Member(const Member&) = delete;

  absl::Status listen();
  void start();  // looks ten times a second
  void look();
  void stop();  // the lease is given back, so another node leads at once

  // Since the last call this node has begun to lead, or to follow. At the start it follows.
  struct Turn {
    bool leads = false;
    history::Standing standing;  // if it leads
  };
  std::optional<Turn> take_turn();
  bool leads() const;
  // Appends it to the log, waiting as long as this node leads. Where it is now. Errors: Unavailable: it does not (any
  // more); OutOfRange: as Bus::append.
  absl::StatusOr<history::LogPosition> keep(const report::Json& entry);

  struct Node {
    std::string name;
    report::Json about;
    Nanoseconds heard_ns = 0;
    bool leads = false;
  };
  struct View {
    bool connected = false, leads = false;
    bool reports = false;     // it leads, and the analysis has taken its turn
    std::string leader;       // empty: not known
    std::vector<Node> nodes;  // heard of lately, this one too, by name
    uint64_t log_applied = 0, log_last = 0;
    std::string log_error;  // why the servers take no entry; empty: they do, as far as is known
  };
  View view() const;

 private:
  void run();
  void give_way(const char* why, Nanoseconds rest_ns);
  bool hands_over();
  bool follow_log();
  void look_at_lease(Nanoseconds now_ns, bool caught_up);
  absl::StatusOr<uint64_t> ask_for_lease(LeaseWatch::Step, uint64_t revision);
  absl::Status begin_to_lead();
  absl::Status catch_up();
  absl::StatusOr<history::Standing> standing_with_log();
  absl::StatusOr<history::LogPosition> position();
  absl::Status of_history(const absl::Status&);
  void follow(const char* why);
  void say_not_leading(const absl::Status&);
  // With the lock held:
  bool refused_for_long(const absl::Status& append);
  bool end_with_lease();  // true: it is over
  void stop_leading(const char* why);
  bool leads_now() const;
  bool turn_waits() const;
  void say_connection();
  void tell_others(Nanoseconds now_ns);
  void heard(absl::Span<const uint8_t>);

  Bus& bus_;
  const MemberOptions options_;
  const Keeper keeper_;
  const std::string holder_;  // of the lease: another one each time that a node is started

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  LeaseWatch lease_;
  bool leads_ = false, stop_ = false;
  std::optional<Turn> turn_;
  std::map<std::string, Node> nodes_;
  uint64_t applied_ = 0, last_ = 0;  // entries of the log: in this history, and known
  int64_t log_made_ns_ = 0;
  uint64_t last_id_heard_ = 0;                    // the highest number of an incident that another node has
  uint64_t heard_before_ = 0;                     // as it was a second ago
  uint64_t led_last_id_ = 0;                      // numbers went on after it when this node began to lead
  std::optional<history::LogPosition> position_;  // of this history; nothing: it is to be asked
  Nanoseconds position_asked_ns_ = 0;
  std::string refusal_;                       // why the servers took no entry
  std::optional<Nanoseconds> refused_since_;  // of keep(), without a break
  bool hands_over_ = false;                   // the lease is to be given back

  std::mutex appending_;
  bool said_lost_ = false;
  std::string said_log_, said_not_leading_;
  Nanoseconds told_ns_ = INT64_MIN / 2;
  std::thread thread_;
};

}  // namespace ccld::decision::cluster
