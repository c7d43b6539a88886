#include "decision/measure/baseline.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {

namespace {

constexpr uint32_t spread_memory = 100;

template <class Number, class Count>
void add_to_spread(Number& mean, float& deviation, Count& samples, double x) {
  if (samples >= 5 && deviation > 0) x = std::clamp<double>(x, mean - 5 * deviation, mean + 5 * deviation);
  samples = static_cast<Count>(std::min<uint32_t>(samples + 1u, spread_memory));
  const double weight = 1.0 / samples;
  const double off = x - mean;
  mean = static_cast<Number>(mean + weight * off);
  // The first sample has no deviation; afterwards compare with the mean before it moved halfway.
  if (samples > 1) deviation += static_cast<float>((samples == 2 ? 1.0 : weight) * (std::abs(off) - deviation));
}

}  // namespace

void Spread::add(double x) { add_to_spread(mean_, deviation_, samples_, x); }

void EdgeBaseline::add(Interval which, double ns) {
  const auto i = static_cast<size_t>(which);
  add_to_spread(mean_ns[i], deviation_ns[i], samples[i], ns);
}

void EdgeBaseline::add_away(double sender_part, double receiver_part) {
  constexpr uint8_t memory = 100;
  away_samples = std::min<uint8_t>(away_samples + 1, memory);
  sender_away_part += static_cast<float>((sender_part - sender_away_part) / away_samples);
  receiver_away_part += static_cast<float>((receiver_part - receiver_away_part) / away_samples);
}

Spread trimmed(std::vector<float> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto middle = [&](size_t cut, auto&& of) {
    double sum = 0;
    for (size_t i = cut; i < values.size() - cut; ++i) sum += of(values[i]);
    return sum / static_cast<double>(values.size() - 2 * cut);
  };
  const double mean = middle(values.size() / 10, [](float v) { return static_cast<double>(v); });
  const double deviation = middle(values.size() / 20, [&](float v) { return std::abs(v - mean); });
  return {mean, deviation, std::min(static_cast<uint32_t>(values.size()), spread_memory)};
}

RoundKind kind_of(const Signature& s) {
  return {s.count,
          s.root,
          static_cast<uint8_t>(s.function),
          static_cast<uint8_t>(s.datatype),
          static_cast<uint8_t>(s.reduction),
          static_cast<uint8_t>(s.algorithm),
          static_cast<uint8_t>(s.protocol),
          s.channels};
}

const char* name(Stage s) {
  switch (s) {
    case Stage::sender_proxy: return "waiting in the sender's proxy";
    case Stage::sender_nic: return "handed to the network and not yet sent";
    case Stage::wire: return "on the wire";
    case Stage::receiver_proxy: return "waiting in the receiver's proxy";
    case Stage::receiver_gpu: return "waiting for the receiver's GPU";
    case Stage::gpu_to_gpu: return "between the two GPUs";
  }
  return "?";
}

KindBaseline* Baselines::of(const RoundKind& kind) {
  auto it = kinds_.find(kind);
  if (it == kinds_.end()) {
    if (kinds_.size() >= settings_.signatures_max) return nullptr;
    it = kinds_.emplace(kind, std::make_unique<KindBaseline>()).first;
  }
  return it->second.get();
}

void Habit::add(double lost, bool event) {
  ++rounds;
  if (!event) return;
  ++events;
  lost_ns += lost;
  largest_ns = std::max(largest_ns, lost);
}

void Habit::add(const Habit& h) {
  rounds += h.rounds;
  events += h.events;
  lost_ns += h.lost_ns;
  largest_ns = std::max(largest_ns, h.largest_ns);
}

double Habit::per_round_ns() const {
  if (events < 2 || rounds == 0) return 0;
  const double others = (lost_ns - largest_ns) / static_cast<double>(events - 1);
  return others * static_cast<double>(events) / static_cast<double>(rounds);
}

