#include "decision/report/loss_parts.h"

#include <catch2/catch.hpp>

namespace ccld::decision::report {
namespace {

Incident slow(std::vector<Culprit> culprits) {
  Incident i;
  i.fault = FaultClass::s2_communication_slow;
  i.culprits = std::move(culprits);
  return i;
}

Culprit culprit(int32_t rank, Component component, Condition condition, double share) {
  Culprit c;
  c.rank = Rank{rank};
  c.component = component;
  c.condition = condition;
  c.lost_time_share = share;
  return c;
}

double share(const Incident& i, LossPart part) {
  return loss_by_part(verdict_json(i, 1, {}))[static_cast<size_t>(part)];
}

Evidence waiting(int32_t sender, int32_t receiver, const char* subject, double steps) {
  return {.kind = EvidenceKind::steps_more_than_others,
          .rank = sender,
          .peer = receiver,
          .subject = subject,
          .value = steps};
}

}  // namespace

TEST_CASE("Each culprit's share lies where its part is on the way of the data") {
  const Incident i = slow({culprit(6, Component::gpu, Condition::gpu_late, 0.5),
                           culprit(1, Component::process, Condition::host_late, 0.2),
                           culprit(3, Component::link, Condition::link_slow, 0.2),
                           culprit(4, Component::gpu, Condition::gpu_takes_slowly, 0.1)});
  CHECK(share(i, LossPart::gpu) == Approx(0.5));
  CHECK(share(i, LossPart::host) == Approx(0.2));
  CHECK(share(i, LossPart::wire) == Approx(0.2));
  CHECK(share(i, LossPart::receiving_gpu) == Approx(0.1));
  CHECK(share(i, LossPart::send_proxy) == 0);
  const Json parts = loss_json(verdict_json(i, 1, {}));
  REQUIRE(parts.size() == loss_parts);
  CHECK(parts[1]["part"] == "gpu");
  CHECK(parts[1]["ranks"] == Json({6}));
}

TEST_CASE("A proxy is slow where steps wait for it: when it sends, when it receives, or both") {
  Incident i = slow({culprit(3, Component::proxy, Condition::proxy_slow, 0.8)});
  CHECK(share(i, LossPart::send_proxy) == Approx(0.4));
  CHECK(share(i, LossPart::receive_proxy) == Approx(0.4));
  i.evidence = {waiting(3, 4, "wait for the sender's proxy", 3), waiting(3, 4, "wait for the receiver's proxy", 5)};
  CHECK(share(i, LossPart::send_proxy) == Approx(0.8));  // the receiver is another rank
  i.evidence.push_back(waiting(2, 3, "wait for the receiver's proxy", 1));
  CHECK(share(i, LossPart::send_proxy) == Approx(0.6));
  CHECK(share(i, LossPart::receive_proxy) == Approx(0.2));
}

TEST_CASE("Hangs, and slowness of nobody, have no parts") {
  CHECK(loss_json(verdict_json(slow({}), 1, {})).empty());
  Incident hang = slow({culprit(3, Component::gpu, Condition::kernel_stuck, 0)});
  hang.fault = FaultClass::h3_hardware;
  CHECK(loss_json(verdict_json(hang, 1, {})).empty());
}

}  // namespace ccld::decision::report
