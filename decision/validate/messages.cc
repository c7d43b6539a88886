#include "decision/validate/messages.h"

#include <cmath>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "decision/report/bounded_json.h"
#include "schemas/build_id/build_id.h"

namespace ccld::decision::validate {
namespace {

using Json = nlohmann::json;

constexpr size_t channels_max = 64;      // NCCL's MAXCHANNELS
constexpr size_t text_bytes_max = 4096;  // of a name
constexpr int pid_max = 1 << 22;         // Linux's PID_MAX_LIMIT
// More is no number of an operation, no rate and no wait; less never overflows when they are added.
constexpr uint64_t op_seq_max = uint64_t{1} << 60;
constexpr double operations_per_s_max = 1e9, within_s_max = 86400;

std::string dumped(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string text(const Json& j, const char* key) {
  std::string s = j.at(key).get<std::string>();
  if (s.size() > text_bytes_max) throw std::invalid_argument(absl::StrCat(key, " is too long"));
  return s;
}

// The library's own conversion of 1e30 to an integer is undefined.
int64_t whole(const Json& value) {
  const bool is_large = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  if (!value.is_number_integer() || is_large) throw std::invalid_argument("a number is not whole, or too large");
  return value.get<int64_t>();
}

int number(const Json& j, const char* key, int least, int most) {
  const int64_t value = whole(j.at(key));
  if (value < least || value > most)
    throw std::invalid_argument(absl::StrCat(key, " is ", value, ", not from ", least, " to ", most));
  return static_cast<int>(value);
}

template <class T, class Parse>
absl::StatusOr<T> parsed(absl::string_view message, const Parse& parse) {
  const auto json = report::parse_bounded<Json>(message);
  if (!json.ok())
    return absl::InvalidArgumentError(absl::StrCat("a message that is not understood: ", json.status().message()));
  try {
    return parse(*json);
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("a message that is not understood: ", e.what()));
  }
}

Check check_of(const Json& j) {
  Check check;
  if (!parse_check(text(j, "check"), check)) throw std::invalid_argument("there is no such check");
  return check;
}

const char* name(StepKind k) {
  switch (k) {
    case StepKind::progress: return "progress";
    case StepKind::hold: return "hold";
    case StepKind::identify: return "identify";
    case StepKind::connect: return "connect";
    case StepKind::gpu_check: return "gpu_check";
    case StepKind::pass: return "pass";
    case StepKind::end: break;
  }
  return "end";
}

StepKind kind_of(const std::string& text) {
  for (const StepKind k : {StepKind::progress, StepKind::hold, StepKind::identify, StepKind::connect,
                           StepKind::gpu_check, StepKind::pass, StepKind::end})
    if (text == name(k)) return k;
  throw std::invalid_argument("there is no such step");
}

const char* name(Holds h) {
  switch (h) {
    case Holds::not_yet: return "not_yet";
    case Holds::holds: return "holds";
    case Holds::passed: break;
  }
  return "passed";
}

Holds holds_of(const std::string& text) {
  for (const Holds h : {Holds::not_yet, Holds::holds, Holds::passed})
    if (text == name(h)) return h;
  throw std::invalid_argument("there is no such answer to 'hold'");
}

uint64_t op_seq(const Json& j, const char* key) {
  const auto value = static_cast<uint64_t>(whole(j.at(key)));
  if (value > op_seq_max) throw std::invalid_argument(absl::StrCat(key, " is ", value, ", which is too much"));
  return value;
}

double positive(const Json& j, const char* key, double most) {
  const auto value = j.at(key).get<double>();
  if (!(value >= 0 && value <= most))
    throw std::invalid_argument(absl::StrCat(key, " is ", value, ", not from 0 to ", most));
  return value;
}

Json sample_json(const Sample& s) {
  return {{"check", validate::name(s.check)},
          {"rank", s.rank},
          {"peer", s.peer},
          {"kind", s.kind},
          {"net", s.net},
          {"bytes", s.bytes},
          {"ms", s.ms}};
}

Sample sample_of(const Json& j, int ranks) {
  Sample s;
  s.check = check_of(j);
  s.rank = number(j, "rank", 0, ranks - 1);
  s.peer = number(j, "peer", s.check == Check::link ? 0 : -1, s.check == Check::link ? ranks - 1 : -1);
  s.kind = text(j, "kind");
  s.net = text(j, "net");
  s.bytes = j.at("bytes").get<double>();
  s.ms = j.at("ms").get<std::vector<double>>();
  if (s.ms.size() > repetitions_max) throw std::invalid_argument("too many repetitions");
  for (const double ms : s.ms)
    if (!std::isfinite(ms) || ms < 0) throw std::invalid_argument("a time is no number");
  return s;
}

}  // namespace

std::string program_text() { return absl::StrCat("ccld-validate ", release_version()); }

std::string to_text(const Hello& h) {
  const Member& m = h.member;
  return dumped({{"program", h.program},
                 {"ranks", h.ranks},
                 {"rank", m.rank},
                 {"host", m.host},
                 {"pid", m.pid},
                 {"gpu", m.gpu},
                 {"bus_id", m.bus_id},
                 {"model", m.model},
                 {"cpu_device", m.cpu_device}});
}

absl::StatusOr<Hello> parse_hello(absl::string_view message) {
  return parsed<Hello>(message, [](const Json& j) {
    Hello h;
    h.program = text(j, "program");
    h.ranks = number(j, "ranks", 1, ranks_max);
    h.member.rank = number(j, "rank", 0, h.ranks - 1);
    h.member.host = text(j, "host");
    h.member.pid = static_cast<uint32_t>(number(j, "pid", 0, pid_max));
    h.member.gpu = number(j, "gpu", -1, 1024);
    h.member.bus_id = text(j, "bus_id");
    h.member.model = text(j, "model");
    h.member.cpu_device = j.at("cpu_device").get<bool>();
    return h;
  });
}

std::string to_text(const Step& s) {
  Json pairs = Json::array();
  for (const Pair& p : s.pairs) pairs.push_back({{"from", p.from}, {"to", p.to}, {"back", p.back}});
  return dumped({{"step", name(s.kind)},
                 {"before_op_seq", s.before_op_seq},
                 {"within_s", s.within_s},
                 {"id", s.id},
                 {"check", validate::name(s.check)},
                 {"pairs", std::move(pairs)},
                 {"repetitions", s.repetitions}});
}

absl::StatusOr<Step> parse_step(absl::string_view message, int ranks) {
  return parsed<Step>(message, [ranks](const Json& j) {
    Step s;
    s.kind = kind_of(text(j, "step"));
    s.before_op_seq = op_seq(j, "before_op_seq");
    s.within_s = positive(j, "within_s", within_s_max);
    s.id = text(j, "id");
    s.check = check_of(j);
    s.repetitions = number(j, "repetitions", 0, repetitions_max);
    for (const Json& p : j.at("pairs")) {
      Pair pair{number(p, "from", 0, ranks - 1), number(p, "to", 0, ranks - 1), p.at("back").get<bool>()};
      if (pair.from == pair.to) throw std::invalid_argument("a pair of one rank");
      s.pairs.push_back(pair);
      if (s.pairs.size() > static_cast<size_t>(ranks) / 2) throw std::invalid_argument("a rank in two pairs");
    }
    return s;
  });
}

std::string to_text(const Answer& a) {
  Json channels = Json::array(), samples = Json::array();
  for (const Neighbours& n : a.channels) channels.push_back({n.ring_previous, n.ring_next, n.tree_parent});
  for (const Sample& s : a.samples) samples.push_back(sample_json(s));
  return dumped({{"rank", a.rank},
                 {"error", a.error},
                 {"operations", a.operations},
                 {"operations_per_s", a.operations_per_s},
                 {"holds", name(a.holds)},
                 {"id", a.id},
                 {"channels", std::move(channels)},
                 {"samples", std::move(samples)},
                 {"hung", a.hung}});
}

absl::StatusOr<Answer> parse_answer(absl::string_view message, int ranks) {
  return parsed<Answer>(message, [ranks](const Json& j) {
    Answer a;
    a.rank = number(j, "rank", 0, ranks - 1);
    a.error = text(j, "error");
    a.operations = op_seq(j, "operations");
    a.operations_per_s = positive(j, "operations_per_s", operations_per_s_max);
    a.holds = holds_of(text(j, "holds"));
    a.id = text(j, "id");
    for (const Json& c : j.at("channels")) {
      const auto at = [&c, ranks](size_t i) {
        const int64_t rank = whole(c.at(i));
        if (rank < -1 || rank >= ranks) throw std::invalid_argument("a neighbour that is no rank");
        return static_cast<int>(rank);
      };
      a.channels.push_back({at(0), at(1), at(2)});
      if (a.channels.size() > channels_max) throw std::invalid_argument("too many channels");
    }
    for (const Json& s : j.at("samples")) a.samples.push_back(sample_of(s, ranks));
    for (const Json& h : j.at("hung")) {
      const std::pair<int64_t, int64_t> link(whole(h.at(0)), whole(h.at(1)));
      if (link.first < 0 || link.first >= ranks || link.second < 0 || link.second >= ranks)
        throw std::invalid_argument("a link that is none");
      a.hung.emplace_back(static_cast<int>(link.first), static_cast<int>(link.second));
    }
    return a;
  });
}

}  // namespace ccld::decision::validate
