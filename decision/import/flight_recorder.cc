#include "decision/import/flight_recorder.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "decision/import/limits.h"

namespace ccld::decision::dumps {
namespace {

// The numbers of dimensions and of tensors that one call may have: an all-to-all has a tensor for each rank.
constexpr size_t dimensions_max = 64;
constexpr size_t tensors_max = 1 << 17;
constexpr int known_major_version = 2;

// As PyTorch names them in `profiling_name`, behind "nccl:". An operation that is not here is refused: what it means
// that ranks differ in it is not known.
constexpr absl::string_view operations[] = {"all_reduce",
                                            "all_reduce_sparse",
                                            "all_reduce_barrier",
                                            "allreduce_coalesced",
                                            "barrier",
                                            "broadcast",
                                            "_broadcast_oop",
                                            "reduce",
                                            "_reduce_oop",
                                            "all_gather",
                                            "all_gather_single",
                                            "all_gather_v",
                                            "_all_gather_base",
                                            "all_gather_into_tensor_coalesced",
                                            "ALLGATHER_coalesced",
                                            "reduce_scatter",
                                            "reduce_scatter_single",
                                            "reduce_scatter_v",
                                            "_reduce_scatter_base",
                                            "reduce_scatter_tensor_coalesced",
                                            "REDUCE_SCATTER_coalesced",
                                            "gather",
                                            "scatter",
                                            "all_to_all",
                                            "all_to_all_single",
                                            "all_to_all_v_single",
                                            "split",
                                            "new_window",
                                            "coalesced",
                                            "send",
                                            "recv"};

// "[0, 1, 2]", also with other brackets: PyTorch writes the ranks of a group as a text.
bool parse_ranks(absl::string_view text, std::vector<int>& out) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  const absl::string_view inner = absl::StripAsciiWhitespace(text.substr(1, text.size() - 2));
  if (inner.empty()) return true;
  for (const absl::string_view piece : absl::StrSplit(inner, ',')) {
    int rank = 0;
    if (out.size() >= ranks_max || !absl::SimpleAtoi(piece, &rank) || rank < 0) return false;
    out.push_back(rank);
  }
  return true;
}

// Ranks as a text or as a list of integers.
void read_ranks(Fields& group, std::vector<int>& out) {
  const Value* v = group.required("ranks");
  if (v == nullptr) return;
  if (v->text() != nullptr) {
    if (!parse_ranks(*v->text(), out)) group.refuse("ranks", "a list of ranks such as \"[0, 1]\" is expected");
  } else if (v->list() != nullptr && v->list()->size() <= ranks_max) {
    for (const ValuePtr& item : *v->list()) {
      if (item->integer() == nullptr || *item->integer() < 0 || *item->integer() > std::numeric_limits<int>::max())
        return group.refuse("ranks", "a rank is not an integer");
      out.push_back(static_cast<int>(*item->integer()));
    }
  } else {
    group.refuse("ranks", "a list of ranks is expected");
  }
  // The order of members is the order of ranks within the group.
  if (std::set<int>(out.begin(), out.end()).size() != out.size()) group.refuse("ranks", "a rank is named twice");
}

std::vector<std::vector<int64_t>> read_sizes(Fields& entry, const char* key) {
  std::vector<std::vector<int64_t>> out;
  const List& tensors = entry.list(key);
  if (tensors.size() > tensors_max) entry.refuse(key, absl::StrCat(tensors.size(), " tensors are too many"));
  for (size_t t = 0; entry.ok() && t < tensors.size(); ++t) {
    const List* dimensions = tensors[t]->list();
    if (dimensions == nullptr || dimensions->size() > dimensions_max) {
      entry.refuse(absl::StrCat(key, "[", t, "]"), "a list of dimensions is expected");
      break;
    }
    std::vector<int64_t>& sizes = out.emplace_back();
    for (const ValuePtr& d : *dimensions) {
      if (d->integer() == nullptr || *d->integer() < 0) {
        entry.refuse(absl::StrCat(key, "[", t, "]"), "a dimension is not an integer from 0 on");
        break;
      }
      sizes.push_back(*d->integer());
    }
  }
  return out;
}

std::vector<std::string> read_types(Fields& entry, const char* key) {
  std::vector<std::string> out;
  const List& types = entry.list(key);
  if (types.size() > tensors_max) entry.refuse(key, absl::StrCat(types.size(), " tensors are too many"));
  for (size_t t = 0; entry.ok() && t < types.size(); ++t) {
    if (types[t]->text() == nullptr || types[t]->text()->size() > 64)
      entry.refuse(absl::StrCat(key, "[", t, "]"), "the name of a type is expected");
    else
      out.push_back(*types[t]->text());
  }
  return out;
}

// "nccl:send 1->2", "nccl:recv 3<-0", "nccl:all_reduce"; older versions have no backend in front.
void read_operation(Fields& entry, size_t group_size, Shape& shape) {
  const std::string full = entry.text("profiling_name");
  absl::string_view name = full;
  if (const size_t colon = name.find(':'); colon != absl::string_view::npos) name = name.substr(colon + 1);
  const std::vector<absl::string_view> words = absl::StrSplit(name, absl::MaxSplits(' ', 1));
  shape.type = std::string(words[0]);
  if (!entry.ok()) return;
  if (std::find(std::begin(operations), std::end(operations), shape.type) == std::end(operations))
    return entry.refuse("profiling_name", absl::StrCat("the operation '", shape.type.substr(0, 64), "' is not known"));
  const bool sends = shape.type == "send", receives = shape.type == "recv";
  if (!sends && !receives) return;
  const std::vector<absl::string_view> ends = absl::StrSplit(words.size() == 2 ? words[1] : "", sends ? "->" : "<-");
  int first = -1, second = -1;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first) || !absl::SimpleAtoi(ends[1], &second) || first < 0 ||
      second < 0 || std::max(first, second) >= static_cast<int>(group_size))
    return entry.refuse("profiling_name", "two ranks of the group are expected behind 'send' or 'recv'");
  shape.source = sends ? first : second;
  shape.destination = sends ? second : first;
}

