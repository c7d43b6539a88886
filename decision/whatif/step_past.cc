#include "decision/whatif/step_past.h"

#include <algorithm>
#include <utility>

namespace ccld::decision::whatif {
namespace {

size_t passages_of(const std::vector<OperationSteps>& operations) {
  size_t passages = 0;
  for (const OperationSteps& operation : operations) passages += operation.passages.size();
  return passages;
}

// Without what connections reported before their newest `most` operations; `reports`: how many are known of each.
std::vector<OperationSteps> newest_of(std::vector<OperationSteps> operations, size_t most,
                                      std::map<Ends, size_t>& reports) {
  for (auto operation = operations.rbegin(); operation != operations.rend(); ++operation)
    std::erase_if(operation->passages, [&](const auto& passage) { return reports[passage.first]++ >= most; });
  std::erase_if(operations, [](const OperationSteps& operation) { return operation.passages.empty(); });
  return operations;
}

}  // namespace

std::optional<UsualStep> StepPast::usual(const Key& key) const {
  const auto it = seen_.find(key);
  if (it == seen_.end() || it->second.given_after_ns.size() < settings_.whatif_peers_min) return std::nullopt;
  UsualStep usual;
  for (size_t part = 0; part < passage_parts; ++part) usual.ns[part] = it->second.ns[part].middle();
  usual.given_after_ns = it->second.given_after_ns.middle();
  usual.taken_deviation_ns = it->second.ns[to_be_taken].deviation();
  usual.deviation_ns = it->second.given_after_ns.deviation();
  return usual;
}

void StepPast::learn(const Key& key, const std::vector<Passage>& passages) {
  if (passages.empty() || (seen_.size() >= connections_max && !seen_.contains(key))) return;
  Seen& seen = seen_[key];
  if (is_over(seen.last)) seen = {};
  seen.last = windows_;
  std::vector<double> given_after(passages.size());
  for (size_t part = 0; part < passage_parts; ++part) {
    std::vector<double> values;
    for (const Passage& p : passages) values.push_back(p.most_ns[part] / p.steps);
    seen.ns[part].add(values, settings_);
    if (part == to_be_taken) continue;
    for (size_t i = 0; i < values.size(); ++i) given_after[i] += values[i];
  }
  seen.given_after_ns.add(given_after, settings_);
}

std::optional<StepPast::UsualTransfer> StepPast::transfer(CommUid comm, size_t kind) const {
  const auto it = kinds_.find({comm, kind});
  if (it == kinds_.end() || it->second.transfer_ns.size() < settings_.whatif_peers_min || is_over(it->second.learnt))
    return std::nullopt;
  return UsualTransfer{it->second.transfer_ns.middle(), it->second.transfer_ns.deviation()};
}

StepPast::SeenKind* StepPast::kind_of(CommUid comm, size_t kind) {
  const std::pair key{comm, kind};
  if (kinds_.size() >= kinds_max && !kinds_.contains(key)) return nullptr;
  SeenKind& seen = kinds_[key];
  seen.last = windows_;
  return &seen;
}

void StepPast::learn(CommUid comm, size_t kind, const std::vector<OperationSteps>& operations) {
  std::vector<double> transfers_ns;
  std::map<Ends, std::vector<Passage>> connections;
  for (const OperationSteps& operation : operations) {
    transfers_ns.push_back(operation.transfer_ns);
    for (const auto& [ends, passage] : operation.passages) connections[ends].push_back(passage);
  }
  for (const auto& [ends, passages] : connections) learn({comm, kind, ends.first, ends.second}, passages);
  SeenKind* const seen = kind_of(comm, kind);
  if (!seen || operations.empty()) return;
  if (is_over(seen->learnt)) seen->transfer_ns = {};
  seen->learnt = windows_;
  seen->transfer_ns.add(transfers_ns, settings_);
}

std::vector<OperationSteps> StepPast::with_earlier(CommUid comm, size_t kind,
                                                   const std::vector<OperationSteps>& operations) {
  const size_t enough = settings_.slow_rounds_min;
  std::map<Ends, size_t> reports;
  for (const OperationSteps& operation : operations)
    for (const auto& [ends, passage] : operation.passages) ++reports[ends];
  SeenKind* const seen = kind_of(comm, kind);
  if (!seen) return operations;
  kept_passages_ -= passages_of(seen->newest);
  std::vector<OperationSteps> all = newest_of(std::move(seen->newest), enough, reports);
  all.insert(all.end(), operations.begin(), operations.end());
  reports.clear();
  seen->newest = newest_of(all, enough - 1, reports);
  if (kept_passages_ + passages_of(seen->newest) > connections_max) seen->newest.clear();
  kept_passages_ += passages_of(seen->newest);
  return all;
}

void StepPast::end_window() {
  if (++windows_ % past_windows_max != 0) return;
  const auto over = [&](const auto& entry) { return is_over(entry.second.last); };
  absl::erase_if(seen_, over);
  absl::erase_if(kinds_, [&](const auto& entry) {
    if (!over(entry)) return false;
    kept_passages_ -= passages_of(entry.second.newest);
    return true;
  });
}

}  // namespace ccld::decision::whatif
