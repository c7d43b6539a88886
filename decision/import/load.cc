#include "decision/import/load.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "decision/import/files.h"
#include "decision/import/flight_recorder.h"
#include "decision/import/inspector.h"
#include "decision/import/judge.h"
#include "decision/import/limits.h"
#include "decision/import/parse_json.h"
#include "decision/import/ras.h"
#include "decision/import/unpickle.h"

namespace ccld::decision::dumps {
namespace {

// Enough for the members that tell the format.
constexpr size_t start_bytes = 4096;
// The verbose form has some 200 bytes for each of up to 64 channels.
constexpr size_t line_bytes_max = 256 * 1024;
constexpr size_t missed_named_max = 4;

absl::Status in_file(const File& f, const absl::Status& s) {
  return s.ok() ? s : absl::Status(s.code(), absl::StrCat(f.path, ": ", s.message()));
}

bool is_pickle(absl::string_view bytes) { return !bytes.empty() && static_cast<unsigned char>(bytes[0]) == 0x80; }

bool may_be_json(absl::string_view start) {
  const size_t at = start.find_first_not_of(" \t\r\n");
  return at != absl::string_view::npos && start[at] == '{';
}

Format format_of(const Value& document) {
  if (is_flight_recorder(document)) return Format::flight_recorder;
  if (is_ras(document)) return Format::ras;
  return Format::unknown;
}

struct Document {
  Format format = Format::unknown;
  ValuePtr value;  // nullptr: no known form at all
};

absl::StatusOr<Document> read_document(const File& f) {
  auto bytes = read_all(f);
  if (!bytes.ok()) return bytes.status();
  if (bytes->empty()) return absl::DataLossError(absl::StrCat(f.path, ": the file is empty"));
  const bool pickled = is_pickle(*bytes);
  if (!pickled && !may_be_json(*bytes)) return Document{};
  auto value = pickled ? unpickle(*bytes) : parse_json(*bytes);
  if (!value.ok()) return in_file(f, value.status());
  return Document{format_of(**value), *value};
}

// Files of one format, one after the other: no more than one is in memory at a time.
class Loader {
 public:
  Loader(Format expected, const Thresholds& thresholds) : format_(expected), thresholds_(thresholds) {}

  absl::Status add(const File& f) {
    // A stray file of a folder is no reason to read it whole.
    auto start = read_start(f, start_bytes);
    if (!start.ok()) return miss(start.status());
    if (is_inspector(start->substr(0, start->find('\n')))) return add_lines(f);
    const bool candidate = is_pickle(*start) || may_be_json(*start);
    if (!candidate && !f.named && !start->empty()) return leave_out(f);
    auto document = read_document(f);
    if (!document.ok()) return miss(document.status());
    if (document->format == Format::unknown) {
      if (!f.named) return leave_out(f);
      return absl::InvalidArgumentError(
          absl::StrCat(f.path,
                       ": this is no dump that is known (flight-recorder, ras, inspector); RAS: the output of "
                       "`ncclras -f json`, NCCL 2.28 or newer"));
    }
    if (absl::Status s = expect(f, document->format); !s.ok()) return s;
    return in_file(f, take(f, *document->value));
  }

  absl::StatusOr<Findings> finish() {
    if (read_ == 0 && !missed_.empty()) return missed_[0];
    if (read_ == 0) return absl::InvalidArgumentError("there is no dump in these files");
    Findings findings = judged();
    for (size_t m = 0; m < std::min(missed_.size(), missed_named_max); ++m)
      findings.notes.push_back(absl::StrCat("left out, for it cannot be read: ", missed_[m].message()));
    if (missed_.size() > missed_named_max)
      findings.notes.push_back(absl::StrCat(missed_.size() - missed_named_max, " more files cannot be read"));
    if (left_out_ > 0)
      findings.notes.push_back(absl::StrCat(
          left_out_,
          left_out_ == 1 ? " file is no dump, the first: " : " files are no dumps, the first: ", first_left_out_));
    return findings;
  }

