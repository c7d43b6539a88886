// What a lack of processors explains of slowness: whose threads waited for a processor, and who waited alike.
// (Beyond the paper.)
//
// On a host that is short of processors every thread comes late now and then. Naming the proxy or the process that
// happened to come last is wrong: the host is the cause, or nobody where all hosts are alike. One process that waits
// while its neighbours do not (quota, pinning) is a cause of its own. Compared is for which part of the time for which
// they want a processor threads wait for it: a thread that sleeps shows nothing.
//
// Contract: pure functions of the model. What is not reported (other kernels, lost telemetry) explains nothing.
// Cost: linear in the ranks of the communicator.
#pragma once

#include <optional>
#include <vector>

#include "decision/locate/finding.h"
#include "decision/settings.h"

namespace ccld::decision {

struct TimeWindow {
  Nanoseconds from_ns = 0, to_ns = 0;
};

// The thread that launches; NCCL's progress threads, their mean.
// While one of these hardly ran: the progress threads, those that stand for the GPU (CPU device).
enum class Worker { main, proxies, starved_proxies, starved_gpu };

// How long the thread waited for a processor in the window; telemetry comes up to two seconds later than what it
// speaks of, and the doubt counts for the wait. nullopt: not known.
std::optional<Nanoseconds> waited_for_processor(const ProcessModel&, Worker, const TimeWindow&);
// As large a part of the time for which it wants a processor in the window as it waited for one before: behind a slow
// wire threads poll for longer, so they wait for longer, too, where processors are shared. nullopt: not known.
std::optional<Nanoseconds> usually_waits_for_processor(const ProcessModel&, Worker, const TimeWindow&);
// The median of the processes of a host, `but` left out; nullopt: there is no other, or nothing is known.
std::optional<Nanoseconds> host_waited_for_processor(const HostModel&, Worker, const TimeWindow&,
                                                     const ProcessModel* but = nullptr);

// Who else waits like this process.
enum class Shortage {
  own,        // nobody: it is this process
  host,       // the other processes of its host, but not those of other hosts of the communicator
  everywhere  // all hosts of the communicator alike, or it has one host only
};
Shortage shortage_of(const Communicator&, const ProcessModel&, Worker, const TimeWindow&, const Settings&);

// Whether `part_min` of what is missing was waited for a processor ...
// ... by its progress threads, at all: who does not run does not poll its connections.
bool explains_proxy(const Communicator&, Rank, Nanoseconds missing_ns, const TimeWindow&, const Settings&);
// ... by its main thread beyond those of ranks on other hosts (or of all others): ranks are late compared with each
// other.
bool explains_late_host(const Communicator&, Rank, Nanoseconds missing_ns, const TimeWindow&, const Settings&);
// ... by such a thread beyond its past.
bool explains_growth(const Communicator&, Rank, Worker, Nanoseconds missing_ns, const TimeWindow&, const Settings&);

// Who moves steps of a rank: its GPU (on the CPU device, its threads; another needs no processor), its progress
// threads.
enum class Mover { gpu, proxies };

// Whom to blame if one of those that move steps of the rank hardly ran for `part_min` of `quiet_ns` up to now: without
// a processor nothing can move. It is the host, or, where its neighbours get processors, the process alone. Of a
// process that says nothing the others of its host speak. nullopt: they ran, or are stopped.
std::optional<Culprit> starved(const Communicator&, Rank, Mover, Nanoseconds quiet_ns, Nanoseconds now_ns,
                               const Settings&);
// The same, and the finding says as evidence what was seen.
std::optional<Culprit> starved(const Communicator&, Rank, Mover, Nanoseconds quiet_ns, Nanoseconds now_ns,
                               const Settings&, Finding&);
// Whether it is known by now: who tells it at all tells it once a second.
bool starved_is_known(const Communicator&, Rank, Nanoseconds quiet_ns, Nanoseconds now_ns);
// Of a hang with such culprits: they may get a processor at any moment, so nothing about it is hard evidence.
void weigh_starved(Finding&);

// The finding without culprits that a lack of processors explains, and with the host instead where one lacks them.
// `lost_ns`: what their shares are parts of. `compared`: its wires are slower than others now, and not only than
// before; then what all hosts lack alike does not explain them. nullopt: nothing is left to be reported.
std::optional<Finding> weigh_processors(const Communicator&, Finding, double lost_ns, const TimeWindow&,
                                        const Settings&, bool compared = false);

}  // namespace ccld::decision
