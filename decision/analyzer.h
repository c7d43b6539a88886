// The pure heart of the service: telemetry in, incidents out. No I/O, no threads of its own, no clock of its own.
// (Paper, section 4.2.) Not thread-safe: one caller at a time. It lets the caller's workers help: what it finds is the
// same, however many they are and whichever batches are given together.
//
//   Analyzer a(settings);
//   a.apply(batches, now_ns);           // all that have come
//   for (const Incident& i : a.advance(now_ns)) publish(i);   // ten times a second: incidents that are new or changed
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "decision/model/left_open.h"
#include "decision/model/let_go.h"
#include "decision/model/owner.h"
#include "decision/model/status.h"
#include "decision/model/verdict.h"
#include "decision/settings.h"
#include "decision/workers.h"

namespace ccld::decision {

class Analyzer {
 public:
  // `workers`: nullptr: the caller's thread does everything.
  explicit Analyzer(const Settings&, Numbering = {}, Workers* workers = nullptr);
  ~Analyzer();

  // Incidents that earlier runs left open, in place of those given before: one that is found again goes on under its
  // number.
  void take_up(std::vector<LeftOpen>);
  // Of several services that hear the same telemetry one leads; what the others find nobody is told, and it has numbers of
  // their own. `left`: what the one that led until now has told and left open: it goes on under its numbers, and all that is
  // open is told anew.
  void lead(Numbering, std::vector<LeftOpen> left);
  void follow();

  // For want of memory: the histories that people look at.
  void let_go_histories();
  // Processes of no communicator, and the least missed (analysis/room.h) of the communicators up to that worth, `part`
  // of all at most. How many communicators went.
  size_t let_go(double part, Worth up_to, Nanoseconds now_ns);
  // While not, communicators and processes that are not known are refused and counted.
  void admit_new(bool);
  LetGo let_go_so_far() const;

  void apply(absl::Span<const Batch* const>, Nanoseconds now_ns);
  void apply(const Batch&, Nanoseconds now_ns);
  std::vector<Incident> advance(Nanoseconds now_ns);

  // For who asks whether somebody may speak of it; nothing: it is not known. Valid until the next call that changes
  // something.
  std::optional<Owner> owner_of(CommUid) const;
  std::optional<Owner> owner_of(const ProcessId&) const;
  std::optional<Owner> owner_of(const ProcessId& reporter, const Sibling&) const;

  // For `ccld status` and `ccld explain`.
  StatusView status(Nanoseconds now_ns) const;
  std::vector<Incident> incidents() const;  // newest last; bounded by Settings::incidents_max

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ccld::decision
