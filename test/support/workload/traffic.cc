#include "test/support/workload/traffic.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace ccld::workload {
namespace {

const std::map<std::string, Operation> operations{{"allreduce", Operation::all_reduce},
                                                  {"allgather", Operation::all_gather},
                                                  {"reducescatter", Operation::reduce_scatter},
                                                  {"broadcast", Operation::broadcast},
                                                  {"reduce", Operation::reduce}};
const std::map<std::string, ncclRedOp_t> reductions{
    {"sum", ncclSum}, {"prod", ncclProd}, {"min", ncclMin}, {"max", ncclMax}, {"avg", ncclAvg}};
const std::map<std::string, ncclDataType_t> datatypes{
    {"int8", ncclInt8},      {"uint8", ncclUint8},      {"int32", ncclInt32},  {"uint32", ncclUint32},
    {"int64", ncclInt64},    {"uint64", ncclUint64},    {"half", ncclFloat16}, {"float", ncclFloat32},
    {"double", ncclFloat64}, {"bfloat16", ncclBfloat16}};

template <class Map>
std::set<std::string> keys(const Map& map) {
  std::set<std::string> result;
  for (const auto& [key, value] : map) result.insert(key);
  return result;
}

template <class Map>
typename Map::mapped_type named(const Map& map, const std::string& name, const char* what) {
  const auto found = map.find(name);
  if (found == map.end()) throw std::invalid_argument(std::string("unknown ") + what + " '" + name + "'");
  return found->second;
}

}  // namespace

std::set<std::string> operation_choices() {
  std::set<std::string> result = keys(operations);
  result.insert("mix");
  return result;
}
std::set<std::string> reduction_choices() { return keys(reductions); }
std::set<std::string> datatype_choices() { return keys(datatypes); }
Operation operation_named(const std::string& name) { return named(operations, name, "operation"); }
ncclDataType_t datatype_named(const std::string& name) { return named(datatypes, name, "data type"); }
ncclRedOp_t reduction_named(const std::string& name) { return named(reductions, name, "reduction"); }

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 4;
  }
}

void set_count(Call* call, int rank_count) {
  const uint64_t elements = call->bytes / bytes_of(call->datatype);
  const bool per_rank = call->operation == Operation::all_gather || call->operation == Operation::reduce_scatter;
  call->count = per_rank ? elements / static_cast<uint64_t>(rank_count) : elements;
}

Traffic::Traffic(const Options& options) : options_(options) {
  if (options.irregular) phases_.emplace(options.seed, options.rank_count, phase_limits(options));
  for (uint64_t bytes = options.bytes_min; bytes <= options.bytes_max; bytes *= options.factor) {
    sizes_.push_back(bytes);
    if (bytes == 0) break;
  }
  if (options.operation == "mix") {
    for (const auto& [name, operation] : operations) operations_.push_back(operation);
  } else {
    operations_.push_back(operation_named(options.operation));
  }
}

PhaseLimits phase_limits(const Options& options) {
  PhaseLimits limits;
  limits.bytes_max = options.bytes_max;
  limits.idle_ms_max = options.idle_s * 1e3;
  // A round with a layout is an iteration of a dozen operations.
  if (options.layout) limits.rounds_divisor = 6;
  return limits;
}

uint64_t Traffic::rounds_per_pass() const { return sizes_.size() * options_.iterations; }

uint64_t Traffic::buffer_bytes_max() const {
  const uint64_t largest = *std::max_element(sizes_.begin(), sizes_.end());
  // A fault may double the count and make every element 8 bytes wide.
  return std::max<uint64_t>(largest, 4096) * 2 * (8 / bytes_of(datatype_named(options_.datatype)));
}

std::optional<Behaviour> Traffic::behaviour(uint64_t round) const {
  if (!phases_) return std::nullopt;
  return phases_->of(round, options_.rank);
}

Call Traffic::call(uint64_t round) const {
  const uint64_t index = round - 1;
  Call call;
  call.operation = operations_[index % operations_.size()];
  call.bytes = sizes_[(index / options_.iterations) % sizes_.size()];
  call.datatype = datatype_named(options_.datatype);
  call.reduction = reduction_named(options_.reduction);
  // The root moves, so that no rank is special in mixed traffic.
  call.root = static_cast<int>((index / operations_.size()) % static_cast<uint64_t>(options_.rank_count));
  if (phases_) {
    const Behaviour behaviour = phases_->of(round, options_.rank);
    call.operation = behaviour.operation;
    call.bytes = behaviour.bytes;
  }
  set_count(&call, options_.rank_count);
  return call;
}

}  // namespace ccld::workload
