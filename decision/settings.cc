#include "decision/settings.h"

#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/model/layout.h"

namespace ccld::decision {
namespace {

using Field = std::variant<RuleSet Settings::*, double Settings::*, uint64_t Settings::*, std::string Settings::*>;

struct Entry {
  std::string_view name;
  Field field;
  double low, high;  // of numbers, both inclusive
  std::string_view help;
  std::string_view reason;
};

#define CCLD_FIELD(x) #x, &Settings::x
const Entry entries[] = {
    {CCLD_FIELD(rules), 0, 0, "default: this project's rules; paper: the rules of the paper as published",
     "the paper's location rules were wrong in a third of the recorded hangs"},

    {CCLD_FIELD(hang_suspect_s), 0.05, 86400,
     "a communicator with an operation in flight is suspected to hang when nothing on it has moved for this long",
     "steps take milliseconds; data loading pauses of a second or two are common"},
    {CCLD_FIELD(hang_gap_factor), 1, 1000,
     "the hang timeout is at least this many times the longest pause of the communicator that ended by itself, up to "
     "hang_confirm_s",
     "a job that pauses regularly (evaluation, checkpoints) raises its own timeout"},
    {CCLD_FIELD(hang_confirm_s), 0.1, 86400,
     "a suspected hang without hard evidence is confirmed after this long, and not before twice the hang timeout "
     "(paper rules: the only threshold)",
     "the paper's five minutes: checkpoints and synchronisation may take long"},
    {CCLD_FIELD(init_hang_s), 0.1, 86400,
     "communicator initialization is reported as a hang when nothing in it has moved for this long",
     "large jobs start up for minutes; a shorter hang_confirm_s is not meant for their start"},
    {CCLD_FIELD(hang_warmup_suspect_s), 0.05, 86400,
     "replaces hang_suspect_s during the first warmup_rounds operations of a communicator",
     "first iterations compile, connect and load"},
    {CCLD_FIELD(barrier_hang_suspect_s), 0.05, 86400, "replaces hang_suspect_s for barriers",
     "ranks wait in barriers on purpose; the paper drops barriers, which would hide real hangs"},
    {CCLD_FIELD(p2p_hang_suspect_s), 0.05, 86400,
     "replaces hang_suspect_s when the awaited process still moves on other communicators, or has not reported its own "
     "state just now (Send and Recv, or waits that end at a process of unknown state)",
     "a process that is busy elsewhere may come late; pipeline bubbles last as long as pipeline steps"},
    {CCLD_FIELD(barrier_bytes_max), 0, 1e6,
     "an AllReduce of at most this many bytes is a barrier (paper rules: of fewer)",
     "frameworks build barriers from one byte or one float; the paper says under 4 bytes"},
    {CCLD_FIELD(hard_evidence_s), 0, 3600,
     "nothing must have moved for this long before hard evidence (process gone or stopped, communicator aborted) "
     "confirms a hang",
     "a job that ends passes through such states for an instant"},
    {CCLD_FIELD(frozen_s), 0.1, 86400,
     "a channel with data and credit, or a kernel that neither waits nor moves, is hard evidence after this long",
     "a step takes microseconds to milliseconds; ten seconds leave room for a preempted GPU"},
    {CCLD_FIELD(poll_fresh_s), 0.01, 3600, "a wait counts as real if its thread has polled within this time",
     "pollers report every few milliseconds; the margin is for busy machines"},
    {CCLD_FIELD(silent_s), 0.1, 86400,
     "a process is silent when it has sent no telemetry for this long while others send theirs",
     "snapshots come every second; a few may be lost"},
    {CCLD_FIELD(losses_apart_s), 0, 3600,
     "a process that is gone, and left more than this after the first one of its job, left because of that one",
     "when a process left is known to 20 ms, and worse on a busy machine; what gets an error needs time to end, too"},
    {CCLD_FIELD(mismatch_settle_s), 0, 3600,
     "how long to wait for the signatures of the remaining ranks before the minority is named",
     "the rounds and snapshots of all ranks arrive within a second or two"},
    {CCLD_FIELD(mismatch_clean_s), 0, 1e9,
     "an inconsistency is resolved after this long without another mismatch and without a hang",
     "the data is wrong although nothing hangs: nobody should overlook it"},

    {CCLD_FIELD(slow_theta), 0.01, 1e6,
     "slowdown ratio R = (T_max - T_base) / T_base of a slow round (equation 3): the threshold of the paper's rules",
     "the paper finds the threshold usually close to 3"},
    {CCLD_FIELD(slow_window_s), 0.1, 86400,
     "length of a detection window; jobs are judged twice in it (by the paper's rules: once)",
     "the paper takes 60; several slow rounds with one cause need less time than one round does"},
    {CCLD_FIELD(slow_rounds_min), 1, 1e6,
     "nothing is said of a window, or of a connection, with fewer operations than these; the past is made of means of "
     "as "
     "many",
     "one slow operation is jitter, a garbage collection or a checkpoint"},
    {CCLD_FIELD(slow_repeat), 1, 1e6,
     "slowness is suspected after this many half windows, and one more, with the same culprit (the paper's repetition "
     "counter); one without it counts against it",
     "imbalance that moves from rank to rank and short congestion end by themselves"},
    {CCLD_FIELD(slow_clean_windows), 1, 1e6,
     "a slow incident is resolved after this many windows in a row that are not slow",
     "fewer than slow_repeat, because a clean window holds many clean rounds"},
    {CCLD_FIELD(slow_clean_chance_max), 1e-9, 1,
     "and only if the chance of so many clean windows while the cause goes on is at most this, from how often it was "
     "seen",
     "of a hundred incidents that go on, one ends too early; a cause that is seen in half of the windows ends after "
     "seven, one that only three windows have shown after three"},
    {CCLD_FIELD(slow_alpha), 0, 1, "P below this is communication-slow (equation 4), by the paper's rules",
     "the paper's example"},
    {CCLD_FIELD(slow_beta), 0, 1, "P above this is computation-slow (equation 4), by the paper's rules",
     "the paper's example"},
    {CCLD_FIELD(slow_component_share_min), 0, 1, "a cause beside others must make at least this share of the lost time",
     "second causes of recorded mixed faults made 0.11 and more, what seemed one beside a single fault below 0.05"},
    {CCLD_FIELD(processor_wait_part_min), 0.01, 10,
     "a proxy, a late host, a link or a GPU that takes data slowly is not the cause of a loss, and what stands still "
     "is not hard evidence, if its threads waited for a processor for this part of the time; others wait alike if "
     "they wait for at least this part of what it waits",
     "what waits that long is not slow itself; waits are sampled once a second, so more cannot be asked for. Processes "
     "that share processors get equal parts of them; with a quota or pinned to one, a process waits alone"},
    {CCLD_FIELD(processor_turns_max), 0, 1000,
     "a transfer, or a collective, is slow only if it takes longer by more than so many times what threads wait "
     "whenever they want a processor, on all hosts",
     "each needs several turns of several threads. In healthy jobs beside two busy loops it was 14 of them at most, "
     "with slow proxies 17 and more, with throttled links 38 and more"},
    {CCLD_FIELD(processor_step_turns_max), 0, 1000,
     "a device or a wire is also slow if each step is under way for so many of these waits longer than on other "
     "connections",
     "in healthy jobs, and with a late host, beside four busy loops it was 0.2 mostly and 1.1 at most, once 1.6 while "
     "the job started; with a throttled link 2 mostly"},
    {CCLD_FIELD(baseline_rounds_max), 1, 1e6,
     "by the paper's rules T_base is the mean of the maxima of the first m rounds of a signature; m is at most this",
     "the paper's 100"},
    {CCLD_FIELD(baseline_s), 0.1, 86400, "and at most the rounds of this many seconds", "the paper's two minutes"},
    {CCLD_FIELD(baseline_init_ms), 0, 1e9,
     "T_base before the first m rounds are over; 0: none, no slow detection until then",
     "only the administrator knows what to expect of a job that starts slow"},
    {CCLD_FIELD(warmup_rounds), 0, 1e6,
     "the first rounds of each signature, this many, are excluded from the paper's T_base, and have "
     "hang_warmup_suspect_s for a timeout",
     "first rounds connect channels and warm caches"},
    {CCLD_FIELD(iteration_rise_min), 0.01, 1e3,
     "a rise of the iteration time is reported when it is at least this part of it and lasts",
     "a tenth is noise on shared machines and with data of uneven length"},
    {CCLD_FIELD(iteration_verify_min), 2, 1e4,
     "and when the old and the new iteration time have lasted for this many iterations, and slow_repeat times "
     "slow_window_s",
     "a median of fewer is luck; evaluation phases and checkpoints end by themselves"},

    {CCLD_FIELD(whatif_gain_min), 0.001, 1,
     "a cause is reported if the job would take less by at least this share of its time without it",
     "a twentieth of what the GPUs cost is worth a look; chosen, not measured"},
    {CCLD_FIELD(whatif_deviations_min), 0, 1000,
     "and if what it takes longer exceeds so many standard deviations: of what peers differ by among themselves, of "
     "what "
     "it used to vary by, and of the mean of the steps of a connection; clocks of hosts are known within as many "
     "errors "
     "of what steps tell of them",
     "chance reaches three once in seven hundred windows; a cause must be seen in several"},
    {CCLD_FIELD(whatif_recurs_min), 0, 1,
     "and if this recurs in such a part of the operations of a kind, or transfers of a connection, or if such a part "
     "of "
     "those who are as late as the GPU is always the same one",
     "imbalance that moves among three ranks reaches a third; a checkpoint is far rarer than slow_rounds_min in a "
     "window"},
    {CCLD_FIELD(whatif_same_role_min), 0, 1,
     "GPUs have the same role if the cosine between the logarithms of how often each of their kernels follows each is "
     "at "
     "least this",
     "chosen, not measured; copies of a stage do the same, stages of a pipeline do not"},
    {CCLD_FIELD(whatif_transfer_times_min), 1, 1000,
     "and, of a connection, if its steps or transfers take so many times as long as those of its peers, or as before",
     "chosen, not measured; with 2 fewer recorded faults were found, and no false alarm less"},
    {CCLD_FIELD(whatif_away_min), 0, 1,
     "a proxy is a cause if it did not poll its connections for this part of the time in which others did",
     "one that runs for 5 of every 80 ms is away for nine tenths; the limit itself is chosen, not measured"},
    {CCLD_FIELD(whatif_proxy_part_min), 0, 1,
     "it is a proxy, not the wire, if at least this part of the time is spent where only a proxy can keep a step",
     "of recorded slow proxies 0.15 to 1, of throttled wires at most 0.05, on busy machines too"},
    {CCLD_FIELD(whatif_lone_times_min), 1, 1000,
     "likewise, if the connection has fewer such peers than whatif_peers_min; the other direction of a wire counts as "
     "one. Sends and Recvs whose sizes differ by less may be the same work",
     "one late rank makes transfers of healthy connections differ by up to twice (recorded faults)"},
    {CCLD_FIELD(network_rate_min_mbit_s), 0, 1e7,
     "a transfer of Send and Recv over the network is slow if its connection carries less than this, in megabits a "
     "second, beyond network_latency_max_ms, whatever others carry; 0: never",
     "a five-hundredth of a network of 10 Gbit/s, far below any that is in use for training; who knows the own network "
     "sets more"},
    {CCLD_FIELD(network_latency_max_ms), 0, 1e6, "what such a transfer may take, whatever it carries",
     "a turn of a busy scheduler; what threads wait for processors beyond that is measured (processor_turns_max)"},
    {CCLD_FIELD(whatif_explained_min), 0, 1,
     "connections are why collectives take longer than before if they explain this part of it for certain; of what a "
     "connection has lost since it became slow, collectives must have become longer by this part",
     "0.22 at most of links that a recorded slow GPU made look slow, 0.4 and more of slow links: the least where as many "
     "steps queue up as there are slots"},
    {CCLD_FIELD(whatif_starting_windows), 0, 1000,
     "for so many windows after a job was first heard of nothing is said about its network, nor what its past alone "
     "says",
     "connections are being made and hosts are busy: without it 14 of 85 recordings on a busy machine had a suspicion "
     "before the fault; with it 4"},
    {CCLD_FIELD(whatif_clocks_times_min), 1, 1000,
     "what is known of two GPUs' clocks is replaced when it has become so many times as doubtful as what is seen now",
     "when operations become slow, ranks may begin to leave each in one order; with 1 a simulated job had a false "
     "alarm"},
    {CCLD_FIELD(clock_drift_max_ppm), 0, 1e6, "a clock of a host or a GPU drifts by no more, in millionths",
     "quartz is within 50, and disciplined clocks are far better; with half of it three of 1,600 simulated jobs, whose "
     "clocks are worse than that, had a false alarm"},
    {CCLD_FIELD(batches_differ_max_ms), 0, 1e6,
     "the least times for which batches of telemetry of two hosts travel, and kernels of two GPUs queue, differ by no "
     "more",
     "hosts of one data center are within 1; a service that gets no processor is as late for all; in a simulated "
     "pipeline the kernels of one stage queued for 1.3 more"},
    {CCLD_FIELD(whatif_peers_min), 1, 24,
     "a rank is compared with at least so many peers, and with its own past once so many means of it are known",
     "of two that differ, nobody knows which one is slow, and of three one may be an outlier"},
    {CCLD_FIELD(whatif_kernels_min), 4, 1e6,
     "a window is prolonged until most GPUs of the job have run so many kernels in it",
     "what happens once is no habit"},
    {CCLD_FIELD(whatif_prolonged_max), 1, 1000, "but to no more than so many halves of slow_window_s",
     "after a minute, by default, what there is must do"},
    {CCLD_FIELD(whatif_halves_max), 1, 1000,
     "where a cause comes and goes windows get longer, up to so many halves of slow_window_s",
     "each of them counts as two, so that a cause is found that shows in every second half"},

    {CCLD_FIELD(layout_tp), 0, 1e7,
     "processes of a tensor parallel group; 0: the layout of the job is not known, and is guessed",
     "only who started the job knows"},
    {CCLD_FIELD(layout_pp), 0, 1e7, "stages of the pipeline", "likewise"},
    {CCLD_FIELD(layout_dp), 0, 1e7, "replicas of the model; tensor x pipeline x data is the number of processes",
     "likewise"},
    {CCLD_FIELD(layout_ep), 0, 1e7,
     "processes of an expert group, a consecutive part of a data parallel group; 0: none", "likewise"},
    {CCLD_FIELD(layout_order), 0, 0,
     "the order in which processes are numbered, neighbours first: tp, dp and pp once each", "that of Megatron"},

    {CCLD_FIELD(revision_share_min), 0, 1,
     "an incident has a new revision where the share of a culprit moved by this much, though nothing else changed",
     "a reader acts on which cause is the bigger one, not on its last digit"},
    {CCLD_FIELD(revision_pause_s), 0, 1e9, "such a revision comes this long after the newest one, at the earliest",
     "shares are estimates of one window of ten seconds, and wander"},
    {CCLD_FIELD(revision_pause_factor), 1, 1000, "each further one comes this many times as long after the one before",
     "an incident of ten minutes has two: after 1 and 5 minutes"},

    {CCLD_FIELD(incidents_max), 1, 1e6, "incidents remembered; the oldest resolved ones are forgotten first",
     "days of history in a few megabytes"},
    {CCLD_FIELD(rounds_kept_max), 8, 1e6, "rounds of one communicator that may wait for the reports of further ranks",
     "ranks report every second or earlier; later reports mean loss"},
    {CCLD_FIELD(rounds_overdue_s), 0, 3600,
     "a round that at least half of the ranks have reported is judged without the others after this long; 0: never",
     "as mismatch_settle_s; where telemetry is lost, hardly any round of a large communicator is whole"},
    {CCLD_FIELD(round_cells_max), 1024, 1e9, "limit of those rounds times the ranks of the communicator",
     "24 bytes each: 100 MB for a communicator of 131,072 ranks, with 32 rounds"},
    {CCLD_FIELD(signatures_max), 1, 1e5,
     "signatures of one communicator that have a T_base by the paper's rules; later ones have none",
     "a training step has some ten"},
    {CCLD_FIELD(ranks_max), 2, 1e7, "communicators that claim more ranks are refused",
     "protects memory against damaged telemetry"},
    {CCLD_FIELD(memberships_max), 64, 1e9,
     "ranks of all communicators together, taken in blocks of 64 neighbours; for further ones claims of who has more "
     "make "
     "way, or else they are refused and counted",
     "a job of 131,072 ranks has some 400,000, each of some 4 KiB"},
    {CCLD_FIELD(communicators_max), 1, 1e6,
     "communicators known at a time; for further ones those make way that only few ranks speak of, then those at rest, "
     "of "
     "the machine that has most first",
     "a job of 131,072 ranks has some 20,000, most of them of 8 ranks"},
    {CCLD_FIELD(processes_max), 1, 1e7,
     "processes known at a time; for further ones those of no communicator make way, the longest silent of the machine "
     "that has most first",
     "two jobs of 131,072 GPUs; a process takes some 5 KB, and 4 KiB for each communicator it is in"},
    {CCLD_FIELD(forget_s), 1, 1e9, "communicators and processes without telemetry for this long are forgotten",
     "long enough to explain a job that was killed"},
    {CCLD_FIELD(iteration_witnesses_max), 0, 1e5,
     "communicators of a job whose rounds are analysed for the iteration time; 0: none",
     "every rank goes through every iteration, so a few communicators speak for all"},
    {CCLD_FIELD(whatif_kernels_max), 1024, 1e8,
     "kernels of a job that are looked at in a window, of each GPU an equal part but no more than 512",
     "100 bytes and a microsecond each; 8 GPUs reach hundreds of iterations of a small model, 500 a few"},
    {CCLD_FIELD(whatif_gpus_max), 0, 1e6,
     "GPUs of all jobs together that are compared in a window; of a job with more, a part at a time; 0: none",
     "beyond it an equal part of whatif_kernels_max is too little to compare"},
};
#undef CCLD_FIELD

const Entry* find(std::string_view name) {
  for (const Entry& e : entries)
    if (e.name == name) return &e;
  return nullptr;
}

std::string stripped(std::string_view text) {
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size())));
}

