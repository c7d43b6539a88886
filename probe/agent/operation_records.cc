#include "probe/agent/operation_records.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ccld::probe {
namespace {

constexpr unsigned kept_of(const abi::OpRecord&) { return abi::ops_max; }
constexpr unsigned kept_of(const abi::P2pRecord&) { return abi::p2ps_max; }

constexpr uint8_t still_going = 0xff;

// Links of a kernel, for its calls of Send and Recv; only those over the network: within a node there are no stages.
class LinksOfPeers {
 public:
  explicit LinksOfPeers(std::vector<LinkTrack> links) {
    for (LinkTrack& l : links)
      if (l.has_proxy && l.net_device >= 0) links_[{static_cast<uint8_t>(l.direction), l.peer}].push_back(std::move(l));
  }
  // The first call with a peer in a direction gets them.
  std::vector<LinkTrack> take(const abi::P2pRecord& call) {
    auto found = links_.extract({call.direction, call.peer});
    return found.empty() ? std::vector<LinkTrack>() : std::move(found.mapped());
  }

 private:
  std::map<std::pair<uint8_t, int32_t>, std::vector<LinkTrack>> links_;
};

}  // namespace

const Kernel* kernel_with(const Kernels& kernels, uint32_t token) {
  for (const auto& kernel : kernels)
    if (kernel->token == token) return kernel.get();
  return nullptr;
}

OperationRecords::Counts OperationRecords::read_counts() const {
  Counts counts;
  counts.launched_op_seq = frame_.launched_op_seq();
  counts.launched_p2p = frame_.launched_p2p();
  counts.launched_plan = frame_.launched_plan();
  counts.captured_plans = frame_.captured_plans();
  counts.unseen_while_stopped = frame_.unseen_while_stopped();
  counts.entered_op_seq = frame_.entered_op_seq();
  counts.entered_p2p = frame_.entered_p2p();
  return counts;
}

template <class Record>
void OperationRecords::append(std::deque<Item<Record>>& items, uint64_t from, uint64_t to, uint64_t unseen,
                              Sampling& s) {
  if (to <= from) return;
  const uint64_t kept = std::min<uint64_t>(to - from, kept_of(Record{}));
  // Records that are overwritten already: only their number is known. Those read before are still followed.
  const uint64_t gone = to - from - kept;
  s.lose(Record{}, gone - std::min(gone, unseen));
  // By their count: if somebody has written over the frame, `to` may be the highest number there is.
  for (uint64_t left = kept; left > 0; --left) {
    items.emplace_back();
    items.back().number = to - left + 1;
  }
}

// Numbers that are taken back, of a simulated group, come again with other calls.
template <class Record>
void OperationRecords::take_back(std::deque<Item<Record>>& items, uint64_t to, uint64_t* settled) {
  while (!items.empty() && items.back().number > to) items.pop_back();
  *settled = std::min(*settled, to);
}

void OperationRecords::take_new(const Counts& counts, Sampling& s) {
  s.moved = true;
  take_back(operations_, counts.entered_op_seq, &settled_op_seq_);
  take_back(calls_, counts.entered_p2p, &settled_call_);
  completed_op_seq_ = std::min(completed_op_seq_, counts.entered_op_seq);
  const uint64_t unseen = counts.unseen_while_stopped - counts_.unseen_while_stopped;
  const bool none = operations_.empty();
  append(operations_, counts_.entered_op_seq, counts.entered_op_seq, unseen, s);
  append(calls_, counts_.entered_p2p, counts.entered_p2p, unseen, s);
  if (none && !operations_.empty()) completed_op_seq_ = operations_.front().number - 1;
  counts_ = counts;
}

// RoundFlags of one that no rows will tell of, once it is over; `still_going` before.
template <class Record>
uint8_t OperationRecords::ended_without_rows(const Record& record) const {
  const bool no_kernel = (record.flags & abi::op_no_kernel) != 0;
  if (no_kernel && record.plan == 0) return flag(wire::RoundFlags::no_kernel);
  if (!is_launched(record) || rows_.expected(record)) return still_going;
  if ((record.signals & abi::signal_stream) != 0) {
    const uint32_t ended = frame_.stream_ended_token();
    if (ended == 0 || abi::distance(record.plan, ended) < 0) return still_going;
  }
  return static_cast<uint8_t>(flag(wire::RoundFlags::not_measured) |
                              (no_kernel ? flag(wire::RoundFlags::no_kernel) : 0));
}

