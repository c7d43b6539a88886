#include "decision/advise/known_settings.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ccld::decision::advise {
namespace {

constexpr std::string_view prefix = "advise_";
constexpr double s = static_cast<double>(ns_per_s);

struct Entry {
  std::string_view name;
  double (*get)(const Known&);
  void (*set)(Known&, double);
  double high;  // from 0, both inclusive
  bool whole;
  std::string_view help, reason;
};

#define CCLD_COST(member) \
  [](const Known& k) { return k.costs.member / s; }, [](Known& k, double v) { k.costs.member = v * s; }, 1e7, false
const Entry entries[] = {
    {"advise_micro_batches", [](const Known& k) { return static_cast<double>(k.micro_batches); },
     [](Known& k, double v) { k.micro_batches = static_cast<uint64_t>(v); }, 1e7, true,
     "micro-batches of an iteration, of all replicas together; 0: not known, and no other numbers of them are advised",
     "only who started the job knows"},
    {"advise_micro_batch_part", [](const Known& k) { return k.micro_batch_part; },
     [](Known& k, double v) { k.micro_batch_part = v; }, 1, false,
     "part of a healthy iteration that its micro-batches take; the rest (reduction of gradients, optimizer) takes the "
     "same whatever their number. 0: not known, and the interval of what is predicted covers every part",
     "likewise"},
    {"advise_micro_batches_cost_s", CCLD_COST(micro_batches),
     "time that a job loses when its replicas get other numbers of micro-batches",
     "it reads them between two iterations; ten seconds leave room for whoever writes them"},
    {"advise_placement_cost_s", CCLD_COST(placement), "time that a job loses when its ranks change places",
     "the paper Greyhound measured about a minute at any scale, for each GPU moves its own parameters"},
    {"advise_checkpoint_cost_s", CCLD_COST(checkpoint), "time that a checkpoint takes before a restart",
     "chosen, not measured: a large model to shared storage in five minutes"},
    {"advise_restart_cost_s", CCLD_COST(restart), "time from the end of a job to its first iteration after a restart",
     "chosen, not measured: ten minutes to be scheduled, to load and to connect"},
    {"advise_lost_work_cost_s", CCLD_COST(lost_work),
     "work since its newest checkpoint that a job loses that hangs or has wrong data; 0: not known",
     "half of the time between two checkpoints, on average"},
};
#undef CCLD_COST

std::string number_text(double v) { return absl::StrFormat("%.12g", v); }
std::string range_text(const Entry& e) {
  return absl::StrCat(e.whole ? "a whole number, " : "", "0 .. ", number_text(e.high));
}
absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

bool is_known_setting(std::string_view text) { return text.starts_with(prefix); }

absl::Status parse_known_setting(Known& known, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return absl::InvalidArgumentError(absl::StrCat("setting \"", view(text), "\" is not valid: expected name=value"));
  for (const Entry& e : entries) {
    if (e.name != text.substr(0, equals)) continue;
    double v;
    if (!absl::SimpleAtod(view(text.substr(equals + 1)), &v) || !(v >= 0 && v <= e.high) ||
        (e.whole && v != std::floor(v)))
      return absl::InvalidArgumentError(
          absl::StrCat("setting ", view(text), " is not valid: expected ", range_text(e)));
    e.set(known, v);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("setting \"", view(text.substr(0, equals)), "\" is not known"));
}

std::vector<SettingRow> describe_known_settings() {
  const Known defaults;
  std::vector<SettingRow> rows;
  for (const Entry& e : entries)
    rows.push_back({e.name, number_text(e.get(defaults)), range_text(e), e.help, e.reason});
  return rows;
}

std::vector<std::pair<std::string, std::string>> changed_known_settings(const Known& known) {
  const Known defaults;
  std::vector<std::pair<std::string, std::string>> changed;
  for (const Entry& e : entries)
    if (e.get(known) != e.get(defaults)) changed.emplace_back(e.name, number_text(e.get(known)));
  return changed;
}

Known known_of(const Settings& settings) {
  Known known;
  known.layout = {settings.layout_tp, settings.layout_pp, settings.layout_dp, settings.layout_ep,
                  settings.layout_order};
  return known;
}

}  // namespace ccld::decision::advise