// Calls of a coalesced group have no events of their own, so they stay "scheduled" for ever: the entry that ends the
// group has the state of all of them.
bool ends_group(const Shape& s) { return absl::EndsWith(s.type, "coalesced"); }
void give_state(std::vector<Call>& calls, size_t from, const Call& end) {
  for (size_t i = from; i < calls.size(); ++i) {
    calls[i].state = end.state;
    calls[i].completed_ns = end.completed_ns;
    calls[i].timed_out = end.timed_out;
  }
}
size_t first_of(const std::vector<Call>& calls, uint64_t sequence) {
  size_t from = calls.size();
  while (from > 0 && calls[from - 1].sequence == sequence) --from;
  return from;
}

// Of an entry, if it says both.
struct GroupOf {
  const std::string* name;
  int64_t id;
};
std::optional<GroupOf> group_of(const Value& entry) {
  const Value* group = entry.find("process_group");
  const Value* id = entry.find("pg_id");
  const List* pair = group == nullptr ? nullptr : group->list();
  if (pair == nullptr || pair->empty() || (*pair)[0]->text() == nullptr || id == nullptr || id->integer() == nullptr)
    return std::nullopt;
  return GroupOf{(*pair)[0]->text(), *id->integer()};
}

uint64_t id_of(const std::string& name, const std::vector<int>& ranks) {
  // FNV-1a: the same in every run, so that two imports of the same dumps agree.
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char c : absl::StrCat(name, " ", absl::StrJoin(ranks, ","))) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

}  // namespace

int rank_of_file(absl::string_view path) {
  path = path.substr(path.rfind('/') + 1);
  for (const absl::string_view ending : {".json", ".pickle", ".pkl"}) path = absl::StripSuffix(path, ending);
  size_t digits = 0;
  while (digits < path.size() && absl::ascii_isdigit(static_cast<unsigned char>(path[path.size() - 1 - digits])))
    ++digits;
  int rank = -1;
  return digits > 0 && absl::SimpleAtoi(path.substr(path.size() - digits), &rank) ? rank : -1;
}

bool is_flight_recorder(const Value& document) {
  return document.find("version") != nullptr &&
         (document.find("pg_config") != nullptr || document.find("entries") != nullptr);
}

uint32_t FlightRecorderReader::shape_of(Shape shape) {
  const size_t sizes = shape.inputs.size() + shape.outputs.size();
  const auto [at, is_new] = shape_numbers_.try_emplace(std::move(shape), static_cast<uint32_t>(job_.shapes.size()));
  if (is_new) job_.shapes.push_back(at->first), sizes_ += sizes;
  return at->second;
}

