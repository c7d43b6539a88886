#include "decision/validate/verdicts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"

namespace ccld::decision::validate {
namespace {

using Members = std::vector<Member>;

const Member& at(const Members& members, int rank) { return members[static_cast<size_t>(rank)]; }

bool between_hosts(const Row& row, const Members& m) {
  return row.check == Check::link && at(m, row.rank).host != at(m, row.peer).host;
}

// How the network device of one end does with other hosts than that of the link in question.
struct Elsewhere {
  int slow = 0, healthy = 0;
  bool known() const { return slow + healthy > 0; }
  bool is_slow() const { return slow > healthy; }
};

// `sending`: links out of the sender's device, else links into the receiver's host.
Elsewhere elsewhere(const Row& link, bool sending, const std::vector<Row>& rows, const Members& m) {
  const std::string &own = at(m, sending ? link.rank : link.peer).host,
                    &other = at(m, sending ? link.peer : link.rank).host;
  Elsewhere out;
  for (const Row& row : rows) {
    if (!between_hosts(row, m)) continue;
    const std::string &row_own = at(m, sending ? row.rank : row.peer).host,
                      &row_other = at(m, sending ? row.peer : row.rank).host;
    if (row_own != own || row_other == other || (sending && row.net != link.net)) continue;
    out.slow += row.finding == Finding::suspect;
    out.healthy += row.finding == Finding::healthy;
  }
  return out;
}

Culprit culprit_of(const Member& m, Component component, Condition condition) {
  Culprit c;
  c.rank = Rank(m.rank);
  c.host = m.host;
  c.pid = m.pid;
  c.cuda_device = m.gpu;
  c.gpu_bus_id = m.bus_id;
  c.component = component;
  c.condition = condition;
  return c;
}

// What one part of the hardware is accused of, and by which rows.
struct Accused {
  FaultClass fault = FaultClass::s1_computation_slow;
  Culprit culprit;
  std::vector<const Row*> rows;
  std::string next_step;
};

std::string subject_of(const Row& row, const Members& m) {
  if (row.check != Check::link) return title(row.check);
  const bool crosses = between_hosts(row, m);
  return absl::StrCat("the link rank ", row.rank, " -> rank ", row.peer,
                      crosses ? absl::StrCat(" (", at(m, row.rank).host, " -> ", at(m, row.peer).host, ")") : "");
}

constexpr char next_of_gpu[] = "leave this GPU out of jobs until its clocks, power and temperature are explained";
constexpr char next_of_link[] = "look at cables, ports and error counters of this path, and test again";

class Writer {
 public:
  explicit Writer(const Members& members) : members_(members) {}

  void add_gpu(const Row& row) {
    const bool copies = row.check == Check::host_to_device || row.check == Check::device_to_host;
    // A GPU that computes slowly is one culprit, whatever else it does slowly.
    for (Accused& a : accused_)
      if (a.culprit.component == Component::gpu && a.culprit.rank.value == row.rank) {
        a.rows.push_back(&row);
        return;
      }
    add(FaultClass::s1_computation_slow,
        culprit_of(at(members_, row.rank), Component::gpu, copies ? Condition::gpu_takes_slowly : Condition::gpu_slow),
        &row, next_of_gpu);
  }

  void add_link(const Row& row, const std::vector<Row>& rows) {
    if (!between_hosts(row, members_)) return add_path(row, "");
    // Connections of several ranks over one path between two hosts.
    for (Accused& a : accused_)
      if (a.culprit.component == Component::link && a.culprit.host == at(members_, row.rank).host &&
          a.culprit.peer_host == at(members_, row.peer).host && a.culprit.net_name == row.net && !a.rows.empty()) {
        a.rows.push_back(&row);
        return;
      }
    const Elsewhere sending = elsewhere(row, true, rows, members_), receiving = elsewhere(row, false, rows, members_);
    if (sending.is_slow()) add_device(row, row.rank, row.net);
    if (receiving.is_slow()) add_device(row, row.peer, device_of(row.peer, rows));
    if (sending.is_slow() || receiving.is_slow()) return;
    add_path(row, sending.known() && receiving.known() ? "" : "no third host tells whether it is a network device");
  }

  void add_hung(const std::pair<int, int>& link) {
    Culprit c = culprit_of(at(members_, link.first), Component::link, Condition::nothing_arrives);
    c.peer = Rank(link.second);
    c.peer_host = at(members_, link.second).host;
    c.reason = "nothing arrived within the timeout";
    add(FaultClass::h3_hardware, std::move(c), nullptr, next_of_link);
  }

