#include "test/sim/cluster/traffic.h"

namespace ccld::sim {
namespace {

class Writer {
 public:
  Writer(const Layout& layout, const Traffic& traffic, int process) : layout_(layout), t_(traffic), process_(process) {}

  void compute(double ns) { actions_.push_back({Action::Kind::compute, static_cast<Nanoseconds>(ns), -1, {}}); }
  void pause(Nanoseconds ns) { actions_.push_back({Action::Kind::pause, ns, -1, {}}); }
  void sync() { actions_.push_back({Action::Kind::sync, 0, -1, {}}); }
  void collective(int shape) {
    if (shape < 0 || layout_.comm_of(process_, t_.shapes[shape].comm) < 0) return;
    actions_.push_back({Action::Kind::collective, 0, shape, {}});
    if (t_.eager) sync();
  }
  void call(int peer, abi::Direction direction) {
    actions_.push_back({Action::Kind::calls, 0, -1, {{peer, direction, 0, -1}}});
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  const Layout& layout_;
  const Traffic& t_;
  int process_;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> iteration_of(const Layout& layout, const Traffic& t, uint64_t seed, int process,
                                 uint64_t iteration) {
  Stream own(seed, "compute", static_cast<uint64_t>(process), iteration);
  Stream shared(seed, "batch", static_cast<uint64_t>(layout.data_index(process)), iteration);
  const double batch = 1 + t.imbalance * shared.uniform();  // ranks of one replica see the same data
  const double start = iteration < static_cast<uint64_t>(t.slow_iterations) ? t.slow_start : 1;
  const auto compute_ns = [&](double part) {
    return static_cast<double>(t.compute_ns) * part * batch * start * (1 + t.jitter * own.uniform());
  };
  Writer w(layout, t, process);
  const int stage = layout.stage_of(process), stages = layout.sizes().pipeline;

  const bool evaluates =
      t.evaluate_every > 0 && iteration >= t.evaluate_every && iteration % t.evaluate_every < t.evaluate_iterations;
  if (t.checkpoint_every > 0 && iteration > 0 && iteration % t.checkpoint_every == 0) {
    if (!t.checkpoint_by_first || process == 0) w.pause(t.checkpoint_ns);
    w.collective(t.barrier);
    w.sync();
  }
  if (t.broadcast_every > 0 && iteration % t.broadcast_every == 0) w.collective(t.broadcast);

  for (int m = 0; m < t.microbatches; ++m) {
    if (stage > 0) w.call(stage - 1, abi::Direction::recv);
    if (stage == 0 && t.embedding > 0) w.compute(compute_ns(t.embedding));
    for (int l = 0; l < t.layers; ++l) {
      w.compute(compute_ns(0.5 / t.layers));
      w.collective(t.tensor_forward);
      w.collective(t.expert);
      w.compute(compute_ns(0.5 / t.layers));
      w.collective(t.tensor_forward);
    }
    if (stage + 1 == stages && t.head > 0) w.compute(compute_ns(t.head));
    if (stage + 1 < stages) w.call(stage + 1, abi::Direction::send);
  }
  if (evaluates) {
    w.collective(t.loss);
    w.sync();
    return w.take();
  }
  for (int m = 0; m < t.microbatches; ++m) {
    if (stage + 1 < stages) w.call(stage + 1, abi::Direction::recv);
    if (stage + 1 == stages && t.head > 0) w.compute(compute_ns(2 * t.head));
    for (int l = 0; l < t.layers; ++l) {
      w.compute(compute_ns(1.0 / t.layers));
      w.collective(t.tensor_backward);
      w.collective(t.expert);
      w.compute(compute_ns(1.0 / t.layers));
    }
    if (stage > 0) w.call(stage - 1, abi::Direction::send);
  }
  for (int g : t.gradients) {
    w.collective(g);
    w.compute(compute_ns(0.1));
  }
  w.collective(t.gather);
  w.collective(t.loss);
  w.sync();
  w.compute(compute_ns(0.2));
  return w.take();
}

double iteration_s(const Layout& layout, const Traffic& t) {
  double ns = 0;
  // The first stage waits for nobody in the forward half, and for everybody in the backward half.
  for (const Action& a : iteration_of(layout, t, 0, 0, 1'000'003)) {
    if (a.kind == Action::Kind::compute) ns += static_cast<double>(a.time_ns);
    if (a.kind == Action::Kind::collective) ns += static_cast<double>(t.shapes[a.shape].duration_ns);
    if (a.kind == Action::Kind::calls) ns += static_cast<double>(t.transfer_ns);
  }
  const double bubble = 1 + static_cast<double>(layout.sizes().pipeline - 1) / t.microbatches;
  return ns * bubble * (1 + t.imbalance / 2) / 1e9;
}

}  // namespace ccld::sim
