#include "decision/trace/perfetto_writer.h"

#include <type_traits>

#include "protozero/pbf_writer.hpp"

namespace ccld::decision::trace {
namespace {

using protozero::pbf_writer;

// Field numbers of perfetto/protos: trace.proto, trace_packet.proto, track_event/*.proto, interned_data.proto.
namespace trace_field {
constexpr uint32_t packet = 1;
}
namespace packet_field {
constexpr uint32_t timestamp = 8, sequence_id = 10, track_event = 11, interned_data = 12, sequence_flags = 13, track_descriptor = 60;
}
namespace event_field {
constexpr uint32_t category_iids = 3, debug_annotations = 4, type = 9, name_iid = 10, track_uuid = 11, name = 23,
                   double_counter_value = 44, flow_ids = 47, terminating_flow_ids = 48;
}
namespace track_field {
constexpr uint32_t uuid = 1, name = 2, process = 3, parent_uuid = 5, counter = 8, child_ordering = 11, sibling_order_rank = 12;
}
namespace process_field {
constexpr uint32_t pid = 1, process_name = 6, process_labels = 8;
}
namespace annotation_field {
constexpr uint32_t name_iid = 1, uint_value = 3, int_value = 4, double_value = 5, string_value = 6, name = 10;
}
namespace name_field {
constexpr uint32_t iid = 1, name = 2;
}

enum EventType : int32_t { slice_begin = 1, slice_end = 2, instant_event = 3, counter_event = 4 };
constexpr uint32_t names_were_cleared = 1, names_are_used = 2;  // sequence_flags
constexpr int32_t order_explicit = 3;                           // child_ordering
constexpr uint32_t only_sequence = 1;
// More different names are written out each time: the numbers of all names stay in memory, here and in the viewer.
constexpr size_t names_max = 1 << 16;
// Rows have the numbers below, groups those above.
constexpr uint64_t groups_from = uint64_t{1} << 32;

uint64_t uuid_of(const Row& r) { return r.id; }

void add_value(pbf_writer& w, const Arg& arg) {
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, int64_t>) w.add_int64(annotation_field::int_value, v);
        if constexpr (std::is_same_v<T, uint64_t>) w.add_uint64(annotation_field::uint_value, v);
        if constexpr (std::is_same_v<T, double>) w.add_double(annotation_field::double_value, v);
        if constexpr (std::is_same_v<T, std::string>) w.add_string(annotation_field::string_value, v);
      },
      arg.value);
}

void begin_event(pbf_writer& w, EventType type, const Row& row) {
  w.add_enum(event_field::type, type);
  w.add_uint64(event_field::track_uuid, uuid_of(row));
}

}  // namespace

// 0: there are too many names already.
uint64_t PerfettoWriter::number_of(Names& names, absl::string_view text) {
  if (const auto it = names.numbers.find(text); it != names.numbers.end()) return it->second;
  if (names.numbers.size() >= names_max) return 0;
  const uint64_t number = names.numbers.size() + 1;
  names.numbers.emplace(text, number);
  std::string entry;
  pbf_writer w(entry);
  w.add_uint64(name_field::iid, number);
  w.add_string(name_field::name, text.data(), text.size());
  pbf_writer(new_names_).add_message(names.field, entry);
  return number;
}

// The part of an event that says what it is.
std::string PerfettoWriter::named(absl::string_view name, const char* category, const Args& args) {
  std::string event;
  pbf_writer w(event);
  if (const uint64_t number = number_of(events_, name))
    w.add_uint64(event_field::name_iid, number);
  else
    w.add_string(event_field::name, name.data(), name.size());
  w.add_uint64(event_field::category_iids, number_of(categories_, category));
  for (const Arg& arg : args) {
    std::string annotation;
    pbf_writer a(annotation);
    if (const uint64_t number = number_of(args_, arg.name))
      a.add_uint64(annotation_field::name_iid, number);
    else
      a.add_string(annotation_field::name, arg.name);
    add_value(a, arg);
    w.add_message(event_field::debug_annotations, annotation);
  }
  return event;
}

void PerfettoWriter::packet(Nanoseconds at_ns, const std::string& event) {
  std::string packet, framed;
  pbf_writer w(packet);
  w.add_uint64(packet_field::timestamp, static_cast<uint64_t>(at_ns));
  w.add_uint32(packet_field::sequence_id, only_sequence);
  w.add_uint32(packet_field::sequence_flags, begun_ ? names_are_used : names_were_cleared | names_are_used);
  if (!new_names_.empty()) w.add_message(packet_field::interned_data, new_names_);
  w.add_message(packet_field::track_event, event);
  new_names_.clear();
  begun_ = true;
  pbf_writer(framed).add_message(trace_field::packet, packet);
  put_(framed);
}

void PerfettoWriter::descriptor(const std::string& track) {
  std::string packet, framed;
  pbf_writer w(packet);
  w.add_uint32(packet_field::sequence_id, only_sequence);
  if (!begun_) w.add_uint32(packet_field::sequence_flags, names_were_cleared | names_are_used);
  w.add_message(packet_field::track_descriptor, track);
  begun_ = true;
  pbf_writer(framed).add_message(trace_field::packet, packet);
  put_(framed);
}

void PerfettoWriter::group(const Group& g) {
  std::string process, track;
  pbf_writer p(process);
  p.add_int32(process_field::pid, static_cast<int32_t>(g.id));
  p.add_string(process_field::process_name, g.name);
  if (!g.labels.empty()) p.add_string(process_field::process_labels, g.labels);
  pbf_writer t(track);
  t.add_uint64(track_field::uuid, groups_from + g.id);
  t.add_message(track_field::process, process);
  t.add_enum(track_field::child_ordering, order_explicit);
  t.add_int32(track_field::sibling_order_rank, g.order);
  descriptor(track);
}

void PerfettoWriter::row(const Row& r) {
  std::string track;
  pbf_writer t(track);
  t.add_uint64(track_field::uuid, uuid_of(r));
  t.add_uint64(track_field::parent_uuid, groups_from + r.group);
  t.add_string(track_field::name, r.name);
  if (r.counter) t.add_message(track_field::counter, std::string());
  t.add_int32(track_field::sibling_order_rank, r.order);
  descriptor(track);
}

void PerfettoWriter::slice(const Slice& s) {
  std::string event = named(s.name, s.category, s.args);
  pbf_writer w(event);
  begin_event(w, slice_begin, *s.row);
  for (const uint64_t id : s.arrows) w.add_fixed64(event_field::flow_ids, id);
  packet(s.begin_ns, event);
  std::string ending;
  pbf_writer e(ending);
  begin_event(e, slice_end, *s.row);
  packet(s.end_ns, ending);
}

void PerfettoWriter::instant(const Instant& i) {
  std::string event = named(i.name, i.category, i.args);
  pbf_writer w(event);
  begin_event(w, instant_event, *i.row);
  for (const uint64_t id : i.arrows) w.add_fixed64(event_field::terminating_flow_ids, id);
  packet(i.at_ns, event);
}

void PerfettoWriter::counter(const Row& r, Nanoseconds at_ns, double value) {
  std::string event;
  pbf_writer w(event);
  begin_event(w, counter_event, r);
  w.add_double(event_field::double_counter_value, value);
  packet(at_ns, event);
}

}  // namespace ccld::decision::trace