 private:
  Findings judged() {
    if (format_ == Format::ras) return judge_ras(std::move(moments_), thresholds_);
    if (format_ == Format::inspector) {
      Findings findings = inspector_.judge();
      if (cut_off_ > 0)
        findings.notes.push_back(
            absl::StrCat("the last line of ", cut_off_, cut_off_ == 1 ? " file is cut off" : " files is cut off"));
      return findings;
    }
    Job job = flight_recorder_.take();
    job.written_ns = written_ns_;
    return judge(job, thresholds_);
  }
  absl::Status expect(const File& f, Format found) {
    if (format_ != Format::unknown && format_ != found)
      return absl::InvalidArgumentError(
          absl::StrCat(f.path, ": this is ", name(found), ", not ", name(format_), ": import one format at a time"));
    format_ = found;
    ++read_;
    return absl::OkStatus();
  }
  // Logs grow with the job: line by line.
  absl::Status add_lines(const File& f) {
    if (absl::Status s = expect(f, Format::inspector); !s.ok()) return s;
    std::ifstream stream(f.path, std::ios::binary);
    if (!stream) return absl::UnavailableError(absl::StrCat("cannot read '", f.path, "'"));
    std::string line(line_bytes_max, '\0');
    for (uint64_t number = 1;
         stream.getline(line.data(), static_cast<std::streamsize>(line.size())) || stream.gcount() > 0; ++number) {
      if (stream.fail())
        return absl::DataLossError(absl::StrCat(f.path, ": line ", number, ": longer than ", line_bytes_max, " bytes"));
      const bool ended = !stream.eof();  // by a line feed, which is counted
      const absl::string_view text(line.data(), static_cast<size_t>(stream.gcount()) - (ended ? 1 : 0));
      if (text.empty()) continue;
      absl::Status s = inspector_.add_line(text, number);
      // A process that was killed leaves part of a line.
      if (!s.ok() && !ended)
        ++cut_off_;
      else if (!s.ok())
        return in_file(f, s);
    }
    return absl::OkStatus();
  }
  // Whoever dies while it writes leaves part of a file, and the others still tell why. Its rank counts as one without.
  absl::Status miss(const absl::Status& why) {
    missed_.push_back(why);
    return absl::OkStatus();
  }
  absl::Status leave_out(const File& f) {
    if (left_out_++ == 0) first_left_out_ = f.path;
    return absl::OkStatus();
  }
  absl::Status take(const File& f, const Value& document) {
    if (format_ == Format::ras) return read_ras(document, moments_.emplace_back());
    written_ns_ = std::max(written_ns_, f.written_ns);
    return flight_recorder_.add(rank_of_file(f.path), document);
  }

  Format format_;
  size_t read_ = 0, left_out_ = 0;
  std::vector<absl::Status> missed_;
  std::string first_left_out_;
  int64_t written_ns_ = 0;
  FlightRecorderReader flight_recorder_;
  std::vector<RasMoment> moments_;
  const Thresholds thresholds_;
  InspectorReader inspector_{thresholds_};
  size_t cut_off_ = 0;
};

}  // namespace

const char* name(Format f) {
  switch (f) {
    case Format::flight_recorder: return "flight-recorder";
    case Format::ras: return "ras";
    case Format::inspector: return "inspector";
    case Format::unknown: break;
  }
  return "unknown";
}

Format format_named(const std::string& text) {
  for (const Format f : {Format::flight_recorder, Format::ras, Format::inspector})
    if (text == name(f)) return f;
  return Format::unknown;
}

absl::StatusOr<Findings> load_and_judge(const std::vector<std::string>& paths, Format expected,
                                        const Thresholds& thresholds) {
  auto files = find_files(paths);
  if (!files.ok()) return files.status();
  uint64_t bytes = 0;
  for (const File& f : *files) bytes += f.bytes;
  if (bytes > total_bytes_max)
    return absl::InvalidArgumentError(absl::StrCat("these files have ", bytes, " bytes, more than ", total_bytes_max));
  Loader loader(expected, thresholds);
  for (const File& f : *files)
    if (absl::Status s = loader.add(f); !s.ok()) return s;
  return loader.finish();
}

}  // namespace ccld::decision::dumps
