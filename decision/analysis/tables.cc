#include "decision/analysis/tables.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "decision/analysis/room.h"

namespace ccld::decision {
namespace {

constexpr Nanoseconds forget_every_ns = 10 * ns_per_s;
// A look at a full table that found nobody to let go of is not worth another one at once: it takes milliseconds.
constexpr Nanoseconds no_room_for_ns = 100 * ns_per_ms;
// Several go at a time, since a look at all of them is needed to choose.
constexpr size_t goes_at_once_part = 64;

}  // namespace

Tables::Tables(const Settings& settings, Around around)
    : settings_(settings),
      around_(std::move(around)),
      processes_(settings),
      budget_(settings.memberships_max),
      inits_(settings) {}

Watch* Tables::find(CommUid uid) const {
  const auto it = watch_of_.find(uid);
  return it != watch_of_.end() ? it->second : nullptr;
}

Watch* Tables::find_or_make(CommUid uid) {
  if (Watch* const known = find(uid)) return known;
  if (uid.value == 0) return nullptr;
  const bool full = watches_.size() >= settings_.communicators_max;
  if (!admits_new_ || (full && let_go_communicators(at_once(), Worth::at_work) == 0)) {
    ++let_go_.communicators_refused;
    return nullptr;
  }
  return watch_of_[uid] = watches_.emplace(uid, std::make_unique<Watch>(uid, settings_, budget_)).first->second.get();
}

size_t Tables::at_once() const { return std::max<size_t>(1, settings_.communicators_max / goes_at_once_part); }

size_t Tables::let_go_communicators(size_t count, Worth up_to) {
  around_.take_in();
  const Nanoseconds silent_since_ns = processes_.newest_ns() - seconds_to_ns(settings_.silent_s);
  return let_go_of(least_missed(watches_, around_.needed(), count, up_to, silent_since_ns));
}

size_t Tables::let_go_of(const std::vector<CommUid>& going) {
  for (const CommUid uid : going) {
    const auto it = watches_.find(uid);
    remove(it, it->second->comm.heard_ns());
  }
  let_go_.communicators += going.size();
  return going.size();
}

void Tables::make_room_for_ranks(const ProcessId& id, Nanoseconds now_ns) {
  // Where one found nothing that made way for it, who has as much finds nothing either.
  const size_t own = processes_.memberships_of_machine(id);
  const bool known = now_ns < no_rank_room_until_ns_;
  if (known && own >= no_rank_room_for_) return;
  around_.take_in();
  const Nanoseconds silent_since_ns = now_ns - seconds_to_ns(settings_.silent_s);
  const size_t count = std::min(at_once(), watches_.size() / goes_at_once_part + 1);
  const auto claims = claims_that_make_way(watches_, around_.needed(), count, machine_of(id), silent_since_ns);
  if (let_go_of(claims) > 0) return;
  no_rank_room_for_ = own;
  if (!known) no_rank_room_until_ns_ = now_ns + no_room_for_ns;
}

void Tables::make_room_for(const ProcessId& id, Nanoseconds now_ns) {
  if (admits_new_ && budget_.is_short()) make_room_for_ranks(id, now_ns);
  if (!admits_new_ || !processes_.has_no_room_for(id) || now_ns < next_process_room_ns_) return;
  around_.take_in();
  const size_t count = std::max<size_t>(1, settings_.processes_max / goes_at_once_part);
  size_t n = processes_.let_go_of_the_least_missed(count, inits_.processes());
  if (n == 0) {
    inits_.forget_who_was_ready();
    let_go_communicators(at_once(), Worth::claimed);
    n = processes_.let_go_of_the_least_missed(count, inits_.processes());
  }
  let_go_.processes += n;
  ++gone_;
  if (n == 0) next_process_room_ns_ = now_ns + no_room_for_ns;
}

Watches::iterator Tables::remove(Watches::iterator it, Nanoseconds now_ns) {
  Watch& w = *it->second;
  around_.leaves(w, now_ns);
  for (const RankModel& r : w.comm.ranks()) {
    if (!r.process) continue;
    std::erase_if(r.process->memberships, [&](const auto& m) { return m.comm == w.comm.uid(); });
    if (r.up && !r.down) --r.process->comms_up;
  }
  watch_of_.erase(it->first);
  processes_.departures().forget(it->first);
  ++gone_;
  return watches_.erase(it);
}

void Tables::contradicted(CommUid uid, Nanoseconds now_ns) {
  ++contradictions_;
  remove(watches_.find(uid), now_ns);
}

void Tables::forget(Nanoseconds now_ns) {
  if (now_ns - forgot_ns_ < forget_every_ns) return;
  forgot_ns_ = now_ns;
  for (auto it = watches_.begin(); it != watches_.end();) {
    const Communicator& c = it->second->comm;
    const bool ended =
        c.rank_count_known() && c.ranks_down() == c.rank_count() && now_ns - c.heard_ns() > forget_every_ns;
    const bool silent = now_ns - c.heard_ns() > seconds_to_ns(settings_.forget_s);
    it = ended || silent ? remove(it, now_ns) : std::next(it);
  }
  processes_.forget(now_ns);
}

void Tables::let_go_histories() {
  for (const auto& [uid, w] : watches_) let_go_.call_histories += w->call_history.forget_over() ? 1 : 0;
}

size_t Tables::let_go(double part, Worth up_to, Nanoseconds now_ns) {
  let_go_.processes += processes_.let_go(now_ns - seconds_to_ns(settings_.silent_s), inits_.processes());
  const auto count = static_cast<size_t>(std::ceil(part * static_cast<double>(watches_.size())));
  const size_t communicators = let_go_communicators(count, up_to);
  inits_.let_go(part);
  return communicators;
}

void Tables::admit_new(bool admit) {
  admits_new_ = admit;
  processes_.admit_new(admit);
  inits_.admit_new(admit);
}

LetGo Tables::let_go_so_far() const {
  LetGo gone = let_go_;
  gone.processes_refused = processes_.refused();
  gone.initializations_refused = inits_.refused();
  return gone;
}

}  // namespace ccld::decision