std::string number_text(double v) { return absl::StrFormat("%.12g", v); }

std::string range_text(const Entry& e) {
  if (std::holds_alternative<RuleSet Settings::*>(e.field)) return "default | paper";
  if (std::holds_alternative<std::string Settings::*>(e.field)) return "an order, e.g. tp-dp-pp";
  const bool whole = std::holds_alternative<uint64_t Settings::*>(e.field);
  return absl::StrCat(whole ? "a whole number, " : "", number_text(e.low), " .. ", number_text(e.high));
}

std::string value_text(const Settings& s, const Entry& e) {
  if (auto f = std::get_if<RuleSet Settings::*>(&e.field)) return decision::name(s.**f);
  if (auto f = std::get_if<double Settings::*>(&e.field)) return number_text(s.**f);
  if (auto f = std::get_if<std::string Settings::*>(&e.field)) return s.**f;
  return absl::StrCat(s.*std::get<uint64_t Settings::*>(e.field));
}

}  // namespace

std::vector<SettingRow> describe_settings() {
  std::vector<SettingRow> rows;
  const Settings defaults;
  for (const Entry& e : entries) rows.push_back({e.name, value_text(defaults, e), range_text(e), e.help, e.reason});
  return rows;
}

absl::Status set_setting(Settings& s, std::string_view name_text, std::string_view value_text) {
  const std::string name = stripped(name_text), value = stripped(value_text);
  const Entry* e = find(name);
  if (!e) return absl::InvalidArgumentError(absl::StrCat("setting \"", name, "\" is not known"));
  const auto refuse = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("setting ", name, "=", value, " is not valid: expected ", range_text(*e)));
  };
  if (auto f = std::get_if<RuleSet Settings::*>(&e->field)) {
    for (RuleSet r : {RuleSet::measured, RuleSet::paper})
      if (value == decision::name(r)) return s.**f = r, absl::OkStatus();
    if (value == "measured") return s.**f = RuleSet::measured, absl::OkStatus();  // older config files and recordings
    return refuse();
  }
  if (auto f = std::get_if<std::string Settings::*>(&e->field)) {
    if (!check_order(value).ok()) return refuse();
    return s.**f = value, absl::OkStatus();
  }
  if (auto f = std::get_if<double Settings::*>(&e->field)) {
    double v;
    if (!absl::SimpleAtod(value, &v) || !(v >= e->low && v <= e->high)) return refuse();
    return s.**f = v, absl::OkStatus();
  }
  uint64_t v;
  if (!absl::SimpleAtoi(value, &v) || static_cast<double>(v) < e->low || static_cast<double>(v) > e->high)
    return refuse();
  s.*std::get<uint64_t Settings::*>(e->field) = v;
  return absl::OkStatus();
}

