#include "probe/agent/service_watch.h"

#include <algorithm>
#include <utility>

namespace ccld::probe {
namespace {

using abi::ServiceState;

bool undecided(ServiceState state) { return state == ServiceState::connecting || state == ServiceState::connected; }

// How long it lasts before it is said.
uint64_t patience_ns(ServiceState state, bool process_ends) {
  switch (state) {
    case ServiceState::connected: return service_undecided_ns;
    case ServiceState::connecting: return process_ends ? service_patience_at_end_ns : service_undecided_ns;
    case ServiceState::deaf:
    case ServiceState::stalled: return 0;  // an answer was waited for
    default: return process_ends ? service_patience_at_end_ns : service_patience_ns;
  }
}

}  // namespace

// Gives how long this process ran since the last look.
uint64_t ServiceWatch::follow(const Transport::Connection& connection, uint64_t now_ns) {
  if (connection.handshakes != handshakes_) {  // another connection: a question of the last one is lost
    handshakes_ = connection.handshakes;
    offered_ = waits_ = answers_ = false;
    asked_ns_ = waited_ns_ = lasts_ns_ = 0;
  }
  up_ = connection.link == Link::up;
  const uint64_t ran_ns = std::min(now_ns - looked_ns_, service_look_ns_max);
  if (up_ && waits_) waited_ns_ += ran_ns;
  looked_ns_ = now_ns;
  return ran_ns;
}

ServiceState ServiceWatch::judge(Link link) const {
  switch (link) {
    case Link::connecting: return ServiceState::connecting;
    case Link::unresolved: return ServiceState::unresolved;
    case Link::refused: return ServiceState::refused;
    case Link::unanswered: return ServiceState::unanswered;
    case Link::mute: return ServiceState::mute;
    case Link::rejected: return ServiceState::rejected;
    case Link::one_sided: return ServiceState::one_sided;
    case Link::other_key: return ServiceState::other_key;
    case Link::up: break;
  }
  if (waits_ && waited_ns_ >= service_answer_ns) return ever_answered_ ? ServiceState::stalled : ServiceState::deaf;
  return answers_ ? ServiceState::reached : ServiceState::connected;
}

ServiceWatch::News ServiceWatch::look(const Transport::Connection& connection, uint64_t now_ns, bool process_ends) {
  now_ns = std::max(now_ns, looked_ns_);
  const uint64_t ran_ns = follow(connection, now_ns);
  const ServiceState state = judge(connection.link);
  lasts_ns_ += ran_ns;
  if (state != state_ || since_ns_ == 0) {
    state_ = state;
    since_ns_ = now_ns;
    lasts_ns_ = 0;
  }
  if (state == ServiceState::reached) {
    const bool first = !ever_reached_;
    ever_reached_ = true;
    trouble_ = false;
    if (said_ != ServiceState::none) {
      said_ = ServiceState::none;
      return News::back;
    }
    if (lasts_ns_ >= service_said_again_ns_max) said_again_ns_ = 0;
    return first ? News::reached : News::none;
  }
  if (state == ServiceState::connected && !offered_) {
    // One that holds ends what was before it. Those that are lost soon are part of it, but do not make it longer.
    if (lasts_ns_ >= service_patience_ns) trouble_ = false;
    return News::none;
  }
  trouble_ns_ = trouble_ ? trouble_ns_ + ran_ns : 0;
  trouble_ = true;
  if (said_ == state || (said_ != ServiceState::none && undecided(state))) return News::none;
  // What was not the same all the time is trouble nevertheless.
  const bool lasts = lasts_ns_ >= patience_ns(state, process_ends);
  const bool changes_for_long = said_ == ServiceState::none && trouble_ns_ >= service_undecided_ns;
  if (!lasts && !changes_for_long) return News::none;
  if (said_ns_ != 0 && now_ns - said_ns_ < said_again_ns_) return News::none;
  said_ = lasts || !undecided(state) ? state : ServiceState::connecting;
  said_ns_ = now_ns;
  said_again_ns_ = std::clamp(2 * said_again_ns_, service_said_again_ns_min, service_said_again_ns_max);
  return News::trouble;
}

bool ServiceWatch::wants_answer(uint64_t now_ns) const {
  return up_ && (asked_ns_ == 0 || now_ns - asked_ns_ >= (waits_ ? service_ask_again_ns : service_ask_ns));
}

void ServiceWatch::offered() {
  if (!std::exchange(offered_, true)) lasts_ns_ = 0;
}

void ServiceWatch::asked(uint64_t now_ns) {
  if (!waits_) waited_ns_ = 0;
  waits_ = true;
  asked_ns_ = now_ns;
}

void ServiceWatch::answered() {
  waits_ = false;
  waited_ns_ = 0;
  answers_ = ever_answered_ = true;
}

}  // namespace ccld::probe
