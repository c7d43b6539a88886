// The settings of advice: what it costs to act, and what of the job only who started it knows. They are given as
// settings of the rules are (`ccld serve --set advise_restart_cost_s=900`, config file), but change no verdict.
// Errors: one line that names the setting. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "decision/advise/facts.h"
#include "decision/settings.h"

namespace ccld::decision::advise {

// Whether "name=value" is about a setting of advice.
bool is_known_setting(std::string_view text);
absl::Status parse_known_setting(Known&, std::string_view text);

std::vector<SettingRow> describe_known_settings();
// Name and value of those that differ from the defaults.
std::vector<std::pair<std::string, std::string>> changed_known_settings(const Known&);

// The defaults, and the layout of these settings.
Known known_of(const Settings&);

}  // namespace ccld::decision::advise
