// What telemetry of many ranks costs the decision service: time for each round record, memory for each rank and
// communicator, and the time from the last evidence of a hang to its verdict.
//
// Usage: ccld-bench-scale --ranks N [--ticks N] [--trials N] [--threads N] [--check]        prints one JSON object
// With --check the exit status is 1 if a hang was not located right, or a healthy job had an incident.
//
// The messages are FlatBuffers, built by the probe's own encoder and not timed; they go the service's own way
// (server::Analysis), one by one. Times are processor time of this one thread. With --threads they are given together,
// as the service does when many wait, and times are those of a clock on the wall.
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "benchmarks/scale/job.h"
#include "benchmarks/scale/status_bench.h"
#include "decision/analyzer.h"
#include "decision/ingest/batch_decoder.h"
#include "decision/server/analysis.h"
#include "decision/server/heap.h"
#include "nlohmann/json.hpp"

namespace ccld::bench {
namespace {

using decision::Incident;
using nlohmann::json;

// As many encoded batches at a time as fit into a small part of the memory that is measured.
constexpr size_t chunk_batches = decision::server::together_max;
constexpr size_t arena_bytes = chunk_batches * 32 * 1024;
constexpr int64_t stall_ns = 6 * ns_per_s;  // beyond hang_suspect_s
constexpr int heartbeat_ticks = 10;
constexpr int decode_every_chunks = 4;

double seconds_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
double cpu_s() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

// Without pages of files: the program's own code comes into memory as it is used, however many ranks there are.
int64_t resident_bytes() {
  long long pages = 0, resident = 0, of_files = 0;
  if (FILE* file = fopen("/proc/self/statm", "r")) {
    if (fscanf(file, "%lld %lld %lld", &pages, &resident, &of_files) != 3) resident = of_files = 0;
    fclose(file);
  }
  return (resident - of_files) * sysconf(_SC_PAGESIZE);
}
int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// The telemetry that waits to be fed to the service.
class Chunk {
 public:
  Chunk() : arena_(arena_bytes / sizeof(uint64_t)) {}
  void add(probe::BatchEncoder::Bytes bytes, int64_t now_ns) {
    // ZeroMQ hands out messages at any address.
    const size_t at = (used_ + 7) / 8 * 8 + (messages_.size() % 2 == 0 ? 0 : 4);
    if (at + bytes.size > arena_bytes) {
      fprintf(stderr, "ccld-bench-scale: batches of %zu bytes do not fit\n", bytes.size);
      exit(2);
    }
    std::memcpy(data() + at, bytes.data, bytes.size);
    used_ = at + bytes.size;
    messages_.push_back({at, bytes.size, now_ns});
  }
  bool full() const { return messages_.size() == chunk_batches; }
  size_t size() const { return messages_.size(); }
  absl::Span<const uint8_t> bytes(size_t i) { return {data() + messages_[i].at, messages_[i].size}; }
  int64_t now_ns(size_t i) const { return messages_[i].now_ns; }
  size_t used() const { return used_; }
  void clear() { used_ = 0, messages_.clear(); }

 private:
  uint8_t* data() { return reinterpret_cast<uint8_t*>(arena_.data()); }
  struct Message {
    size_t at, size;
    int64_t now_ns;
  };
  std::vector<uint64_t> arena_;
  std::vector<Message> messages_;
  size_t used_ = 0;
};

struct Costs {
  double feed_s = 0, decode_s = 0, advance_s = 0, advance_max_s = 0;
  size_t batches = 0, decoded_batches = 0, records = 0, bytes = 0, advances = 0;
};

struct Trial {
  Fault fault;
  double locate_ms, wall_ms, stalled_tick_ms;
  bool right;
};

class Bench {
 public:
  // `threads`: 0: messages go one by one.
  Bench(int ranks, int ticks, size_t threads, uint64_t seed) : threads_(threads), job_(ranks, seed) {
    next_op_ = job_.newest_op(Group::world, start_ns + ticks * flush_ns) + 1;
    settings_.baseline_rounds_max = 10;  // a history that is filled after seconds,
    settings_.slow_window_s = 4;         // of which a quarter is the least for what is usual
    settings_.hang_gap_factor = 1;       // trials are pauses: each is a little longer than the last
  }

