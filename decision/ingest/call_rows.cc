#include "decision/ingest/call_rows.h"

#include "absl/strings/str_cat.h"
#include "decision/ingest/limits.h"

namespace ccld::decision::ingest {

bool take(Decoder& d, const LinkFields& fields, const wire::LinkRow& in, LinkStages& out) {
  out.op = OpSeq(in.op_seq);
  out.gpu_mean_realtime_ns = in.gpu_mean_realtime_ns;
  out.ready_mean_realtime_ns = in.ready_mean_realtime_ns;
  out.wire_mean_realtime_ns = in.wire_mean_realtime_ns;
  out.done_mean_realtime_ns = in.done_mean_realtime_ns;
  out.peer = in.peer;
  out.net_device = in.net_device;
  out.steps = in.steps;
  out.first_step = in.first_step;
  out.proxy_away_us = in.proxy_away_us;
  out.channel = in.channel;
  out.direction = static_cast<abi::Direction>(in.direction);
  out.group = in.group;
  if (in.first_step != 0 && in.first_step >= in.steps)
    return d.fail(fields.first_step, absl::StrCat("is ", in.first_step, ", there are ", in.steps, " steps"));
  return d.op_seq("LinkStages.op_seq", in.op_seq) &&
         d.signed_time("LinkStages.gpu_mean_realtime_ns", in.gpu_mean_realtime_ns) &&
         d.signed_time("LinkStages.ready_mean_realtime_ns", in.ready_mean_realtime_ns) &&
         d.signed_time("LinkStages.wire_mean_realtime_ns", in.wire_mean_realtime_ns) &&
         d.signed_time("LinkStages.done_mean_realtime_ns", in.done_mean_realtime_ns) &&
         d.optional_rank("LinkStages.peer", in.peer) && d.net_device("LinkStages.net_device", in.net_device) &&
         d.channel("LinkStages.channel", in.channel) && d.direction("LinkStages.direction", in.direction) &&
         d.group("LinkStages.group", in.group);
}

bool unpack_links(Decoder& d, const LinkFields& fields, uint32_t rows, absl::Span<const uint8_t> bytes,
                  std::vector<LinkStages>& out) {
  if (!d.rows(fields.links, rows, links_per_message_max)) return false;
  std::vector<wire::LinkRow> links(rows);
  if (!wire::unpack(bytes.data(), bytes.size(), links))
    return d.fail(fields.links, absl::StrCat("are not ", rows, " rows"));
  out.resize(rows);
  for (size_t i = 0; i < rows; ++i)
    if (!take(d, fields, links[i], out[i])) return false;
  return true;
}

bool take(Decoder& d, const Signatures& signatures, absl::Span<const wire::CallRow> rows, std::vector<Round>& out) {
  // Whether anything is out of range at all; only then which.
  uint64_t times = 0, op_seq_last = 0;
  bool in_order = true, in_range = true;
  for (const wire::CallRow& r : rows) {
    times |= (r.enter_monotonic_ns > time_ns_max) | (r.launch_monotonic_ns > time_ns_max) |
             (r.begin_device_ns > time_ns_max) | (r.end_device_ns > time_ns_max);
    in_range &= r.number - 1 < sequence_max && r.kind < signatures.size();
    // A graph is replayed long after its operations were called: only calls are in order.
    if (r.replay != 0) continue;
    in_order &= r.number >= op_seq_last;
    op_seq_last = r.number;
  }
  for (size_t i = 0; !in_range && i < rows.size(); ++i) {
    if (!d.op_seq("Rounds.op_seq", rows[i].number)) return false;
    if (rows[i].kind >= signatures.size())
      return d.fail("Rounds.signature_index",
                    absl::StrCat("is ", rows[i].kind, ", there are ", signatures.size(), " signatures"));
  }
  if (!in_order) return d.fail("Rounds.op_seq", "is not in order");
  for (size_t i = 0; times != 0 && i < rows.size(); ++i) {
    if (!d.time("Rounds.enter_monotonic_ns", rows[i].enter_monotonic_ns) ||
        !d.time("Rounds.launch_monotonic_ns", rows[i].launch_monotonic_ns) ||
        !d.time("Rounds.begin_device_ns", rows[i].begin_device_ns) ||
        !d.time("Rounds.end_device_ns", rows[i].end_device_ns)) {
      return false;
    }
  }
  out.reserve(rows.size());
  for (const wire::CallRow& r : rows)
    out.push_back({.op = OpSeq(r.number),
                   .signature = signatures[r.kind],
                   .enter_monotonic_ns = r.enter_monotonic_ns,
                   .launch_monotonic_ns = r.launch_monotonic_ns,
                   .begin_device_ns = r.begin_device_ns,
                   .end_device_ns = r.end_device_ns,
                   .send_steps = r.send_steps,
                   .recv_steps = r.recv_steps,
                   .send_changes = r.send_changes,
                   .recv_changes = r.recv_changes,
                   .samples = r.samples,
                   .flags = r.flags,
                   .replay = r.replay,
                   .signals = r.signals});
  return true;
}

bool take(Decoder& d, const P2pPeer& of, const wire::CallRow& r, P2pRound& out) {
  out.peer = Rank(of.peer);
  out.direction = static_cast<abi::Direction>(of.direction);
  out.pair_seq = r.number;
  out.bytes = of.bytes;
  out.enter_monotonic_ns = r.enter_monotonic_ns;
  out.launch_monotonic_ns = r.launch_monotonic_ns;
  out.begin_device_ns = r.begin_device_ns;
  out.end_device_ns = r.end_device_ns;
  out.flags = r.flags;
  out.replay = r.replay;
  out.plan = r.plan;
  out.send_steps = r.send_steps;
  out.recv_steps = r.recv_steps;
  return d.rank("P2pRounds.peer", of.peer) && d.direction("P2pRounds.direction", of.direction) &&
         d.op_seq("P2pRounds.pair_seq", r.number) && d.time("P2pRounds.enter_monotonic_ns", r.enter_monotonic_ns) &&
         d.time("P2pRounds.launch_monotonic_ns", r.launch_monotonic_ns) &&
         d.time("P2pRounds.begin_device_ns", r.begin_device_ns) && d.time("P2pRounds.end_device_ns", r.end_device_ns);
}

}  // namespace ccld::decision::ingest
