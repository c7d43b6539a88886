#include "decision/cli/verdict_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/history/revision.h"
#include "decision/report/bounded_json.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

using report::Json;
using report::member;
using report::text_of;

class Builder {
 public:
  void add(Json verdict) {
    ++line_;
    const uint64_t id = verdict["incident"].get<uint64_t>();
    const std::string run = run_of(verdict, id);
    if (known_runs_.emplace(run, file_.runs.size()).second) {
      file_.runs.push_back(run);
      newest_run_line_ = line_;
    }
    const auto [at, is_new] = incidents_.try_emplace({run, id}, file_.incidents.size());
    if (is_new) {
      file_.incidents.push_back({run, {}});
      newest_lines_.push_back(0);
    }
    newest_lines_[at->second] = line_;
    file_.incidents[at->second].lines.push_back(std::move(verdict));
  }

  VerdictFile take() {
    for (size_t i = 0; i < file_.incidents.size(); ++i) {
      Json& newest = file_.incidents[i].lines.back();
      if (newest_lines_[i] >= newest_run_line_ || history::is_closed(text_of(newest, "state"))) continue;
      newest["state"] = name(VerdictState::ended);
      newest["next_step"] = history::ended_reason;
      newest["commands"] = Json::array();
      newest["advice"] = nullptr;
    }
    return std::move(file_);
  }

 private:
  // Lines of older versions have no run. A number that is given to another incident tells that a new one has begun.
  std::string run_of(const Json& verdict, uint64_t id) {
    if (report::has(verdict, "run")) return text_of(verdict, "run");
    const std::string onset = text_of(verdict, "onset_time");
    const auto [known, is_new] = onsets_.try_emplace(id, onset);
    if (!is_new && known->second != onset) {
      onsets_.clear();
      onsets_.emplace(id, onset);
      ++unnamed_run_;
    }
    return absl::StrCat("run ", unnamed_run_, " of the file");
  }

  VerdictFile file_;
  std::map<std::pair<std::string, uint64_t>, size_t> incidents_;  // to their place in the file's
  std::vector<size_t> newest_lines_;                              // of each of these
  std::map<std::string, size_t> known_runs_;
  std::map<uint64_t, std::string> onsets_;  // of the run without a name
  size_t line_ = 0, newest_run_line_ = 0, unnamed_run_ = 1;
};

}  // namespace

std::vector<const VerdictFile::Incident*> VerdictFile::find(uint64_t id) const {
  std::vector<const Incident*> found;
  for (const Incident& incident : incidents) {
    if (incident.newest()["incident"] == id) found.push_back(&incident);
  }
  return found;
}

absl::StatusOr<VerdictFile> parse_verdict_file(std::istream& stream, const std::string& path) {
  Builder builder;
  std::string line;
  for (size_t number = 1; std::getline(stream, line); ++number) {
    if (line.empty()) continue;
    const auto refuse = [&](absl::string_view why) {
      return absl::UnavailableError(absl::StrCat("--file: line ", number, " of '", path, "' is not a verdict", why));
    };
    auto verdict = report::parse_bounded(line);
    if (!verdict.ok()) return refuse(absl::StrCat(": ", verdict.status().message()));
    if (!verdict->is_object() || !member(*verdict, "incident").is_number_unsigned()) return refuse("");
    try {
      builder.add(*std::move(verdict));
    } catch (const nlohmann::json::exception& e) {
      return refuse(absl::StrCat(": ", e.what()));
    }
  }
  return builder.take();
}

absl::StatusOr<VerdictFile> read_verdict_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::UnavailableError(absl::StrCat("--file: cannot read '", path, "': ", std::strerror(errno)));
  return parse_verdict_file(file, path);
}

}  // namespace ccld::decision