  json run(int ticks, int trials) {
    warm_encoder();
    const int64_t resident = resident_bytes(), heap = heap_bytes();
    analysis_ = std::make_unique<decision::server::Analysis>(settings_, std::nullopt, decision::Numbering(),
                                                             std::max<size_t>(threads_, 1));
    announce();
    const double join_s = costs_.feed_s;
    const int64_t resident_joined = resident_bytes();
    int64_t now_ns = start_ns;
    for (int t = 0; t < ticks; ++t, now_ns += flush_ns) {
      if (t == std::min(ticks / 2, 10)) costs_ = {};
      tick(t, now_ns);
    }
    const Costs steady = costs_;
    level(now_ns);
    const auto memberships = static_cast<double>(job_.layout().memberships());
    const double resident_each = static_cast<double>(resident_bytes() - resident) / memberships;
    const double heap_each = static_cast<double>(heap_bytes() - heap) / memberships;
    bool quiet = incidents_ == 0;
    const json status = measure_status(analysis_->analyzer(), now_ns);
    now_ns += ns_per_s;
    std::vector<Trial> done;
    for (int t = 0; t < trials; ++t) done.push_back(trial(t, now_ns));

    const auto per_record_ns = [&](double s) {
      return s * 1e9 / static_cast<double>(std::max<size_t>(steady.records, 1));
    };
    const double decode_s = steady.decode_s * static_cast<double>(steady.batches) /
                            static_cast<double>(std::max<size_t>(steady.decoded_batches, 1));
    const double total_s = steady.feed_s + steady.advance_s;
    json row;
    row["ranks"] = job_.layout().ranks();
    row["communicators"] = job_.layout().communicators();
    row["memberships"] = job_.layout().memberships();
    row["records"] = steady.records;
    row["threads"] = std::max<size_t>(threads_, 1);
    row["records_per_s_per_core"] =
        static_cast<double>(steady.records) / total_s / static_cast<double>(std::max<size_t>(threads_, 1));
    row["ns_per_record"] = {{"all", per_record_ns(total_s)},
                            {"decode", per_record_ns(decode_s)},
                            {"apply", per_record_ns(steady.feed_s - decode_s)},
                            {"advance", per_record_ns(steady.advance_s)}};
    row["records_per_batch"] =
        static_cast<double>(steady.records) / static_cast<double>(std::max<size_t>(steady.batches, 1));
    row["bytes_per_record_on_the_wire"] =
        static_cast<double>(steady.bytes) / static_cast<double>(std::max<size_t>(steady.records, 1));
    row["bytes_per_rank_communicator"] = resident_each;
    row["heap_bytes_per_rank_communicator"] = heap_each;
    row["bytes_per_rank_communicator_joined"] = static_cast<double>(resident_joined - resident) / memberships;
    row["bytes_per_rank_communicator_hung"] = static_cast<double>(resident_bytes() - resident) / memberships;
    row["join_us_per_rank_communicator"] = join_s * 1e6 / memberships;
    row["tick_ms"] = steady.advance_s * 1e3 / static_cast<double>(std::max<size_t>(steady.advances, 1));
    row["tick_ms_max"] = steady.advance_max_s * 1e3;
    row["quiet"] = quiet;
    row["status"] = status;
    add_trials(row, done);
    return row;
  }

 private:
  void warm_encoder() {
    for (size_t i = 0; i < chunk_batches; ++i) {
      const int rank = static_cast<int>(i) % job_.layout().ranks();
      job_.announce(rank, encoder_);
      job_.heartbeat(rank, start_ns, encoder_);
      chunk_.add(job_.finish(rank, start_ns, encoder_), start_ns);
    }
    chunk_.clear();
  }

  double spent_s() const { return seconds_of(threads_ == 0 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC); }

