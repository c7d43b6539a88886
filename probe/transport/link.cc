#include "probe/transport/link.h"

#include <algorithm>

namespace ccld::probe {

void LinkTracker::on(LinkEvent event, uint64_t now_ns) {
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
    case LinkEvent::accepted: link_ = Link::mute; break;
    case LinkEvent::handshake:
      link_ = Link::up;
      ++handshakes_;
      break;
    case LinkEvent::handshake_failed: link_ = Link::mute; break;
    case LinkEvent::disconnected:
      if (link_ == Link::up) link_ = Link::connecting;
      break;
  }
  attempt_ns_ = 0;
  ended_ = true;
}

Link LinkTracker::link(uint64_t now_ns) const {
  return attempt_lasts_ns(now_ns) >= refusal_ns_max ? Link::unanswered : link_;
}

}  // namespace ccld::probe
