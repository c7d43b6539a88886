#include "test/support/workload/micro_batch_file.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace ccld::workload {
namespace {

constexpr int count_max = 64;  // as --micro-batches

bool same(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

MicroBatches parse_micro_batches(const std::string& text, int replicas) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) throw std::invalid_argument("is no JSON object");
  for (const auto& [key, value] : json.items())
    if (key != "from_round" && key != "micro_batches")
      throw std::invalid_argument("'" + key + "' is not known; known are from_round and micro_batches");
  MicroBatches out;
  if (!json.contains("from_round") || !json["from_round"].is_number_unsigned())
    throw std::invalid_argument("'from_round': a whole number is expected");
  out.from_round = json["from_round"].get<uint64_t>();
  const nlohmann::json counts = json.value("micro_batches", nlohmann::json());
  if (!counts.is_array() || counts.size() != static_cast<size_t>(replicas))
    throw std::invalid_argument("'micro_batches': a list of " + std::to_string(replicas) +
                                " numbers is expected, one for each replica");
  for (const nlohmann::json& count : counts) {
    if (!count.is_number_unsigned() || count.get<uint64_t>() < 1 || count.get<uint64_t>() > count_max)
      throw std::invalid_argument("'micro_batches': " + count.dump() + " is not a whole number from 1 to " +
                                  std::to_string(count_max));
    out.counts.push_back(count.get<int>());
  }
  return out;
}

void MicroBatchFile::refresh() {
  struct stat found = {};
  if (path_.empty() || stat(path_.c_str(), &found) != 0 || same(found, seen_)) return;
  seen_ = found;
  std::ifstream file(path_);
  std::ostringstream text;
  text << file.rdbuf();
  try {
    next_ = parse_micro_batches(text.str(), replicas_);
  } catch (const std::invalid_argument& error) {
    fprintf(stderr, "ccld-workload: %s: %s\n", path_.c_str(), error.what());
  }
}

int MicroBatchFile::count(uint64_t round, int replica, int usual) {
  if (!next_.counts.empty() && round >= next_.from_round) now_ = next_, next_ = {};
  return now_.counts.empty() ? usual : now_.counts.at(static_cast<size_t>(replica));
}

}  // namespace ccld::workload
