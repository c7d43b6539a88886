// Files and folders of dumps, read and judged: the one entrance to this folder.
//
// Contract
//   A folder counts with all files in it, also in folders within; those that are no dump of a known format are left out
//   and noted. A file that is named itself must be one. All files of a call have one format.
// Errors: InvalidArgument: no dump is there, or several formats are. Unavailable: a file cannot be read. DataLoss: a
// dump is damaged, with file and place. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/import/findings.h"
#include "decision/import/thresholds.h"

namespace ccld::decision::dumps {

enum class Format { unknown, flight_recorder, ras, inspector };
const char* name(Format);
// "flight-recorder"; unknown: it is none.
Format format_named(const std::string&);

absl::StatusOr<Findings> load_and_judge(const std::vector<std::string>& paths, Format expected = Format::unknown,
                                        const Thresholds& = {});

}  // namespace ccld::decision::dumps
