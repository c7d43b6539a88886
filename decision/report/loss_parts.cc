#include "decision/report/loss_parts.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "decision/report/text_format.h"

namespace ccld::decision::report {
namespace {

constexpr std::array<const char*, loss_parts> names = {"host", "gpu",           "send_proxy",
                                                       "wire", "receive_proxy", "receiving_gpu"};
// Ranks named beside a part: more fit no box.
constexpr size_t ranks_max = 8;
constexpr uint64_t no_rank = UINT64_MAX;

struct Part {
  LossPart part;
  double of_share;  // of what the culprit loses
};

// A proxy serves both directions; how many steps wait in front of it in each says which one is slow.
std::vector<Part> parts_of_proxy(const Json& verdict, uint64_t rank) {
  double sends = 0, receives = 0;
  for (const Json& e : verdict.value("evidence", Json::array())) {
    const std::string kind = text_of(e, "kind"), what = text_of(e, "what");
    if (kind != "steps_more_than_others" && kind != "steps_more_than_before") continue;
    const double steps = real_of(e, "value");
    if (number_of(e, "rank", no_rank) == rank && what.find("wait for the sender's proxy") != std::string::npos)
      sends += steps;
    if (number_of(e, "peer", no_rank) == rank && what.find("wait for the receiver's proxy") != std::string::npos)
      receives += steps;
  }
  if (sends + receives == 0) sends = receives = 1;  // it is away from both
  return {{LossPart::send_proxy, sends / (sends + receives)}, {LossPart::receive_proxy, receives / (sends + receives)}};
}

std::vector<Part> parts_of(const Json& verdict, const Json& culprit) {
  const std::string component = text_of(culprit, "component"), condition = text_of(culprit, "condition");
  if (condition == "gpu_takes_slowly") return {{LossPart::receiving_gpu, 1}};
  if (component == "proxy") return parts_of_proxy(verdict, number_of(culprit, "rank", no_rank));
  if (component == "gpu") return {{LossPart::gpu, 1}};
  if (component == "link" || component == "nic") return {{LossPart::wire, 1}};
  if (component == "process" || component == "host" || component == "application") return {{LossPart::host, 1}};
  return {};
}

struct Loss {
  std::array<double, loss_parts> share{};
  std::array<std::set<uint64_t>, loss_parts> ranks;
};

Loss loss_of(const Json& verdict) {
  Loss loss;
  if (text_of(verdict, "kind") != "SLOW") return loss;
  for (const Json& culprit : verdict.value("culprits", Json::array())) {
    const double lost = real_of(culprit, "lost_time_share");
    const uint64_t rank = number_of(culprit, "rank", no_rank);
    for (const Part& p : parts_of(verdict, culprit)) {
      const auto at = static_cast<size_t>(p.part);
      const double share = p.of_share * lost;
      if (share <= 0) continue;
      loss.share[at] += share;
      if (rank != no_rank && loss.ranks[at].size() < ranks_max) loss.ranks[at].insert(rank);
    }
  }
  return loss;
}

}  // namespace

const char* name(LossPart part) { return names[static_cast<size_t>(part)]; }

std::array<double, loss_parts> loss_by_part(const Json& verdict) { return loss_of(verdict).share; }

Json loss_json(const Json& verdict) {
  const Loss loss = loss_of(verdict);
  Json parts = Json::array();
  bool any = false;
  for (size_t at = 0; at < loss_parts; ++at) {
    constexpr double hundredths = 100;
    any = any || loss.share[at] > 0;
    parts.push_back({{"part", names[at]},
                     {"share", std::round(loss.share[at] * hundredths) / hundredths},
                     {"ranks", loss.ranks[at]}});
  }
  return any ? parts : Json::array();
}

}  // namespace ccld::decision::report
