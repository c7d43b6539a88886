#include "test/support/workload/iteration.h"

#include <algorithm>
#include <utility>

namespace ccld::workload {
namespace {

constexpr uint64_t norm_bytes = 64;

class Builder {
 public:
  Builder(const Layout& layout, int rank, const IterationShape& shape) : layout_(layout), rank_(rank), shape_(shape) {}

  std::vector<Step> build() {
    for (int batch = 0; batch < shape_.micro_batches; ++batch) forward();
    if (!shape_.forward_only) {
      for (int batch = 0; batch < shape_.micro_batches; ++batch) backward();
      gradients();
    }
    collective(Group::world, Operation::all_reduce, norm_bytes, false);
    return std::move(steps_);
  }

 private:
  bool first_stage() const { return layout_.stage_of(rank_) == 0; }
  bool last_stage() const { return layout_.stage_of(rank_) == layout_.pp - 1; }
  int size_of(Group group) const { return static_cast<int>(layout_.members(group, rank_).size()); }

  void forward() {
    if (!first_stage()) transfer(StepKind::recv, -1);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      compute(shape_.compute_ms);
      collective(Group::tensor, Operation::all_gather, shape_.tensor_bytes, false);
      exchange();
      collective(Group::tensor, Operation::all_reduce, shape_.tensor_bytes, false);
    }
    if (!last_stage()) transfer(StepKind::send, 1);
  }

  void backward() {
    if (!last_stage()) transfer(StepKind::recv, 1);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      compute(2 * shape_.compute_ms);
      exchange();
      collective(Group::tensor, Operation::all_reduce, shape_.tensor_bytes, false);
    }
    if (!first_stage()) transfer(StepKind::send, -1);
  }

  void gradients() {
    collective(Group::data, Operation::reduce_scatter, shape_.data_bytes, shape_.overlap);
    collective(Group::data, Operation::all_gather, shape_.data_bytes, shape_.overlap);
  }

  void compute(double ms) {
    Step step;
    step.ms = ms;
    steps_.push_back(step);
  }

  void collective(Group group, Operation operation, uint64_t bytes, bool beside) {
    if (size_of(group) < 2) return;
    Step step;
    step.kind = StepKind::collective;
    step.group = group;
    step.call.operation = operation;
    step.call.bytes = bytes;
    set_count(&step.call, size_of(group));
    step.beside = beside;
    steps_.push_back(step);
  }

  void exchange() {
    const int size = size_of(Group::expert);
    if (layout_.ep < 2) return;
    Step step;
    step.kind = StepKind::all_to_all;
    step.group = Group::expert;
    step.call.bytes = shape_.expert_bytes;
    step.call.count = step.call.bytes / sizeof(float) / static_cast<uint64_t>(size);
    steps_.push_back(step);
  }

  void transfer(StepKind kind, int stages_away) {
    Step step;
    step.kind = kind;
    step.group = Group::pipeline;
    step.call.bytes = shape_.pipeline_bytes;
    step.call.count = step.call.bytes / sizeof(float);
    step.peer = layout_.stage_of(rank_) + stages_away;  // the members of a pipeline are its stages in order
    steps_.push_back(step);
  }

  const Layout& layout_;
  const int rank_;
  const IterationShape& shape_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> iteration_steps(const Layout& layout, int rank, const IterationShape& shape) {
  return Builder(layout, rank, shape).build();
}

bool swap_first(std::vector<Step>* steps, Group one, Group other) {
  const auto first = [steps](Group group) {
    return std::find_if(steps->begin(), steps->end(),
                        [group](const Step& step) { return step.kind != StepKind::compute && step.group == group; });
  };
  const auto a = first(one), b = first(other);
  if (a == steps->end() || b == steps->end()) return false;
  std::iter_swap(a, b);
  return true;
}

uint64_t buffer_bytes_max(const IterationShape& shape) {
  const uint64_t largest = std::max({shape.tensor_bytes, shape.pipeline_bytes, shape.data_bytes, shape.expert_bytes});
  // As for single operations: twice the count, elements twice as wide.
  return std::max<uint64_t>(largest, 4096) * 4;
}

}  // namespace ccld::workload
