#include "probe/transport/link.h"

#include <algorithm>
#include <utility>

namespace ccld::probe {

void LinkTracker::bar(Link link) {
  link_ = link;
  ++barrings_;
}

void LinkTracker::handshake_failed(uint64_t now_ns) {
  if (link_ == Link::rejected || link_ == Link::one_sided) return;
  const bool at_once = now_ns - std::min(now_ns, accepted_ns_) < refusal_ns_max;
  broken_off_ = at_once ? broken_off_ + 1 : 0;
  if (keys_ && broken_off_ >= broken_off_min)
    bar(Link::other_key);
  else
    link_ = Link::mute;
}

void LinkTracker::on(LinkEvent event, uint64_t now_ns) {
  disconnected_ns_ = 0;
  switch (event) {
    case LinkEvent::attempt:
      attempt_ns_ = std::max<uint64_t>(now_ns, 1);
      ended_ = false;
      return;
    case LinkEvent::attempt_closed:
      if (ended_) return;  // a connection, which has events of its own
      link_ = attempt_lasts_ns(now_ns) < refusal_ns_max ? Link::refused : Link::unanswered;
      break;
    case LinkEvent::retry:
      if (!ended_) link_ = attempt_ns_ == 0 ? Link::unresolved : Link::unanswered;
      attempt_ns_ = 0;
      ended_ = false;
      return;
    case LinkEvent::accepted:
      if (!is_barred(link_)) link_ = Link::mute;
      accepted_ns_ = now_ns;
      break;
    case LinkEvent::handshake:
      link_ = Link::up;
      ++handshakes_;
      broken_off_ = 0;
      break;
    case LinkEvent::handshake_failed: handshake_failed(now_ns); break;
    case LinkEvent::protocol_failed:
      // With keys whatever can be read comes from who has the right one.
      if (keys_)
        bar(Link::other_key);
      else
        handshake_failed(now_ns);
      break;
    case LinkEvent::key_rejected: bar(Link::rejected); break;
    case LinkEvent::keys_one_sided: bar(Link::one_sided); break;
    case LinkEvent::disconnected:
      if (link_ == Link::up) link_ = Link::connecting;
      ++disconnections_;
      disconnected_ns_ = std::max<uint64_t>(now_ns, 1);
      break;
  }
  attempt_ns_ = 0;
  ended_ = true;
}

void LinkTracker::left() {
  if (link_ == Link::up) link_ = Link::connecting;
  attempt_ns_ = disconnected_ns_ = 0;
  ended_ = false;
}

Link LinkTracker::link(uint64_t now_ns) const {
  return attempt_lasts_ns(now_ns) >= refusal_ns_max ? Link::unanswered : link_;
}

void Retry::postpone(uint64_t now_ns) {
  due_ns_ = now_ns + barred_wait_ns_min;
  away_ = true;
}

Retry::Step Retry::next(const LinkTracker& tracker, uint64_t now_ns) {
  if (std::exchange(barrings_, tracker.barrings()) != tracker.barrings()) {
    due_ns_ = now_ns + wait_ns_;
    wait_ns_ = std::min(2 * wait_ns_, barred_wait_ns_max);
    return std::exchange(away_, true) ? Step::none : Step::leave;
  }
  if (!away_ && tracker.given_up(now_ns) && disconnections_ != tracker.disconnections()) {
    postpone(now_ns);
    return Step::leave;
  }
  if (tracker.link(now_ns) == Link::up) wait_ns_ = barred_wait_ns_min;
  if (!away_ || now_ns < due_ns_) return Step::none;
  away_ = false;
  disconnections_ = tracker.disconnections();
  return Step::connect;
}

}  // namespace ccld::probe
