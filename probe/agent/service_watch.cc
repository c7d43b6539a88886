#include "probe/agent/service_watch.h"

#include <algorithm>
#include <utility>

namespace ccld::probe {
namespace {

using abi::ServiceState;

bool undecided(ServiceState state) { return state == ServiceState::connecting || state == ServiceState::connected; }

// libzmq tells the one from the other at some attempts only.
bool keys_do_not_fit(ServiceState state) {
  return state == ServiceState::one_sided || state == ServiceState::other_key;
}

// How long it lasts before it is said.
uint64_t timeout_ns(ServiceState state, bool process_ends) {
  switch (state) {
    case ServiceState::connected: return service_undecided_ns;
    case ServiceState::connecting: return process_ends ? service_timeout_at_end_ns : service_undecided_ns;
    case ServiceState::deaf:
    case ServiceState::stalled: return 0;  // an answer was waited for
    default: return process_ends ? service_timeout_at_end_ns : service_timeout_ns;
  }
}

}  // namespace

// A question of the last one is lost.
void ServiceWatch::begin_connection() {
  offered_ = waits_ = answers_ = false;
  asked_ns_ = waited_ns_ = lasts_ns_ = 0;
}

// Gives how long this process ran since the last look.
uint64_t ServiceWatch::follow(const Transport::Connection& connection, uint64_t now_ns) {
  endpoints_ = connection.endpoints;
  endpoint_ = connection.endpoint;
  if (connection.moves != moves_) {
    moves_ = connection.moves;
    begin_connection();
    ever_answered_ = false;
    since_ns_ = 0;
  }
  if (connection.handshakes != handshakes_) {
    handshakes_ = connection.handshakes;
    begin_connection();
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
  if (waits_ && waited_ns_ >= answer_ns()) return ever_answered_ ? ServiceState::stalled : ServiceState::deaf;
  return answers_ ? ServiceState::reached : ServiceState::connected;
}

bool ServiceWatch::unanswered() const {
  if (endpoints_ == 1) return false;
  if (state_ == ServiceState::stalled || state_ == ServiceState::deaf) return true;
  return state_ == ServiceState::connected && offered_ && lasts_ns_ >= answer_ns();
}

ServiceWatch::News ServiceWatch::reached() {
  const bool first = !std::exchange(ever_reached_, true);
  const bool moved = std::exchange(reached_endpoint_, endpoint_) != endpoint_;
  trouble_ = false;
  if (said_ != ServiceState::none) {
    said_ = ServiceState::none;
    return News::back;
  }
  if (lasts_ns_ >= service_said_again_ns_max) said_again_ns_ = 0;
  return first ? News::reached : moved ? News::moved : News::none;
}

// Whether it is time to say so.
bool ServiceWatch::lasts(bool process_ends) const {
  const uint64_t timeout = timeout_ns(state_, process_ends);
  if (endpoints_ == 1) return lasts_ns_ >= timeout;
  if (process_ends) return lasts_ns_ >= std::max(timeout, service_timeout_at_end_ns);
  return !undecided(state_) && trouble_ns_ >= service_timeout_ns + round_ns();
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
  if (state == ServiceState::reached) return reached();
  if (state == ServiceState::connected && !offered_) {
    // One that holds ends what was before it. Those that are lost soon are part of it, but do not make it longer.
    if (lasts_ns_ >= service_timeout_ns) trouble_ = false;
    return News::none;
  }
  trouble_ns_ = trouble_ ? trouble_ns_ + ran_ns : 0;
  trouble_ = true;
  if (said_ == state || (keys_do_not_fit(said_) && keys_do_not_fit(state))) return News::none;
  if (said_ != ServiceState::none && (undecided(state) || endpoints_ > 1)) return News::none;
  // What was not the same all the time is trouble nevertheless.
  const bool lasts = this->lasts(process_ends);
  const bool changes_for_long = said_ == ServiceState::none && trouble_ns_ >= service_undecided_ns + round_ns();
  if (!lasts && !changes_for_long) return News::none;
  if (said_ns_ != 0 && now_ns - said_ns_ < said_again_ns_) return News::none;
  said_ = lasts || !undecided(state) ? state : ServiceState::connecting;
  said_ns_ = now_ns;
  said_again_ns_ = std::clamp(2 * said_again_ns_, service_said_again_ns_min, service_said_again_ns_max);
  return News::trouble;
}

bool ServiceWatch::wants_answer(uint64_t now_ns) const {
  const uint64_t pause_ns = waits_ ? service_ask_again_ns : endpoints_ > 1 ? service_ask_of_several_ns : service_ask_ns;
  return up_ && (asked_ns_ == 0 || now_ns - asked_ns_ >= pause_ns);
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
