#include "decision/server/cluster_node.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "decision/cluster/nats_bus.h"
#include "decision/report/text_format.h"
#include "decision/server/clock.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

// A disk that takes longer hangs; the entries are applied again.
constexpr absl::Duration log_write_timeout = absl::Seconds(10);
constexpr absl::Duration flush_timeout = absl::Milliseconds(200);  // of the promised second of an ending service
constexpr int replicas_usual = 3, replicas_max = 5;                 // JetStream has no more

// Of a host, as a name on the bus.
std::string node_name_of_host() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  std::string node = name;
  std::replace_if(
      node.begin(), node.end(),
      [](char c) { return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_'; }, '-');
  return node.substr(0, 63);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterNode>> ClusterNode::open(const ClusterOptions& options) {
  if (options.servers.empty()) return std::unique_ptr<ClusterNode>();
  ClusterOptions o = options;
  if (o.node.empty()) o.node = node_name_of_host();
  cluster::NatsOptions nats;
  nats.servers = absl::StrSplit(o.servers, ',');
  nats.cluster = o.name;
  nats.node = o.node;
  nats.credentials_file = o.credentials_file;
  nats.ca_file = o.ca_file;
  nats.certificate_file = o.certificate_file;
  nats.key_file = o.key_file;
  nats.log_bytes_max = o.log_bytes_max;
  nats.log_age_max_ns = o.log_age_max_ms * ns_per_ms;
  nats.lease_lasts_ns = cluster::LeaseTimes().lasts_ns;
  if (o.replicas == "auto")
    nats.replicas = nats.servers.size() >= replicas_usual ? replicas_usual : 1;
  else if (!absl::SimpleAtoi(o.replicas, &nats.replicas) || nats.replicas < 1 || nats.replicas > replicas_max)
    return absl::InvalidArgumentError(
        absl::StrCat("--cluster-replicas: '", o.replicas, "' is not auto or a number from 1 to ", replicas_max));
  auto bus = cluster::open_nats(nats);
  if (!bus.ok()) return bus.status();
  return std::unique_ptr<ClusterNode>(new ClusterNode(std::move(o), *std::move(bus)));
}

absl::Status ClusterNode::begin(const std::shared_ptr<Reporter>& reporter, const About& about) {
  cluster::MemberOptions options;
  options.node = options_.node;
  options.run = about.run;
  options.about = {{"http", options_.http_url.empty() ? about.http_url : options_.http_url},
                   {"telemetry", about.telemetry},
                   {"version", about.version}};
  options.clock_ns = monotonic_now_ns;
  cluster::Keeper keeper;
  keeper.position = [reporter] { return reporter->log_position(log_write_timeout); };
  keeper.apply = [reporter](std::vector<report::Json> entries, history::LogPosition after,
                            history::LogPosition through) {
    return reporter->apply(std::move(entries), after, through, log_write_timeout);
  };
  keeper.standing = [reporter] { return reporter->standing(log_write_timeout); };
  keeper.wrote = [reporter](const report::Json& leads, history::LogPosition at) { reporter->wrote(leads, at); };
  keeper.last_id = [reporter] { return reporter->last_id(); };
  keeper.held_up_ns = [reporter] { return reporter->held_up_ns(); };
  member_ = std::make_unique<cluster::Member>(*bus_, std::move(options), std::move(keeper));
  reporter->keep_with([member = member_.get()](const report::Json& entry) { return member->keep(entry); });
  if (absl::Status s = relay_.start(); !s.ok()) return s;
  spdlog::info("cluster '{}': this is node '{}'", options_.name, options_.node);
  if (absl::Status s = member_->listen(); !s.ok()) return s;
  member_->start();
  return absl::OkStatus();
}

ClusterNode::~ClusterNode() {
  end();
  bus_->close();  // its handlers use the rest
}

void ClusterNode::end() {
  if (member_ == nullptr) return;
  member_->stop();
  relay_.flush(flush_timeout);
}

report::ClusterStatus ClusterNode::status() const {
  const cluster::Member::View view = member_->view();
  report::ClusterStatus s;
  s.name = options_.name;
  s.node = options_.node;
  s.leader = view.leads && !view.reports ? "" : view.leader;
  s.connected = view.connected;
  s.leads = view.reports;
  s.log_applied = view.log_applied;
  s.log_last = view.log_last;
  s.log_error = view.log_error;
  const Nanoseconds now_ns = monotonic_now_ns();
  for (const cluster::Member::Node& n : view.nodes)
    s.nodes.push_back({n.name, report::raw_text_of(n.about, "http"), report::raw_text_of(n.about, "telemetry"),
                       report::raw_text_of(n.about, "version"), n.name == s.leader, (now_ns - n.heard_ns) / ns_per_ms});
  s.sent = relay_.sent();
  s.not_sent = relay_.not_sent();
  s.received = relay_.received();
  s.received_dropped = relay_.dropped();
  return s;
}

std::string ClusterNode::leader_url() const {
  const cluster::Member::View view = member_->view();
  if (view.leads) return "";
  for (const cluster::Member::Node& n : view.nodes)
    if (n.name == view.leader) return report::raw_text_of(n.about, "http");
  return "";
}

}  // namespace ccld::decision::server
