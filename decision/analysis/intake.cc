#include "decision/analysis/intake.h"

namespace ccld::decision {
namespace {

// What a process says is taken in within some 10 us: with its communicators these are several times what it takes to
// wake a thread.
constexpr size_t processes_to_share_min = 8;

}  // namespace

void Intake::say(ProcessModel& process, const Said& said) {
  process.waits = true;
  if (processes_.empty() || processes_.back().process != &process) processes_.push_back({&process, said_.size()});
  said_.push_back(said);
}

void Intake::add(ProcessModel& process, const Payload& payload) { say(process, {&payload, nullptr}); }

void Intake::add(Watch& w, ProcessModel& process, const Payload& payload) {
  say(process, {&payload, &w.comm});
  if (w.waiting == 0) {
    watches_.push_back(&w);
    w.waiting = static_cast<uint32_t>(watches_.size());
    if (reports_.size() < watches_.size()) reports_.emplace_back();
  }
  reports_[w.waiting - 1].push_back({&payload, &process});
}

void Intake::take_in(Workers& workers, const Takers& takers) {
  // Those with most to do first: communicators.
  const auto work = [&](size_t i) {
    if (i < watches_.size()) {
      for (const Report& report : reports_[i]) takers.of_communicator(*watches_[i], report);
      return;
    }
    i -= watches_.size();
    const size_t end = i + 1 < processes_.size() ? processes_[i + 1].first_said : said_.size();
    for (size_t s = processes_[i].first_said; s < end; ++s)
      takers.of_process(*processes_[i].process, *said_[s].payload, said_[s].comm);
  };
  const size_t count = watches_.size() + processes_.size();
  workers.run(count, watches_.size() + processes_to_share_min, work);
  for (size_t i = 0; i < watches_.size(); ++i) {
    reports_[i].clear();
    watches_[i]->waiting = 0;
    takers.settle(*watches_[i]);
  }
  for (const OfProcess& p : processes_) p.process->waits = false;
  watches_.clear();
  processes_.clear();
  said_.clear();
}

}  // namespace ccld::decision
