#include "decision/trace/json_writer.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace ccld::decision::trace {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Microseconds, to the nanosecond: a double has no room for that after some weeks.
std::string us(Nanoseconds ns) { return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000); }

std::string where(const Row& r, Nanoseconds at_ns) { return absl::StrCat("\"pid\":", r.group, ",\"tid\":", r.id, ",\"ts\":", us(at_ns)); }

std::string what(const std::string& name, const char* category, const Args& args) {
  Json values = Json::object();
  for (const Arg& arg : args)
    std::visit([&](const auto& v) { values[arg.name] = v; }, arg.value);
  return absl::StrCat("\"name\":", text(name), ",\"cat\":", text(category), ",\"args\":", text(values));
}

}  // namespace

void JsonWriter::event(const std::string& members) {
  put_(absl::StrCat(begun_ ? ",\n{" : "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{", members, "}"));
  begun_ = true;
}

void JsonWriter::describe(const char* name, uint32_t group, uint32_t row, const std::string& args) {
  event(absl::StrCat("\"ph\":\"M\",\"name\":\"", name, "\",\"pid\":", group, ",\"tid\":", row, ",\"args\":{", args, "}"));
}

void JsonWriter::group(const Group& g) {
  describe("process_name", g.id, 0, absl::StrCat("\"name\":", text(g.name)));
  if (!g.labels.empty()) describe("process_labels", g.id, 0, absl::StrCat("\"labels\":", text(g.labels)));
  describe("process_sort_index", g.id, 0, absl::StrCat("\"sort_index\":", g.order));
}

void JsonWriter::row(const Row& r) {
  if (r.counter) return;  // counters are named by their events
  describe("thread_name", r.group, r.id, absl::StrCat("\"name\":", text(r.name)));
  describe("thread_sort_index", r.group, r.id, absl::StrCat("\"sort_index\":", r.order));
}

void JsonWriter::slice(const Slice& s) {
  event(absl::StrCat("\"ph\":\"X\",", where(*s.row, s.begin_ns), ",\"dur\":", us(s.end_ns - s.begin_ns), ",",
                     what(s.name, s.category, s.args)));
}

void JsonWriter::instant(const Instant& i) {
  event(absl::StrCat("\"ph\":\"i\",\"s\":\"t\",", where(*i.row, i.at_ns), ",", what(i.name, i.category, i.args)));
}

void JsonWriter::counter(const Row& r, Nanoseconds at_ns, double value) {
  event(absl::StrCat("\"ph\":\"C\",\"name\":", text(r.name), ",", where(r, at_ns), ",\"args\":{\"value\":", text(value), "}"));
}

void JsonWriter::arrow(uint64_t id, absl::Span<const ArrowPoint> points) {
  if (points.size() < 2) return;
  for (size_t i = 0; i < points.size(); ++i) {
    const char* phase = i == 0 ? "s" : i + 1 < points.size() ? "t" : "f";
    event(absl::StrFormat("\"ph\":\"%s\",\"bp\":\"e\",\"id\":\"0x%x\",\"name\":\"call\",\"cat\":\"arrow\",%s", phase, id,
                          where(*points[i].row, points[i].at_ns)));
  }
}

void JsonWriter::finish() {
  put_(begun_ ? "\n]}\n" : "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[]}\n");
}

}  // namespace ccld::decision::trace
