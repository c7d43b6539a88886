// A job whose ranks work, and strangers who say anything that the decoder lets in, before a whole analysis under an
// injected clock; then everything that goes out: incidents, status, metrics.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "decision/analyzer.h"
#include "decision/report/prometheus.h"
#include "decision/report/status_index.h"
#include "decision/report/status_pages.h"
#include "decision/report/status_text.h"
#include "decision/report/verdict_text.h"
#include "test/fuzz/bytes.h"
#include "test/fuzz/require.h"
#include "test/support/telemetry/stranger.h"

namespace ccld::decision {
namespace {

// The bytes of the input, then zeros: what a byte changes stays close to where it lies.
class InputNumbers : public fake::Numbers {
 public:
  explicit InputNumbers(fuzz::ByteReader& bytes) : bytes_(bytes) {}
  uint32_t bits() override {
    const uint8_t b = bytes_.byte();
    return b < 0xf0 ? b : bytes_.number<uint32_t>();
  }

 private:
  fuzz::ByteReader& bytes_;
};

constexpr int ranks = 4;
constexpr int steps_max = 96;  // of an input: keeps an execution below a tenth of a second

// Four processes on two hosts; the communicator is one of those that strangers speak of too.
class Job {
 public:
  explicit Job(fuzz::ByteReader& bytes) : bytes_(bytes) {}

  Batch batch(int rank, Nanoseconds now_ns) {
    Batch b;
    b.process = {rank < 2 ? "host" : "host2", rank < 2 ? "boot" : "boot2", static_cast<uint32_t>(1 + rank), 0,
                 static_cast<uint64_t>(1 + rank)};
    b.job = "job";
    b.batch_seq = ++sent_;
    b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
    b.sent_realtime_ns = now_ns;
    return b;
  }
  Batch announcement(int rank, Nanoseconds now_ns) {
    CommUp m;
    m.comm = CommUid{1};
    m.rank = Rank{rank};
    m.rank_count = ranks;
    m.node = rank / 2, m.node_count = 2, m.local_rank = rank % 2, m.cuda_device = rank % 2;
    m.host = rank < 2 ? "host" : "host2";
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    m.channels.push_back({0, previous, next, rank - 1, {rank + 1 < ranks ? rank + 1 : -1}, rank});
    m.connections.push_back({0, abi::Direction::send, next, 0, "mlx5_0"});
    Batch b = batch(rank, now_ns);
    b.payloads.push_back(m);
    return b;
  }
  // All ranks finish `count` operations, some of them late or slow as the input says.
  template <class Take>
  void work(int count, Nanoseconds now_ns, Take take) {
    const int odd = bytes_.byte() % ranks;
    const auto late_ns = static_cast<Nanoseconds>(bytes_.byte()) * ns_per_ms,
               long_ns = static_cast<Nanoseconds>(bytes_.byte()) * ns_per_ms;
    const auto wire_ns = static_cast<Nanoseconds>(bytes_.byte()) * ns_per_ms;
    for (int rank = 0; rank < ranks; ++rank) {
      Rounds m;
      m.comm = CommUid{1};
      m.rank = Rank{rank};
      for (int i = 0; i < count; ++i) {
        const auto from = static_cast<uint64_t>(now_ns + i * 300 * ns_per_ms / count);
        const uint64_t late = rank == odd ? static_cast<uint64_t>(late_ns) : 0;
        Round r;
        r.op = OpSeq{op_ + static_cast<uint64_t>(i) + 1};
        r.signature = signature();
        r.enter_monotonic_ns = r.launch_monotonic_ns = from + late;
        r.begin_device_ns = from + late;
        r.end_device_ns = from + std::max<uint64_t>(late, 1) + 2'000'000 + static_cast<uint64_t>(long_ns);
        r.send_steps = r.recv_steps = 24;
        r.flags = round_counts_valid;
        m.rounds.push_back(r);
        LinkStages l;
        l.op = r.op;
        l.peer = (rank + 1) % ranks;
        l.net_device = 0;
        l.steps = 24;
        l.direction = abi::Direction::send;
        l.gpu_mean_realtime_ns = static_cast<int64_t>(from);
        l.ready_mean_realtime_ns = l.gpu_mean_realtime_ns + 1000;
        l.wire_mean_realtime_ns = l.ready_mean_realtime_ns + (rank == odd ? wire_ns : 0) + 1000;
        l.done_mean_realtime_ns = l.wire_mean_realtime_ns + 1000;
        m.links.push_back(l);
      }
      Batch b = batch(rank, now_ns + 300 * ns_per_ms);
      b.payloads.push_back(std::move(m));
      b.payloads.push_back(snapshot(rank, op_ + static_cast<uint64_t>(count), false, now_ns + 300 * ns_per_ms));
      take(std::move(b));
    }
    op_ += static_cast<uint64_t>(count);
  }
  // The next operation is called by those ranks that the input names, and does not end.
  template <class Take>
  void hang(Nanoseconds now_ns, Take take) {
    const uint8_t called = bytes_.byte();
    for (int rank = 0; rank < ranks; ++rank) {
      Batch b = batch(rank, now_ns);
      b.payloads.push_back(snapshot(rank, op_, (called >> rank & 1) != 0, now_ns));
      take(std::move(b));
    }
  }