// The innermost frame of the program: those of PyTorch itself come first.
uint32_t FlightRecorderReader::frame_of(Fields& entry) {
  constexpr size_t frames_looked_at_max = 128;
  const List& frames = entry.list("frames");
  const Value* best = nullptr;
  for (size_t i = 0; i < std::min(frames.size(), frames_looked_at_max); ++i) {
    const Value* file = frames[i]->find("filename");
    if (file == nullptr || file->text() == nullptr) continue;
    if (best == nullptr) best = frames[i].get();
    if (file->text()->find("/torch/") != std::string::npos) continue;
    best = frames[i].get();
    break;
  }
  if (best == nullptr) return 0;
  absl::Status ignored;  // a frame that is not understood is not worth the dump
  Fields frame(best, "", ignored);
  std::string text = absl::StrCat(frame.text_or("filename", "?"), ":", frame.integer_or("line", 0));
  if (const std::string name = frame.text_or("name", ""); !name.empty()) absl::StrAppend(&text, " (", name, ")");
  const auto [at, is_new] = frame_numbers_.try_emplace(std::move(text), static_cast<uint32_t>(job_.frames.size()));
  if (is_new) job_.frames.push_back(at->first);
  return at->second;
}

void FlightRecorderReader::read_groups(int rank, Fields& document, absl::Status& status) {
  const Value* config = document.optional("pg_config");
  if (config == nullptr)
    return document.refuse("pg_config", "this is missing: dumps without it (before 2.1) do not say who is in a group");
  if (config->dict() == nullptr) return document.refuse("pg_config", "a dict is expected");
  for (const auto& [key, value] : *config->dict()) {
    const std::string key_text = key->text() != nullptr      ? *key->text()
                                 : key->integer() != nullptr ? absl::StrCat(*key->integer())
                                                             : "";
    Fields group(value.get(), absl::StrCat("pg_config[", key_text.substr(0, 64), "]"), status);
    std::vector<int> ranks;
    read_ranks(group, ranks);
    const std::string name = group.text_or("name", key_text), description = group.text_or("desc", "");
    if (!status.ok()) return;
    const auto own = std::find(ranks.begin(), ranks.end(), rank);
    if (own == ranks.end() && !ranks.empty()) continue;  // of others
    if (static_cast<size_t>(rank) >= ranks_max)
      return group.refuse("ranks", absl::StrCat("rank ", rank, " is more than ", ranks_max));
    const auto [at, is_new] = group_numbers_.try_emplace({name, ranks}, job_.groups.size());
    if (is_new) {
      Group& made = job_.groups.emplace_back();
      made.name = name;
      made.description = description == "undefined" ? "" : description;
      made.id = id_of(name, ranks);
      // A process that begins the job's group a second time does not list its ranks any more.
      made.of_all = ranks.empty();
      for (const int r : ranks) made.members.emplace_back().rank = r;
    }
    std::vector<Member>& members = job_.groups[at->second].members;
    const size_t index = static_cast<size_t>(ranks.empty() ? rank : own - ranks.begin());
    for (int r = static_cast<int>(members.size()); members.size() <= index; ++r) members.emplace_back().rank = r;
    places_[name] = {at->second, index};
    members[index].has_dump = true;
  }
}

// Groups that a process has destroyed and made anew have the old name and count from the beginning: only the newest
// counts.
void FlightRecorderReader::find_newest(const List& entries) {
  for (const ValuePtr& entry : entries)
    if (const auto of = group_of(*entry)) {
      int64_t& newest = newest_id_.try_emplace(*of->name, of->id).first->second;
      newest = std::max(newest, of->id);
    }
}
bool FlightRecorderReader::is_of_older_group(const Value& entry) const {
  const auto of = group_of(entry);
  return of.has_value() && of->id < newest_id_.find(*of->name)->second;
}

const FlightRecorderReader::Place* FlightRecorderReader::place_of(int rank, Fields& entry) {
  const Value* v = entry.required("process_group");
  if (v == nullptr) return nullptr;
  const List* pair = v->list();
  if (pair == nullptr || pair->empty() || (*pair)[0]->text() == nullptr) {
    entry.refuse("process_group", "a name and a description are expected");
    return nullptr;
  }
  const std::string& name = *(*pair)[0]->text();
  const auto found = places_.find(name);
  if (found != places_.end()) return &found->second;
  entry.refuse("process_group", absl::StrCat("pg_config has no group '", name.substr(0, 64), "' of rank ", rank));
  return nullptr;
}

