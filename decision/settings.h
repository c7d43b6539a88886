// Every threshold of detection and location, once: name, default, range, what it does and why it has its default.
// (Paper, section 4.2.1 and 4.2.2.)
//
// Contract
//   Plain data plus one table. Units are the last part of a name (_s, _ms, _bytes); factors and shares have none.
//   parse_setting() takes "name=value" and either changes exactly that field or leaves everything as it was; its error
//   is one line that names the field and its range. check_settings() checks relations between fields.
// Threads: none of it has state of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decision/model/types.h"
#include "decision/model/verdict.h"

namespace ccld::decision {

struct Settings {
  RuleSet rules = RuleSet::measured;

  // Hang detection.
  double hang_suspect_s = 5;
  double hang_gap_factor = 3;
  double hang_confirm_s = 300;
  double init_hang_s = 300;
  double hang_warmup_suspect_s = 60;
  double barrier_hang_suspect_s = 60;
  double p2p_hang_suspect_s = 60;
  uint64_t barrier_bytes_max = 4;
  double hard_evidence_s = 1;
  double frozen_s = 10;
  double poll_fresh_s = 2;
  double silent_s = 5;
  double losses_apart_s = 0.25;
  double mismatch_settle_s = 3;
  double mismatch_clean_s = 600;

  // Slow detection and location.
  double slow_theta = 3;
  double slow_window_s = 10;
  uint64_t slow_rounds_min = 3;
  uint64_t slow_repeat = 3;
  uint64_t slow_clean_windows = 2;
  double slow_clean_chance_max = 0.01;
  double slow_alpha = 0.4;
  double slow_beta = 0.6;
  double slow_component_share_min = 0.1;
  double processor_wait_part_min = 0.5;
  double processor_turns_max = 15;
  double processor_step_turns_max = 1.5;
  uint64_t baseline_rounds_max = 100;
  double baseline_s = 120;
  double baseline_init_ms = 0;
  uint64_t warmup_rounds = 5;
  double iteration_rise_min = 0.2;
  uint64_t iteration_verify_min = 10;

  // What a job would gain without a cause: ranks and connections compared with their peers.
  double whatif_gain_min = 0.05;
  double whatif_deviations_min = 3;
  double whatif_recurs_min = 0.4;
  double whatif_same_role_min = 0.95;
  double whatif_transfer_times_min = 1.5;
  double whatif_lone_times_min = 3;
  double network_rate_min_mbit_s = 20;
  double network_latency_max_ms = 10;
  double whatif_away_min = 0.4;
  double whatif_explained_min = 0.3;
  double whatif_proxy_part_min = 0.15;
  uint64_t whatif_starting_windows = 2;
  double whatif_clocks_times_min = 2;
  double clock_drift_max_ppm = 50;
  double batches_differ_max_ms = 5;
  uint64_t whatif_peers_min = 3;
  uint64_t whatif_kernels_min = 24;
  uint64_t whatif_prolonged_max = 12;
  uint64_t whatif_halves_max = 4;

  // Layout of the job, if known.
  uint64_t layout_tp = 0;
  uint64_t layout_pp = 0;
  uint64_t layout_dp = 0;
  uint64_t layout_ep = 0;
  std::string layout_order = "tp-dp-pp";

  // When a reader is told of an incident again (analysis/told.h).
  double revision_share_min = 0.1;
  double revision_pause_s = 60;
  double revision_pause_factor = 4;

  // Bounds of memory and work.
  uint64_t incidents_max = 1000;
  uint64_t rounds_kept_max = 1024;
  double rounds_overdue_s = 3;
  uint64_t round_cells_max = 1u << 22;
  uint64_t signatures_max = 64;
  uint64_t ranks_max = 1u << 18;
  uint64_t memberships_max = 1u << 20;
  uint64_t communicators_max = 1u << 16;
  uint64_t processes_max = 1u << 18;
  double forget_s = 600;
  uint64_t iteration_witnesses_max = 32;
  uint64_t whatif_kernels_max = 1u << 16;
  uint64_t whatif_gpus_max = 512;
};

struct SettingRow {
  std::string_view name;
  std::string default_text;
  std::string range_text;   // "0.1 .. 86400", "a whole number, 1 .. 100", or "default | paper"
  std::string_view help;    // what it does
  std::string_view reason;  // why this default
};

// In the order of the documentation.
std::vector<SettingRow> describe_settings();

// "hang_suspect_s=2.5"; blanks around name and value are ignored.
absl::Status parse_setting(Settings&, std::string_view name_equals_value);
absl::Status set_setting(Settings&, std::string_view name, std::string_view value);
absl::StatusOr<std::string> setting_text(const Settings&, std::string_view name);

// Relations between fields, e.g. a suspicion may not come after its confirmation.
absl::Status check_settings(const Settings&);

constexpr Nanoseconds seconds_to_ns(double s) { return static_cast<Nanoseconds>(s * 1e9); }

// A new level of the iteration time, and the one before it, must last as long as slowness that repeats.
inline double lasting_s(const Settings& s) { return static_cast<double>(s.slow_repeat) * s.slow_window_s; }

}  // namespace ccld::decision
