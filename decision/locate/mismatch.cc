#include "decision/locate/mismatch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "decision/model/digits.h"
#include "decision/model/names.h"

namespace ccld::decision {
namespace {

enum class Shift { none, skipped, extra };

bool same(const Signature* a, const Signature* b) { return a && b && difference(*a, *b) == SignatureField::none; }
bool contradict(const Signature* a, const Signature* b) { return a && b && difference(*a, *b) != SignatureField::none; }

const Signature* of_others(const RoundHistory& h, uint64_t op) { return h.signature_at(OpSeq{op}); }

// Whether the rank's sequence is that of the others, moved by one operation.
Shift shift_of(const RoundHistory& h, Rank rank, uint64_t op) {
  const auto own = [&](uint64_t n) { return h.signature_of(OpSeq{n}, rank); };
  const bool agrees_next = same(own(op + 1), of_others(h, op + 1));
  if (agrees_next) return Shift::none;
  if (same(own(op), of_others(h, op + 1)) && !contradict(own(op + 1), of_others(h, op + 2))) return Shift::skipped;
  if (same(own(op + 1), of_others(h, op)) && !contradict(own(op + 2), of_others(h, op + 1))) return Shift::extra;
  return Shift::none;
}

// "AllReduce of 65,536 float32"
std::string call_text(const Signature& s) {
  return absl::StrCat(name(s.function), " of ", grouped(s.count), " ", name(s.datatype));
}

Component component_of(SignatureField f) {
  switch (f) {
    case SignatureField::algorithm:
    case SignatureField::protocol:
    case SignatureField::channels: return Component::process;  // NCCL's own choice: versions, environment, topology
    default: return Component::application;
  }
}

Finding judge(const Communicator& comm, const RoundEntry& e) {
  Finding f;
  f.fault = FaultClass::h2_inconsistent;
  f.op = e.op;
  f.hard = true;
  const SignatureGroup* majority = e.majority();
  f.signature = *e.signature();
  const auto ranks_of = [&](const SignatureGroup& g) {
    std::vector<Rank> ranks;
    const auto index = static_cast<uint8_t>(&g - e.groups.data());
    for (size_t r = 0; r < e.cells.size(); ++r)
      if (e.cells[r].group == index) ranks.push_back(Rank{static_cast<int32_t>(r)});
    return ranks;
  };
  SignatureField first_field = SignatureField::none;
  for (const SignatureGroup& g : e.groups) {
    if (g.ranks == 0) continue;
    const std::vector<Rank> ranks = ranks_of(g);
    const bool is_minority = majority && &g != majority;
    add_evidence(f, {.kind = EvidenceKind::ranks_calling,
                     .rank = ranks.empty() ? -1 : ranks[0].value,
                     .op = e.op,
                     .subject = call_text(g.signature),
                     .value = static_cast<double>(g.ranks)});
    if (!majority) {
      f.candidates.insert(f.candidates.end(), ranks.begin(), ranks.end());
      continue;
    }
    if (!is_minority) continue;
    const SignatureField field = difference(g.signature, majority->signature);
    if (first_field == SignatureField::none) first_field = field;
    for (Rank r : ranks) {
      std::string reason;
      Condition condition = Condition::call_differs;
      switch (shift_of(comm.history(), r, e.op.value)) {
        case Shift::skipped:
          condition = Condition::call_skipped;
          reason = absl::StrCat("skipped operation ", e.op.value, " (", call_text(majority->signature), ")");
          break;
        case Shift::extra:
          condition = Condition::call_added;
          reason = absl::StrCat("called an additional operation ", e.op.value, " (", call_text(g.signature), ")");
          break;
        case Shift::none:
          reason = absl::StrCat(name(field), " differs in operation ", e.op.value, ": ", field_text(g.signature, field),
                                " against ", field_text(majority->signature, field));
          break;
      }
      if (f.culprits.size() < culprits_max)
        f.culprits.push_back(make_culprit(comm, r, component_of(field), condition, std::move(reason)));
      else
        f.candidates.push_back(r);
      if (field == SignatureField::count)
        add_evidence(
            f, {.kind = EvidenceKind::elements, .rank = r.value, .value = static_cast<double>(g.signature.count)});
    }
  }
  if (majority) {
    const double known = e.signed_ranks();
    f.confidence = comm.rank_count_known() && e.signed_ranks() >= static_cast<uint32_t>(comm.rank_count())
                       ? 0.98
                       : 0.6 + 0.3 * majority->ranks / known;
    f.next_step =
        component_of(first_field) == Component::application
            ? "Compare the program of the named ranks at this operation with that of the others: branch, batch size, "
              "data type, order."
            : "Compare NCCL version, NCCL_* environment and topology of the named ranks with those of the others.";
  } else {
    std::sort(f.candidates.begin(), f.candidates.end());
    f.confidence = 0.5;
    std::string fields;
    if (e.groups.size() >= 2) fields = name(difference(e.groups[0].signature, e.groups[1].signature));
    f.next_step = absl::StrCat("As many ranks made the one call as the other (", fields,
                               "): compare the program of the candidates with both.");
  }
  for (int r = 0; r < comm.rank_count(); ++r)
    if (std::none_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return c.rank.value == r; }))
      f.victims.push_back(Rank{r});
  return f;
}

}  // namespace

std::optional<Finding> next_mismatch(Communicator& comm, const Settings& settings, Nanoseconds now_ns) {
  RoundHistory& history = comm.history();
  while (!history.mismatched().empty()) {
    const OpSeq op = history.mismatched().front();
    const RoundEntry* e = history.find(op);
    if (!e) {
      history.settle(op);
      continue;
    }
    const bool all = comm.rank_count_known() && e->signed_ranks() >= static_cast<uint32_t>(comm.rank_count());
    if (!all && now_ns - e->mismatch_ns < seconds_to_ns(settings.mismatch_settle_s)) return std::nullopt;
    size_t groups = 0;
    for (const SignatureGroup& g : e->groups) groups += g.ranks > 0;
    if (groups < 2) {  // later reports agreed after all
      history.settle(op);
      continue;
    }
    Finding f = judge(comm, *e);
    history.settle(op);
    return f;
  }
  return std::nullopt;
}

}  // namespace ccld::decision
