// Dumps of PyTorch's Flight Recorder (versions 2.0 to 2.x), one file per rank, as one job. Its pickle and its JSON form
// have the same members: version, pg_config, pg_status, entries.
//
//   FlightRecorderReader reader;
//   status = reader.add(rank, document);   // for each file
//   Job job = reader.take();
//
// Contract
//   Optional members may be missing; an operation or a state that is not known, another major version, a second dump of
//   a rank, or ranks that disagree about a group end in an error that names the member.
// Errors: DataLoss, with the place inside the document. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "decision/import/fields.h"
#include "decision/import/job.h"
#include "decision/import/value.h"

namespace ccld::decision::dumps {

class FlightRecorderReader {
 public:
  absl::Status add(int rank, const Value& document);
  // Without the dumps that end in an error.
  Job take();

 private:
  using GroupKey = std::pair<std::string, std::vector<int>>;  // name, ranks: names repeat after a split
  struct Place {
    size_t group = 0, member = 0;
  };
  // Sends and receives with the same numbers, one behind the other: perhaps parts of one coalesced call.
  struct Batch {
    int64_t collective = 0, transfer = 0;
    size_t from = 0;  // in Member::transfers
    bool open = false;
  };
  void read_groups(int rank, Fields& document, absl::Status&);
  void find_newest(const List& entries);
  bool is_of_older_group(const Value& entry) const;
  void read_entry(int rank, const Value& entry, size_t index, absl::Status&);
  void read_status(Fields& document, bool& complete, absl::Status&);
  void leave_out_cut_calls();
  const Place* place_of(int rank, Fields& entry);
  uint32_t shape_of(Shape);
  uint32_t frame_of(Fields& entry);

  Job job_;
  std::map<GroupKey, size_t> group_numbers_;
  std::map<Shape, uint32_t> shape_numbers_;
  std::map<std::string, uint32_t, std::less<>> frame_numbers_;
  std::map<int, bool> dumped_;
  size_t calls_ = 0;
  size_t sizes_ = 0;  // of tensors, of all shapes
  // Of the dump that is read:
  std::map<std::string, Place, std::less<>> places_;       // by the group's name
  std::map<std::string, int64_t, std::less<>> newest_id_;  // pg_id of the newest group of a name
  std::map<int64_t, Member*> by_id_;                       // by pg_id: pg_status names groups so
  std::map<const Member*, Batch> batches_;
};

// Of "nccl_trace_rank_12" or "dump_3.json": the digits at the end of the name; -1: there are none.
int rank_of_file(absl::string_view path);
bool is_flight_recorder(const Value& document);

}  // namespace ccld::decision::dumps