// False: there is nothing more to be known of it now.
template <class Record>
bool OperationRecords::read(Item<Record>& item, Sampling& s) {
  Record record{};
  switch (read_record(frame_, item.number, &record)) {
    case abi::Found::yes:
      if (item.known && record.plan != item.record.plan) s.moved = true;
      item.record = record;
      item.known = true;
      return true;
    case abi::Found::later:  // overwritten: it was never launched, or finished long ago
      if (item.known && item.record.plan != 0) return false;
      item.done = true;
      s.lose(record, 1);
      return false;
    case abi::Found::busy:
      // A record is there before its number is announced. So this one was not recorded, because the probe was
      // stopped; or its place is being taken this moment.
      if (counts_.unseen_while_stopped == 0) s.lose(record, 1);
      item.done = true;
      return false;
    case abi::Found::earlier: item.done = true; return false;  // not recorded
  }
  return false;
}

// It runs when the graph is replayed, which only the GPU can tell.
template <class Record>
void OperationRecords::refresh_captured(Item<Record>& item, Sampling& s) {
  if (item.record.plan != 0)
    captured_.remember(item.record);
  else
    captured_.expect(item.record, item.number);
  watched_mask_ |= captured_.channel_mask();
  conclude(item, never_seen_flags, s);
}

template <class Record>
void OperationRecords::refresh(Item<Record>& item, Sampling& s) {
  if (item.done) return;
  if ((!item.known || !item.launched()) && !read(item, s)) return;
  watched_mask_ |= rows_.channels(item.record);
  if ((item.record.flags & abi::op_captured) != 0) return refresh_captured(item, s);
  const uint8_t flags = ended_without_rows(item.record);
  if (flags == still_going) return;
  const uint64_t enter_ns = item.record.enter_monotonic_ns, launch_ns = item.record.launch_monotonic_ns;
  conclude(item, flags, s);
  if (launch_ns != 0) ended_in_turn(enter_ns, launch_ns, s);
}

// Thousands may be queued on the GPU: those at the front, of which nothing more is to be read, are passed over.
template <class Record>
void OperationRecords::refresh(std::deque<Item<Record>>& items, uint64_t* settled, Sampling& s) {
  const auto first = std::upper_bound(items.begin(), items.end(), *settled,
                                      [](uint64_t number, const Item<Record>& item) { return number < item.number; });
  bool all_settled = true;
  for (auto item = first; item != items.end(); ++item) {
    refresh(*item, s);
    all_settled = all_settled && (item->done || (item->known && item->launched() && rows_.expected(item->record)));
    if (all_settled) *settled = item->number;
  }
}

void OperationRecords::refresh(bool kernels_run, Sampling& s) {
  fresh_ = true;
  if (!any() && !kernels_run) watched_mask_ = captured_.channel_mask();
  refresh(operations_, &settled_op_seq_, s);
  refresh(calls_, &settled_call_, s);
  captured_.look_for_expected();
  watched_mask_ |= captured_.channel_mask();
}

bool OperationRecords::catch_up(bool kernels_run, Sampling& s) {
  if (fresh_) return false;
  const Counts counts = read_counts();
  if (!(counts == counts_)) take_new(counts, s);
  refresh(kernels_run, s);
  return true;
}

void OperationRecords::conclude(Operation& operation, uint8_t flags, Sampling& s) {
  FinishedRound round;
  round.flags = flags;
  finished_.add(operation.number, operation.record, round, {}, s.now);
  operation.done = true;
  s.moved = true;
}

void OperationRecords::conclude(Call& call, uint8_t flags, Sampling& s) {
  FinishedRound kernel;
  kernel.flags = flags;
  // A captured call is nothing yet: only its replays move bytes.
  if ((call.record.flags & abi::op_captured) == 0) finished_.add(call.record, kernel, {}, s.now);
  call.done = true;
  s.moved = true;
}

void OperationRecords::pop_done() {
  while (!operations_.empty() && operations_.front().done) {
    completed_op_seq_ = operations_.front().number;
    operations_.pop_front();
  }
  while (!calls_.empty() && calls_.front().done) calls_.pop_front();
}

// Two operations that came later, one after the other, have run: what was entered before the first was launched and is
// not planned yet never will be: NCCL has refused it.
void OperationRecords::ended_in_turn(uint64_t enter_ns, uint64_t launch_ns, Sampling& s) {
  const auto look = [&](auto& items) {
    for (auto& item : items) {
      if (item.known && item.record.enter_monotonic_ns >= enter_ns) break;  // and so are all behind it
      if (item.done || !item.known || item.record.plan != 0) continue;
      if (item.passed_by_ns == 0)
        item.passed_by_ns = launch_ns;
      else if (enter_ns > item.passed_by_ns)
        conclude(item, never_seen_flags, s);
    }
  };
  look(operations_);
  look(calls_);
}

