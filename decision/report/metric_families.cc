#include "decision/report/metric_families.h"

#include <algorithm>
#include <utility>

#include "decision/report/verdict_json.h"

namespace ccld::decision::report {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Zero bytes end a label: they are in neither names of hosts nor of jobs.
std::string key_of(const MetricLabels& labels) {
  std::string key;
  for (const auto& label : labels) key.append(label.name).append(1, '\0').append(label.value).append(1, '\0');
  return key;
}

}  // namespace

std::string label_value(std::string_view text, size_t bytes_max) {
  std::string cut(text.substr(0, bytes_max));
  if (is_ascii(cut)) return cut;
  // The JSON library replaces what is not UTF-8 (a character that was cut, too) by U+FFFD, of three bytes.
  std::string valid = Json::parse(to_line(Json(cut))).get<std::string>();
  while (valid.size() > bytes_max) {
    while ((static_cast<unsigned char>(valid.back()) & 0xc0) == 0x80) valid.pop_back();
    valid.pop_back();
  }
  return valid;
}

void MetricFamilies::begin(std::string name, MetricKind kind, std::string help) {
  if (!families_.empty() && families_.back().metric.empty()) families_.pop_back();
  series_.clear();
  const auto type = kind == MetricKind::counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  families_.push_back({std::move(name), std::move(help), type, {}});
}

void MetricFamilies::add(double value, MetricLabels labels) {
  std::erase_if(labels, [](const auto& label) { return label.value.empty(); });
  for (auto& label : labels)
    label.value = label_value(label.value, label.name == "title" ? title_bytes_max : label_bytes_max);
  if (!series_.insert(key_of(labels)).second) {
    ++repeated_;
    return;
  }
  prometheus::MetricFamily& family = families_.back();
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

std::vector<prometheus::MetricFamily> MetricFamilies::take() && {
  if (!families_.empty() && families_.back().metric.empty()) families_.pop_back();
  return std::move(families_);
}

}  // namespace ccld::decision::report