void FlightRecorderReader::read_entry(int rank, const Value& value, size_t index, absl::Status& status) {
  Fields entry(&value, absl::StrCat("entries[", index, "]"), status);
  const Place* place = status.ok() ? place_of(rank, entry) : nullptr;
  if (place == nullptr) return;
  Group& group = job_.groups[place->group];
  Member* member = &group.members[place->member];

  Shape shape;
  read_operation(entry, group.of_all ? ranks_max : group.members.size(), shape);
  shape.inputs = read_sizes(entry, "input_sizes");
  shape.outputs = read_sizes(entry, "output_sizes");
  shape.input_types = read_types(entry, "input_dtypes");
  shape.output_types = read_types(entry, "output_dtypes");
  const bool is_transfer = shape.source >= 0;
  const bool group_end = ends_group(shape);
  // Before 2.2 collectives and transfers shared one number.
  const bool two_numbers = entry.optional("collective_seq_id") != nullptr;
  const int64_t collective = entry.integer(two_numbers ? "collective_seq_id" : "seq_id");
  const int64_t transfer = !two_numbers  ? collective
                           : is_transfer ? entry.integer("p2p_seq_id")
                                         : entry.integer_or("p2p_seq_id", 0);
  // PyTorch says of the end of coalesced sends and receives that it is none of them. It is behind them, with their
  // number of collectives; coalesced collectives have one of their own.
  Batch& batch = batches_[member];
  const bool ends_batch = shape.type == "coalesced" && batch.open && batch.collective == collective;
  const bool p2p = is_transfer || ends_batch;

  Call call;
  const int64_t sequence = p2p ? transfer : collective;
  const std::string state = entry.text("state");
  call.created_ns = entry.integer_or("time_created_ns", 0);
  const int64_t started_ns = entry.integer_or("time_discovered_started_ns", 0);
  call.completed_ns = entry.integer_or("time_discovered_completed_ns", 0);
  const bool retired = entry.boolean_or("retired", false);
  if (state == "completed")
    call.state = CallState::completed;
  else if (state == "started")
    call.state = CallState::started;
  else if (state != "scheduled" && entry.ok())
    entry.refuse("state", absl::StrCat("'", state.substr(0, 64), "' is not known"));
  call.frame = frame_of(entry);
  if (sequence < 0) entry.refuse("collective_seq_id", "a number from 0 on is expected");
  if (++calls_ > calls_max)
    entry.refuse("record_id", absl::StrCat("all dumps together have more than ", calls_max,
                                           " calls: import fewer, or record fewer (TORCH_FR_BUFFER_SIZE)"));
  if (sizes_ > tensors_of_shapes_max)
    entry.refuse("input_sizes", absl::StrCat("the calls of all dumps together differ in the sizes of more than ",
                                             tensors_of_shapes_max, " tensors: import fewer"));
  if (!status.ok()) return;

  call.sequence = static_cast<uint64_t>(sequence);
  call.timed_out = retired && call.in_flight();
  call.shape = shape_of(std::move(shape));
  job_.newest_ns = std::max({job_.newest_ns, call.created_ns, started_ns, call.completed_ns});
  if (started_ns != 0) member->times_starts = true;
  if (const int64_t id = entry.integer_or("pg_id", -1); id >= 0) by_id_[id] = member;
  if (p2p) group.has_transfers = true;
  if (is_transfer) {
    if (!batch.open || batch.collective != collective || batch.transfer != transfer)
      batch = {collective, transfer, member->transfers.size(), true};
    member->transfers.push_back(call);
  } else if (p2p) {
    give_state(member->transfers, batch.from, call);
    batch.open = false;
  } else {
    batch.open = false;
    std::vector<Call>& calls = member->collectives;
    if (group_end) give_state(calls, first_of(calls, call.sequence), call);
    if (!calls.empty() && calls.back().sequence > call.sequence)
      return entry.refuse("collective_seq_id", "the numbers of a group do not ascend");
    call.part = !calls.empty() && calls.back().sequence == call.sequence ? calls.back().part + 1 : 0;
    calls.push_back(call);
  }
}