absl::Status parse_setting(Settings& s, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return absl::InvalidArgumentError(
        absl::StrCat("setting \"", std::string(text), "\" is not valid: expected name=value"));
  return set_setting(s, text.substr(0, equals), text.substr(equals + 1));
}

absl::StatusOr<std::string> setting_text(const Settings& s, std::string_view name) {
  const Entry* e = find(name);
  if (!e) return absl::NotFoundError(absl::StrCat("setting \"", std::string(name), "\" is not known"));
  return value_text(s, *e);
}

absl::Status check_settings(const Settings& s) {
  if (s.hang_suspect_s > s.hang_confirm_s)
    return absl::InvalidArgumentError(absl::StrCat("setting hang_suspect_s=", number_text(s.hang_suspect_s),
                                                   " must not exceed hang_confirm_s=", number_text(s.hang_confirm_s)));
  if (s.slow_alpha > s.slow_beta)
    return absl::InvalidArgumentError(absl::StrCat("setting slow_alpha=", number_text(s.slow_alpha),
                                                   " must not exceed slow_beta=", number_text(s.slow_beta)));
  const uint64_t sizes[] = {s.layout_tp, s.layout_pp, s.layout_dp};
  const char* const names[] = {"layout_tp", "layout_pp", "layout_dp"};
  const bool some = s.layout_tp + s.layout_pp + s.layout_dp + s.layout_ep > 0;
  for (int i = 0; i < 3; ++i)
    if (some && sizes[i] == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("setting ", names[i], "=0 must be at least 1 if any size of the layout is given"));
  if (s.layout_ep > 0 && s.layout_dp % s.layout_ep != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("setting layout_ep=", s.layout_ep, " must divide layout_dp=", s.layout_dp));
  return absl::OkStatus();
}

}  // namespace ccld::decision