  void feed() {
    const bool decode = threads_ == 0 && chunks_++ % decode_every_chunks == 0;
    if (decode) {
      const double from = cpu_s();
      for (size_t i = 0; i < chunk_.size(); ++i)
        if (!decision::ingest::decode_batch(chunk_.bytes(i)).ok()) refused();
      costs_.decode_s += cpu_s() - from;
      costs_.decoded_batches += chunk_.size();
    }
    const double from = spent_s();
    if (threads_ == 0)
      feed_one_by_one();
    else
      feed_together();
    costs_.feed_s += spent_s() - from;
    costs_.batches += chunk_.size();
    costs_.bytes += chunk_.used();
    chunk_.clear();
  }
  void feed_one_by_one() {
    for (size_t i = 0; i < chunk_.size(); ++i)
      if (!analysis_->on_message(chunk_.bytes(i), chunk_.now_ns(i), chunk_.now_ns(i))) refused();
  }
  void feed_together() {
    if (chunk_.size() == 0) return;
    std::vector<decision::server::Analysis::Message> messages;
    for (size_t i = 0; i < chunk_.size(); ++i) messages.push_back({chunk_.bytes(i)});
    const int64_t now_ns = chunk_.now_ns(chunk_.size() - 1);
    analysis_->on_messages(messages, now_ns, now_ns, [](size_t, const decision::Batch* batch) {
      if (!batch) refused();
    });
  }

  [[noreturn]] static void refused() {
    fprintf(stderr, "ccld-bench-scale: a batch was refused\n");
    exit(2);
  }

  void send(int rank, int64_t now_ns) {
    chunk_.add(job_.finish(rank, now_ns, encoder_), now_ns);
    if (chunk_.full()) feed();
  }

  std::vector<Incident> advance(int64_t now_ns) {
    const double from = spent_s();
    std::vector<Incident> out = analysis_->analyzer().advance(now_ns);
    const double took = spent_s() - from;
    costs_.advance_s += took;
    costs_.advance_max_s = std::max(costs_.advance_max_s, took);
    ++costs_.advances;
    incidents_ += out.size();
    return out;
  }

  void announce() {
    for (int rank = 0; rank < job_.layout().ranks(); ++rank) {
      job_.announce(rank, encoder_);
      send(rank, start_ns);
    }
    feed();
  }

  void tick(int t, int64_t now_ns) {
    for (int rank : job_.flush_order()) {
      const int64_t at_ns = now_ns + job_.phase_ns(rank);
      costs_.records += job_.flush(rank, at_ns, encoder_);
      if ((rank / gpus_per_node + t) % heartbeat_ticks == 0) job_.heartbeat(rank, at_ns, encoder_);
      if (!encoder_.empty()) send(rank, at_ns);
    }
    feed();
    advance(now_ns + flush_ns);
  }

  // Everybody reports everything up to now.
  void level(int64_t now_ns) {
    for (int rank : job_.flush_order()) {
      job_.flush(rank, now_ns, encoder_);
      if (!encoder_.empty()) send(rank, now_ns);
    }
    feed();
    advance(now_ns);
  }

  template <class Say>
  void everybody(int64_t now_ns, Say say) {
    for (int rank : job_.flush_order()) {
      say(rank);
      send(rank, now_ns);
    }
    feed();
  }

  Trial trial(int number, int64_t& now_ns) {
    const int ranks = job_.layout().ranks();
    Hang h;
    h.fault = number % 2 == 0 ? Fault::absent_rank : Fault::frozen_channel;
    h.rank = static_cast<int>((static_cast<int64_t>(number) * 7919 + 13) * 104729 % ranks);
    h.channel = number * 5 % job_.layout().channels_of(Group::world);
    h.began_ns = now_ns;
    h.op = next_op_++;
    now_ns += 200 * ns_per_ms;
    everybody(now_ns, [&](int rank) { job_.hang(rank, h, now_ns, encoder_); });
    advance(now_ns);
    const int64_t hold_ns = stall_ns + number * ns_per_s / 2;
    // A look during the standstill, before it counts as one.
    now_ns = h.began_ns + 1 * ns_per_s;
    everybody(now_ns, [&](int rank) { job_.hang(rank, h, now_ns, encoder_); });
    const double look = cpu_s();
    advance(now_ns);
    Trial result{h.fault, 0, 0, (cpu_s() - look) * 1e3, false};
    now_ns = h.began_ns + hold_ns;
    everybody(now_ns, [&](int rank) { job_.hang(rank, h, now_ns, encoder_); });
    const double from = cpu_s(), wall = seconds_of(CLOCK_MONOTONIC);
    const std::vector<Incident> found = advance(now_ns);
    result.locate_ms = (cpu_s() - from) * 1e3;
    result.wall_ms = (seconds_of(CLOCK_MONOTONIC) - wall) * 1e3;
    const auto expected =
        h.fault == Fault::absent_rank ? decision::FaultClass::h1_not_entered : decision::FaultClass::h3_hardware;
    for (const Incident& i : found)
      result.right |= i.fault == expected && i.culprits.size() == 1 && i.culprits[0].rank.value == h.rank &&
                      i.op.value == h.op && i.state != decision::VerdictState::resolved;
    if (!result.right) explain(h, found);
    now_ns += 200 * ns_per_ms;
    everybody(now_ns, [&](int rank) { job_.recover(rank, h, now_ns, encoder_); });
    advance(now_ns);
    now_ns += 200 * ns_per_ms;
    advance(now_ns);
    return result;
  }