// Where older calls were overwritten the first coalesced call may lack its first parts.
void FlightRecorderReader::leave_out_cut_calls() {
  for (const auto& [name, place] : places_) {
    std::vector<Call>& calls = job_.groups[place.group].members[place.member].collectives;
    if (calls.empty()) continue;
    const auto next =
        std::find_if(calls.begin(), calls.end(), [&](const Call& c) { return c.sequence != calls.front().sequence; });
    if (next - calls.begin() > 1 || ends_group(job_.shapes[calls.front().shape])) calls.erase(calls.begin(), next);
  }
}

void FlightRecorderReader::read_status(Fields& document, bool& complete, absl::Status& status) {
  const Value* progress = document.optional("pg_status");
  if (!status.ok() || progress == nullptr || progress->dict() == nullptr) return;
  // Groups are named by pg_id here, and only calls say which group that is; unless there is one group only.
  Member* only = nullptr;
  for (const auto& [name, place] : places_) only = &job_.groups[place.group].members[place.member];
  for (const auto& [key, row] : *progress->dict()) {
    int64_t id = -1;
    if (key->text() == nullptr || !absl::SimpleAtoi(*key->text(), &id)) continue;
    Fields of_group(row.get(), absl::StrCat("pg_status[", id, "]"), status);
    const int64_t enqueued = of_group.integer_or("last_enqueued_collective", -1);
    const auto known = by_id_.find(id);
    Member* member = known != by_id_.end()                                  ? known->second
                     : places_.size() == 1 && progress->dict()->size() == 1 ? only
                                                                            : nullptr;
    if (member != nullptr)
      member->last_enqueued = enqueued;
    else if (enqueued > 0)
      complete = false;  // calls that the dump does not have
  }
}

absl::Status FlightRecorderReader::add(int rank, const Value& value) {
  absl::Status status;
  Fields document(&value, "", status);
  const std::string version = document.text("version");
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  int major = 0, minor = 0;
  if (status.ok() && (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &major) || !absl::SimpleAtoi(parts[1], &minor)))
    document.refuse("version", absl::StrCat("'", version.substr(0, 64), "' is no version such as 2.4"));
  if (status.ok() && major != known_major_version)
    document.refuse("version", absl::StrCat("only versions 2.x are known, not ", version));
  if (status.ok() && rank < 0) document.refuse("version", "the name of the file does not end with the rank");
  if (status.ok() && !dumped_.emplace(rank, true).second)
    document.refuse("version", absl::StrCat("there is another dump of rank ", rank));
  if (!status.ok()) return status;

  places_.clear();
  newest_id_.clear();
  by_id_.clear();
  batches_.clear();
  read_groups(rank, document, status);
  const List& entries = document.list("entries");
  find_newest(entries);
  bool complete = true;
  for (size_t i = 0; status.ok() && i < entries.size(); ++i) {
    // The first record that is left tells whether older ones were overwritten, or left out.
    if (i == 0) {
      const Value* id = entries[0]->find("record_id");
      complete = id != nullptr && id->integer() != nullptr && *id->integer() == 0;
    }
    if (!is_of_older_group(*entries[i])) read_entry(rank, *entries[i], i, status);
  }
  if (!complete) leave_out_cut_calls();
  read_status(document, complete, status);
  for (const auto& [name, place] : places_) job_.groups[place.group].members[place.member].complete = complete;
  return status;
}

Job FlightRecorderReader::take() {
  for (Group& g : job_.groups) {
    // Who has no dump, and with whom others exchange something, is in a group of all, too.
    int last = static_cast<int>(g.members.size()) - 1;
    if (g.of_all)
      for (const Member& m : g.members)
        for (const Call& c : m.transfers)
          last = std::max({last, job_.shapes[c.shape].source, job_.shapes[c.shape].destination});
    for (int r = static_cast<int>(g.members.size()); r <= last; ++r) g.members.emplace_back().rank = r;
  }
  std::set<int> missing;
  for (const Group& g : job_.groups)
    for (const Member& m : g.members)
      if (!m.has_dump) missing.insert(m.rank);
  job_.no_dump.assign(missing.begin(), missing.end());
  return std::move(job_);
}

}  // namespace ccld::decision::dumps