 private:
  static Signature signature() {
    Signature s;
    s.count = 1 << 20;
    s.function = abi::Function::all_reduce;
    s.datatype = abi::Datatype::float32;
    s.reduction = abi::Reduction::sum;
    s.algorithm = abi::Algorithm::ring;
    s.protocol = abi::Protocol::simple;
    s.channels = 1;
    return s;
  }
  static InFlight snapshot(int rank, uint64_t completed, bool waits, Nanoseconds now_ns) {
    InFlight m;
    m.comm = CommUid{1};
    m.rank = Rank{rank};
    m.sample_monotonic_ns = static_cast<uint64_t>(now_ns);
    m.entered = m.launched = OpSeq{completed + (waits ? 1 : 0)};
    m.completed = OpSeq{completed};
    m.movement = completed;
    if (!waits) return m;
    m.late = true;
    m.moved_age_ms = 2000;
    InFlightOp o;
    o.op = m.entered;
    o.signature = signature();
    o.launched = o.begun = true;
    o.enter_age_ms = o.launch_age_ms = 2000;
    o.signals = signals_default;
    o.channels.push_back({1, 0, true, false, 2000, 10, 3, 3});
    m.operations.push_back(o);
    m.operations_total = 1;
    LaneState l;
    l.token = 1, l.current_step = 3, l.want_step = 4, l.seen_step = 3;
    l.peer = (rank + ranks - 1) % ranks;
    l.wait_age_ms = l.moved_age_ms = 2000;
    l.wait = abi::WaitKind::data;
    l.wait_certain = true;
    m.lanes.push_back(l);
    return m;
  }

  fuzz::ByteReader& bytes_;
  uint64_t op_ = 0, sent_ = 0;
};

// No text that goes out moves a terminal, whatever the names were; no document is one that cannot be written.
void show(const Analyzer& analyzer, Nanoseconds now_ns) {
  report::Snapshot snapshot;
  snapshot.now_ns = now_ns;
  snapshot.status = analyzer.status(now_ns);
  snapshot.incidents = analyzer.incidents();
  for (const Incident& incident : snapshot.incidents) {
    FUZZ_REQUIRE(incident.confidence >= 0 && incident.confidence <= 1);
    const report::Json verdict = report::verdict_json(incident, now_ns, snapshot.clock);
    FUZZ_REQUIRE(report::to_line(verdict).find('\n') == std::string::npos);
    FUZZ_REQUIRE(fuzz::is_harmless(report::verdict_text(verdict, true)));
  }
  const report::Json status = report::status_json(snapshot, true);
  FUZZ_REQUIRE(!report::to_line(status).empty());
  report::StatusTextOptions options;
  options.ranks = true;
  FUZZ_REQUIRE(fuzz::is_harmless(report::status_text(status, options)));
  FUZZ_REQUIRE(!report::prometheus_text(snapshot).empty());
  const report::StatusIndex index(snapshot);
  for (const CommStatus& comm : snapshot.status.communicators)
    FUZZ_REQUIRE(report::ranks_json(snapshot, index, report::comm_text(comm.comm), {}).ok());
}

void run(fuzz::ByteReader& bytes) {
  InputNumbers numbers(bytes);
  Settings settings;
  const uint8_t choice = bytes.byte();
  if ((choice & 1) != 0) settings.rules = RuleSet::paper;
  if ((choice & 2) != 0) settings.communicators_max = 2, settings.memberships_max = 512, settings.processes_max = 4;
  settings.hang_suspect_s = 0.5;
  settings.hang_confirm_s = 5;
  settings.init_hang_s = 1;
  settings.slow_window_s = 1;
  settings.rounds_kept_max = 64;
  settings.forget_s = (choice & 4) != 0 ? 2 : 600;
  Analyzer analyzer(settings);
  fake::Stranger stranger(numbers);
  Job job(bytes);
  Nanoseconds now_ns = 1000 * ns_per_s;
  const auto take = [&](Batch batch) { analyzer.apply(batch, now_ns); };
  for (int rank = 0; rank < ranks; ++rank) take(job.announcement(rank, now_ns));
  for (int step = 0; step < steps_max && !bytes.empty(); ++step) {
    const uint8_t what = bytes.byte();
    switch (what % 8) {
      case 0:
      case 1:
      case 2: job.work(1 + what / 8 % 8, now_ns, take); break;
      case 3: job.hang(now_ns, take); break;
      case 4: now_ns += (1 + what / 8) * ns_per_s; break;
      default: take(stranger.batch(now_ns)); break;
    }
    now_ns += 310 * ns_per_ms;
    analyzer.advance(now_ns);
    if (what == 0xff) show(analyzer, now_ns);
  }
  analyzer.advance(now_ns += 10 * ns_per_s);
  show(analyzer, now_ns);
}

}  // namespace
}  // namespace ccld::decision

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ccld::fuzz::ByteReader bytes(data, size);
  ccld::decision::run(bytes);
  return 0;
}