void Baselines::learn_first(KindBaseline& b, double max_ns, double skew_ns, double comm_ns, Nanoseconds now_ns) {
  constexpr size_t enough = 30, least = 3, kept_max = 32;
  const size_t wanted = std::min<size_t>(enough, settings_.baseline_rounds_max);
  if (b.first.empty()) b.first_ns = now_ns, b.first_seen = 0, b.first_stride = 1;
  if (b.first_seen++ % b.first_stride == 0)
    b.first.push_back({static_cast<float>(max_ns), static_cast<float>(skew_ns), static_cast<float>(comm_ns)});
  const Nanoseconds age_ns = now_ns - b.first_ns;
  const bool long_enough = age_ns >= seconds_to_ns(settings_.slow_window_s) / 4;
  const bool time_is_over = age_ns > seconds_to_ns(settings_.baseline_s);
  if ((b.first_seen < wanted || !long_enough) && !(time_is_over && b.first.size() >= least)) {
    if (b.first.size() < kept_max) return;
    // Every other one is enough.
    for (size_t i = 0; i < kept_max / 2; ++i) b.first[i] = b.first[2 * i];
    b.first.resize(kept_max / 2);
    b.first_stride *= 2;
    return;
  }
  const auto spread = [&](float KindBaseline::First::* part) {
    std::vector<float> values;
    for (const KindBaseline::First& f : b.first) values.push_back(f.*part);
    return trimmed(std::move(values));
  };
  b.max_ns = spread(&KindBaseline::First::max_ns);
  b.skew_ns = spread(&KindBaseline::First::skew_ns);
  b.comm_ns = spread(&KindBaseline::First::comm_ns);
  b.ready = true;
  for (const KindBaseline::First& f : b.first) {
    const double beyond = f.max_ns - b.max_ns.mean();
    habit_.add(beyond, beyond >= b.max_ns.mean());
  }
  b.early = {};
  b.early_slow = b.early_returns = 0;
  b.last_slow = b.doubtful = false;
  std::vector<KindBaseline::First>().swap(b.first);
}

void Baselines::learn_habit(KindBaseline& b, double lost_ns, bool slow) {
  constexpr uint64_t early_rounds = 70, compared_rounds = 30, rare_part = 5, often_part = 3, returns_part = 6;
  if (b.early.rounds >= early_rounds) return;
  b.early.add(lost_ns, slow && lost_ns >= b.max_ns.mean());
  b.early_slow += slow;
  b.early_returns += b.last_slow && !slow;
  b.last_slow = slow;
  if (b.early.rounds == compared_rounds)
    b.doubtful = b.early_slow * often_part >= compared_rounds && b.early_returns * returns_part >= compared_rounds;
  if (b.early.rounds == early_rounds && b.early.events * rare_part <= early_rounds) habit_.add(b.early);
}

bool Baselines::grant_ranks(KindBaseline& b, size_t ranks) {
  if (b.ranks.empty()) {
    if (rank_kinds_ >= rank_kinds_max) return false;
    ++rank_kinds_;
  }
  b.ranks.resize(ranks);
  return true;
}

EdgeBaseline* Baselines::edge(KindBaseline& b, const Edge& e, size_t ranks) {
  const auto known = b.edges.find(e);
  if (known != b.edges.end()) return &known->second;
  if (edges_ >= std::max(edges_min, edges_per_rank_max * ranks)) return nullptr;
  ++edges_;
  return &b.edges[e];
}

void Baselines::forget() {
  for (auto& [kind, b] : kinds_) {
    b->ready = false;
    b->first.clear();
    b->rank_samples = b->queued_samples = 0;
    b->queued_deviation_ns = b->in_turn_part = 0;
    std::fill(b->ranks.begin(), b->ranks.end(), RankBaseline{});
    edges_ -= b->edges.size();
    b->edges.clear();
  }
  habit_ = {};
}

}  // namespace ccld::decision
