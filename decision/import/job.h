// A job as Flight Recorder dumps of its ranks show it: process groups, and the calls that each member made, as far as
// its dump has kept them. Plain data: what is read from files, and what the rules judge.
//
// Units: instants are nanoseconds of the calendar, by the clock of the machine of that rank; 0: not known.
// Threads: any number of readers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ccld::decision::dumps {

// What was called, without who and when. Calls refer to it by its place in Job::shapes, so equal ones are equal
// numbers.
struct Shape {
  std::string type;                                   // "all_reduce", as PyTorch names it
  std::vector<std::vector<int64_t>> inputs, outputs;  // sizes of the tensors
  std::vector<std::string> input_types, output_types;
  int source = -1, destination = -1;  // of send and recv: ranks of the group
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// Scheduled: called; that its kernel runs is not known. Started: it runs.
enum class CallState : uint8_t { scheduled, started, completed };

struct Call {
  uint64_t sequence = 0;  // number of the collective in the group; of send and recv: of the rank's calls
  uint32_t part = 0;      // calls that were coalesced have the same number
  uint32_t shape = 0;
  int64_t created_ns = 0, completed_ns = 0;
  uint32_t frame = 0;  // where the program called it: in Job::frames; 0: not known
  CallState state = CallState::scheduled;
  bool timed_out = false;  // the watchdog has given it up
  bool in_flight() const { return state != CallState::completed; }
};

struct Member {
  int rank = 0;                   // of the job
  bool has_dump = false;          // without it nothing else is known
  bool complete = true;           // the dump has all calls that the rank made; else older ones were overwritten
  bool times_starts = false;      // a call that has not started is one whose kernel does not run
  int64_t last_enqueued = -1;     // number of the newest collective; -1: none, or not known
  std::vector<Call> collectives;  // by (sequence, part)
  std::vector<Call> transfers;    // send and recv, in the order of the calls
};

struct Group {
  std::string name, description;
  uint64_t id = 0;              // made of the name and the members
  std::vector<Member> members;  // by rank of the group
  bool has_transfers = false;
  bool of_all = false;  // the dumps do not say who is in it: all ranks of the job
};

struct Job {
  std::vector<Group> groups;
  std::vector<Shape> shapes;
  std::vector<std::string> frames = {""};
  int64_t newest_ns = 0;     // the last that any dump tells
  int64_t written_ns = 0;    // when the files were written: of copies, later than that
  std::vector<int> no_dump;  // ranks of groups of which no dump was given
};

}  // namespace ccld::decision::dumps