template <class Record>
void OperationRecords::retire_passed_by(std::deque<Item<Record>>& items, uint32_t newest_token, const Kernels& running,
                                        Sampling& s) {
  for (auto& item : items) {
    if (item.done || !item.known || !rows_.expected(item.record)) continue;
    if (abi::distance(item.record.plan, newest_token) <= 0 || kernel_with(running, item.record.plan) != nullptr)
      continue;
    Record record{};
    // A record that is overwritten meanwhile was read before its launch.
    if (item.launched() || read_record(frame_, item.number, &record) == abi::Found::later) {
      s.lose(item.record, 1);
      conclude(item, flag(wire::RoundFlags::lapped), s);
    } else {
      conclude(item, never_seen_flags, s);
    }
  }
}

void OperationRecords::retire_passed_by(uint32_t newest_token, const Kernels& running, Sampling& s) {
  if (newest_token == 0) return;
  retire_passed_by(operations_, newest_token, running, s);
  retire_passed_by(calls_, newest_token, running, s);
}

Cargo OperationRecords::cargo_of(uint32_t token) const {
  Cargo cargo;
  if (const CapturedPlans::Plan* plan = captured_.find(token)) {
    cargo.captured = true;
    for (const abi::OpRecord& r : plan->operations) cargo.add(rows_, r);
    for (const abi::P2pRecord& r : plan->calls) cargo.add(rows_, r);
    return cargo;
  }
  // What was entered after the launch is not carried, and nothing behind it.
  uint64_t launch_ns = 0;
  const auto look = [&](const auto& items) {
    for (const auto& item : items) {
      if (item.done || !item.known) continue;
      if (launch_ns != 0 && item.record.enter_monotonic_ns > launch_ns) break;
      if (item.record.plan != token || !rows_.expected(item.record)) continue;
      launch_ns = item.record.launch_monotonic_ns;
      cargo.add(rows_, item.record);
    }
  };
  look(operations_);
  look(calls_);
  return cargo;
}

uint32_t OperationRecords::next_token() const {
  uint32_t token = 0;
  const auto look = [&](const auto& items) {
    for (const auto& item : items) {
      if (item.done || !item.known || !rows_.expected(item.record)) continue;
      if (token == 0 || abi::distance(token, item.record.plan) < 0) token = item.record.plan;
    }
  };
  look(operations_);
  look(calls_);
  return token;
}

template <class Record>
void OperationRecords::end(Item<Record>& item, uint64_t* enter_ns, uint64_t* launch_ns) {
  // A short kernel may end before its launch has returned to the user thread.
  if (!item.launched()) {
    Record record = item.record;
    if (read_record(frame_, item.number, &record) == abi::Found::yes) item.record = record;
  }
  *enter_ns = std::max(*enter_ns, item.record.enter_monotonic_ns);
  *launch_ns = item.record.launch_monotonic_ns;
  item.done = true;
}

void OperationRecords::finish(Kernel& kernel, const FinishedRound& measured, Sampling& s) {
  std::vector<LinkTrack> links;
  if (measured.samples >= link_samples_min) links.swap(kernel.links);
  uint64_t enter_ns = 0, launch_ns = 0;
  for (Operation& o : operations_) {
    if (o.done || !o.known) continue;
    if (launch_ns != 0 && o.record.enter_monotonic_ns > launch_ns) break;  // as in cargo_of
    if (o.record.plan != kernel.token || !rows_.expected(o.record)) continue;
    s.lose_rounds(kernel.lapped);
    end(o, &enter_ns, &launch_ns);
    finished_.add(o.number, o.record, measured, std::move(links), s.now);
    links.clear();  // of the first operation that the kernel carried
  }
  LinksOfPeers of_peers(std::move(links));
  for (Call& c : calls_) {
    if (c.done || !c.known) continue;
    if (launch_ns != 0 && c.record.enter_monotonic_ns > launch_ns) break;
    if (c.record.plan != kernel.token || !rows_.expected(c.record)) continue;
    s.lose_calls(kernel.lapped);
    end(c, &enter_ns, &launch_ns);
    finished_.add(c.record, measured, of_peers.take(c.record), s.now);
  }
  if (launch_ns != 0) ended_in_turn(enter_ns, launch_ns, s);
}

}  // namespace ccld::probe