  std::vector<Incident> take(const std::string& job, Nanoseconds now_ns) {
    std::vector<Incident> out;
    for (Accused& a : accused_) out.push_back(incident(a, job, now_ns, out.size() + 1));
    return out;
  }

 private:
  // The device by which a rank itself sends; empty: it sends over none.
  std::string device_of(int rank, const std::vector<Row>& rows) const {
    for (const Row& row : rows)
      if (row.rank == rank && between_hosts(row, members_)) return row.net;
    return "";
  }

  void add_device(const Row& row, int rank, const std::string& net) {
    const Member& m = at(members_, rank);
    for (Accused& a : accused_)
      if (a.culprit.component == Component::nic && a.culprit.host == m.host &&
          (a.culprit.net_name == net || net.empty() || a.culprit.net_name.empty())) {
        a.rows.push_back(&row);
        return;
      }
    Culprit c = culprit_of(m, Component::nic, Condition::nic_slow);
    c.net_name = net;
    add(FaultClass::s2_communication_slow, std::move(c), &row, next_of_link);
  }

  void add_path(const Row& row, const std::string& doubt) {
    Culprit c = culprit_of(at(members_, row.rank), Component::link, Condition::link_slow);
    c.peer = Rank(row.peer);
    c.peer_host = at(members_, row.peer).host;
    c.net_name = row.net;
    c.reason = doubt;
    add(FaultClass::s2_communication_slow, std::move(c), &row, next_of_link);
  }

  void add(FaultClass fault, Culprit culprit, const Row* row, const char* next_step) {
    accused_.push_back({fault, std::move(culprit), {}, next_step});
    if (row != nullptr) accused_.back().rows.push_back(row);
  }

  Incident incident(Accused& a, const std::string& job, Nanoseconds now_ns, uint64_t id) const {
    Incident i;
    i.id = id;
    i.revision = 1;
    i.fault = a.fault;
    i.state = VerdictState::confirmed;
    i.job = job;
    i.comm_name = "ccld-validate";
    i.rank_count = static_cast<int>(members_.size());
    // It was measured, and again where it was slow: what is left is what the margins leave.
    i.confidence = a.culprit.reason.empty() || a.rows.empty() ? 0.95 : 0.8;
    i.next_step = a.next_step;
    i.onset_ns = i.suspected_ns = i.confirmed_ns = i.located_ns = now_ns;
    std::vector<std::string> reasons;
    for (const Row* row : a.rows) {
      const std::string subject = subject_of(*row, members_);
      const int peer = row->check == Check::link ? row->peer : -1;
      const auto number = [&](EvidenceKind kind, double value) {
        Evidence e;
        e.kind = kind;
        e.rank = row->rank;
        e.peer = peer;
        e.subject = subject;
        e.value = value;
        i.evidence.push_back(std::move(e));
      };
      number(EvidenceKind::check_time, row->ms.middle);
      number(EvidenceKind::check_reference, row->usual_ms);
      a.culprit.lost_time_share = std::max(a.culprit.lost_time_share, 1 - row->usual_ms / row->ms.middle);
      a.culprit.basis = row->basis;
    }
    if (!a.rows.empty())
      a.culprit.reason = absl::StrCat(a.rows.front()->why, a.culprit.reason.empty() ? "" : "; ", a.culprit.reason);
    i.culprits.push_back(a.culprit);
    return i;
  }

  const Members& members_;
  std::vector<Accused> accused_;
};

}  // namespace

std::vector<std::pair<int, int>> slow_between_hosts(const std::vector<Row>& rows, const Members& m) {
  std::vector<std::pair<int, int>> out;
  for (const Row& row : rows)
    if (between_hosts(row, m) && row.finding == Finding::suspect) out.emplace_back(row.rank, row.peer);
  return out;
}

std::vector<Incident> verdicts(const std::vector<Row>& rows, const std::vector<std::pair<int, int>>& hung,
                               const Members& members, const std::string& job, Nanoseconds now_ns) {
  Writer writer(members);
  for (const Row& row : rows)
    if (row.check != Check::link && row.finding == Finding::suspect) writer.add_gpu(row);
  for (const std::pair<int, int>& link : hung) writer.add_hung(link);
  // Those that other rows prove to be a device first: the rest is theirs, too.
  for (const Row& row : rows)
    if (row.check == Check::link && row.finding == Finding::suspect) writer.add_link(row, rows);
  return writer.take(job, now_ns);
}

}  // namespace ccld::decision::validate
