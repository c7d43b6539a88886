#include "decision/analysis/reports.h"

#include <utility>
#include <variant>

namespace ccld::decision {
namespace {

// Of a process: in a thread of its own. `comm`: nullptr: about itself.
void take_in_of_process(ProcessModel& process, const Payload& payload, const Communicator* comm, Nanoseconds now_ns) {
  if (const auto* metrics = std::get_if<Metrics>(&payload)) ProcessTable::metrics(process, *metrics, now_ns);
  if (const auto* queues = std::get_if<NetQueues>(&payload)) ProcessTable::net_queues(process, *queues, now_ns);
  if (const auto* m = std::get_if<Rounds>(&payload)) log_kernels(*comm, *m, process);
  if (const auto* m = std::get_if<P2pRounds>(&payload)) log_kernels(*comm, *m, process);
}

}  // namespace

void Reports::add(Watch& w, ProcessModel& process, const Payload& payload, Nanoseconds now_ns) {
  if (!other_rules_ && iterations_.has_chosen(w)) return intake_.add(w, process, payload);
  // The first communicators become witnesses: that changes more than this one.
  take_in(w, {&payload, &process}, now_ns);
  take_in_of_process(process, payload, &w.comm, now_ns);
  settle(w, now_ns);
}

void Reports::take_in(Nanoseconds heard_ns) {
  if (intake_.empty()) return;
  intake_.take_in(workers_, {[&](Watch& w, const Report& report) { take_in(w, report, heard_ns); },
                             [&](ProcessModel& process, const Payload& payload, const Communicator* comm) {
                               take_in_of_process(process, payload, comm, heard_ns);
                             },
                             [&](Watch& w) { settle(w, heard_ns); }});
}

// Of a communicator: in a thread of its own.
void Reports::take_in(Watch& w, const Report& report, Nanoseconds now_ns) {
  ProcessModel& process = *report.process;
  if (const auto* m = std::get_if<Rounds>(report.payload)) {
    w.comm.rounds(*m, process, now_ns);
    if (w.comm.history().has_many_complete() && !calls_.keeps(w.comm.uid())) take_complete(w, now_ns);
  } else if (const auto* p2p = std::get_if<P2pRounds>(report.payload)) {
    w.comm.p2p_rounds(*p2p, process, now_ns);
    if (!other_rules_) w.mismatch.bytes.ended(w.comm, *p2p, process, now_ns);
    w.call_history.add(p2p->rounds.size(), call_times(*p2p), now_ns);
  } else if (const auto* in_flight = std::get_if<InFlight>(report.payload)) {
    w.comm.in_flight(*in_flight, process, now_ns);
    if (!other_rules_) w.mismatch.bytes.in_flight(w.comm, *in_flight, process, now_ns);
  }
}

void Reports::take_complete(Watch& w, Nanoseconds now_ns) {
  if (other_rules_)
    other_rules_(w, now_ns);
  else
    take_rounds(w, now_ns);
}

void Reports::settle(Watch& w, Nanoseconds now_ns) {
  if (w.comm.history().has_many_complete()) take_complete(w, now_ns);
}

// Of a communicator whose calls are not kept it changes nothing but what is known of that one.
void Reports::take_rounds(Watch& w, Nanoseconds now_ns) {
  // Of the calls that are taken together one is measured: a look at all ranks for each would cost too much.
  bool measured = false;
  const auto add = [&](const RoundEntry& e) {
    iterations_.add(w, e, now_ns);
    whatif_.add(w, e);
    calls_.add(w.comm.uid(), e, now_ns);
    w.call_history.add(1, std::exchange(measured, true) ? std::nullopt : call_times(e), now_ns);
  };
  w.comm.history().visit_complete(add);
  for (const RoundEntry& e : w.comm.replays().take_complete()) add(e);
}

void Reports::take_overdue_rounds(Watch& w, Nanoseconds now_ns) {
  w.comm.history().visit_overdue(now_ns, [&](const RoundEntry& e) {
    whatif_.add(w, e);
    calls_.add(w.comm.uid(), e, now_ns);
    w.call_history.add(1, std::nullopt, now_ns);
  });
}

}  // namespace ccld::decision