  static void explain(const Hang& h, const std::vector<Incident>& found) {
    fprintf(stderr, "ccld-bench-scale: planted %s rank %d channel %d operation %llu, found %zu incidents:",
            h.fault == Fault::absent_rank ? "absent" : "frozen", h.rank, h.channel,
            static_cast<unsigned long long>(h.op), found.size());
    for (const Incident& i : found)
      fprintf(stderr, " [%s op %llu, %zu culprits, first %d, %zu candidates]", decision::name(i.fault),
              static_cast<unsigned long long>(i.op.value), i.culprits.size(),
              i.culprits.empty() ? -1 : i.culprits[0].rank.value, i.candidates.size());
    fprintf(stderr, "\n");
  }

  static double quantile(std::vector<double> v, double q) {
    if (v.empty()) return 0;
    std::sort(v.begin(), v.end());
    return v[std::min(v.size() - 1, static_cast<size_t>(q * static_cast<double>(v.size())))];
  }

  static void add_trials(json& row, const std::vector<Trial>& trials) {
    std::vector<double> all, wall, absent, frozen, looks;
    size_t right = 0;
    for (const Trial& t : trials) {
      all.push_back(t.locate_ms);
      wall.push_back(t.wall_ms);
      looks.push_back(t.stalled_tick_ms);
      (t.fault == Fault::absent_rank ? absent : frozen).push_back(t.locate_ms);
      right += t.right;
    }
    row["trials"] = trials.size();
    row["located_right"] = right;
    row["locate_ms_p50"] = quantile(all, 0.5);
    row["locate_ms_p99"] = quantile(all, 0.99);
    row["locate_wall_ms_p50"] = quantile(wall, 0.5);
    row["locate_absent_rank_ms_p50"] = quantile(absent, 0.5);
    row["locate_frozen_channel_ms_p50"] = quantile(frozen, 0.5);
    row["stalled_tick_ms"] = quantile(looks, 0.5);
  }

  decision::Settings settings_;
  const size_t threads_;
  Job job_;
  probe::BatchEncoder encoder_;
  Chunk chunk_;
  std::unique_ptr<decision::server::Analysis> analysis_;
  Costs costs_;
  size_t chunks_ = 0, incidents_ = 0;
  uint64_t next_op_ = 0;
};

int run(int argc, char** argv) {
  CLI::App app("Measures what telemetry of many ranks costs the decision service.", "ccld-bench-scale");
  int ranks = 1024, ticks = 20, trials = 10;
  app.add_option("--ranks", ranks, "ranks of the simulated job, a multiple of 64")->check(CLI::Range(64, 1 << 20));
  app.add_option("--ticks", ticks, "tenths of a second of traffic")->check(CLI::Range(10, 100000));
  app.add_option("--trials", trials, "hangs planted")->check(CLI::Range(0, 100));
  size_t threads = 0;
  app.add_option("--threads", threads,
                 "threads that take in what is given together; 0: one, and one message after the other")
      ->check(CLI::Range(size_t{0}, decision::threads_max));
  bool check = false;
  app.add_flag("--check", check, "the exit status says whether every verdict was right");
  CLI11_PARSE(app, argc, argv);
  if (ranks % Layout::ranks_step != 0) {
    fprintf(stderr, "ccld-bench-scale: --ranks %d: must be a multiple of %d\n", ranks, Layout::ranks_step);
    return 2;
  }
  decision::server::keep_large_blocks_apart();  // as the service does
  Bench bench(ranks, ticks, threads, 1);
  const json row = bench.run(ticks, trials);
  printf("%s\n", row.dump().c_str());
  const bool right = row["quiet"].get<bool>() && row["located_right"] == row["trials"];
  return check && !right ? 1 : 0;
}

}  // namespace
}  // namespace ccld::bench

int main(int argc, char** argv) { return ccld::bench::run(argc, argv); }
