// What operators have said about incidents, in memory: what snapshots and answers are made with. The history keeps it over restarts.
// Bounded: beyond acknowledgements_max those of the oldest incidents are forgotten here; the history still has them.
// Threads: any.
#pragma once

#include <mutex>

#include "decision/report/acknowledgement.h"
#include "decision/report/silence.h"

namespace ccld::decision::server {

class OperatorBook {
 public:
  // As many incidents as one answer may list (history::limit_max).
  static constexpr size_t acknowledgements_max = 4000;

  void set_acknowledgements(report::Acknowledgements);
  void acknowledge(uint64_t incident, report::Acknowledgement);
  void withdraw_acknowledgement(uint64_t incident);
  report::Acknowledgements acknowledgements() const;

  // Rows that an operator can still look through.
  static constexpr size_t silences_max = 200;

  void set_silences(report::Silences, uint64_t last_id);  // last_id: the highest number ever given
  uint64_t next_silence_id();                             // another one each time
  uint64_t last_silence_id() const;
  void add_silence(report::Silence);
  void end_silence(uint64_t id);
  report::Silences silences(int64_t now_ms) const;  // whose time is not over

 private:
  mutable std::mutex mutex_;
  report::Acknowledgements acknowledgements_;
  report::Silences silences_;
  uint64_t last_silence_id_ = 0;
};

}  // namespace ccld::decision::server
