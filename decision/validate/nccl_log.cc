#include "decision/validate/nccl_log.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ccld::decision::validate {
namespace {

constexpr int channels_max = 64;

// Takes a number from the front, behind blanks.
std::optional<int> take_number(absl::string_view& text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  size_t end = text.empty() || text[0] != '-' ? 0 : 1;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  int value = 0;
  if (!absl::SimpleAtoi(text.substr(0, end), &value)) return std::nullopt;
  text.remove_prefix(end);
  return value;
}

bool take(absl::string_view& text, absl::string_view word) {
  text = absl::StripLeadingAsciiWhitespace(text);
  return absl::ConsumePrefix(&text, word);
}

Neighbours* channel_of(NcclLog& log, int channel) {
  if (channel < 0 || channel >= channels_max) return nullptr;
  if (log.channels.size() <= static_cast<size_t>(channel)) log.channels.resize(static_cast<size_t>(channel) + 1);
  return &log.channels[static_cast<size_t>(channel)];
}

// "Ring 00 : 3 -> 0 -> 1"
void read_ring(absl::string_view text, int rank, NcclLog& log) {
  const auto channel = take_number(text);
  if (!channel || !take(text, ":")) return;
  const auto previous = take_number(text);
  if (!previous || !take(text, "->")) return;
  const auto own = take_number(text);
  if (!own || *own != rank || !take(text, "->")) return;
  const auto next = take_number(text);
  if (!next) return;
  Neighbours* n = channel_of(log, *channel);
  if (n == nullptr) return;
  n->ring_previous = *previous;
  n->ring_next = *next;
}

// "Trees [0] 1/-1/-1->0->-1 [1] ...": children, the rank, its parent.
void read_trees(absl::string_view text, int rank, NcclLog& log) {
  for (const absl::string_view part : absl::StrSplit(text, '[', absl::SkipEmpty())) {
    absl::string_view rest = part;
    const auto channel = take_number(rest);
    if (!channel || !take(rest, "]")) continue;
    const size_t arrow = rest.find("->");
    if (arrow == absl::string_view::npos) continue;
    rest.remove_prefix(arrow + 2);
    const auto own = take_number(rest);
    if (!own || *own != rank || !take(rest, "->")) continue;
    const auto parent = take_number(rest);
    if (!parent) continue;
    if (Neighbours* n = channel_of(log, *channel); n != nullptr) n->tree_parent = *parent;
  }
}

// "NET/IB/3/GDRDMA/Shared": device 3; "P2P/CUMEM/read".
Path path_of(absl::string_view via) {
  const std::vector<absl::string_view> parts = absl::StrSplit(via, '/');
  Path path;
  path.kind = std::string(parts[0]);
  if (parts.size() > 1) absl::StrAppend(&path.kind, "/", parts[1]);
  if (parts[0] != "NET" || parts.size() < 3) return path;
  absl::string_view device = parts[2];
  path.net_device = take_number(device).value_or(-1);
  for (size_t i = 3; i < parts.size(); ++i)
    if (parts[i] == "GDRDMA") absl::StrAppend(&path.kind, "/GDRDMA");
  return path;
}

// "Channel 00/1 : 0[0] -> 1[1] [send] via NET/Socket/0"; of shared memory without "[send]".
void read_channel(absl::string_view text, int rank, NcclLog& log) {
  const size_t colon = text.find(':'), via = text.find(" via ");
  if (colon == absl::string_view::npos || via == absl::string_view::npos) return;
  if (text.find("[receive]") != absl::string_view::npos) return;
  absl::string_view rest = text.substr(colon + 1);
  const auto from = take_number(rest);
  const size_t arrow = rest.find("->");
  if (!from || *from != rank || arrow == absl::string_view::npos) return;
  rest.remove_prefix(arrow + 2);
  if (const auto to = take_number(rest); to && *to != rank) log.sends_to[*to] = path_of(text.substr(via + 5));
}

// "NET/Socket : Using [0]data0:10.77.0.1<0> [1]data1:..."
void read_devices(absl::string_view text, NcclLog& log) {
  for (const absl::string_view part : absl::StrSplit(text, '[', absl::SkipEmpty())) {
    absl::string_view rest = part;
    const auto device = take_number(rest);
    if (!device || !take(rest, "]")) continue;
    const absl::string_view name = rest.substr(0, rest.find(':'));
    if (!name.empty() && name.find(' ') == absl::string_view::npos) log.net_names[*device] = std::string(name);
  }
}

}  // namespace

NcclLog read_nccl_log(absl::string_view text, int rank) {
  NcclLog log;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.find("NCCL WARN ") != absl::string_view::npos) log.warnings.emplace_back(line);
    constexpr absl::string_view info = "NCCL INFO ";
    const size_t at = line.find(info);
    if (at == absl::string_view::npos) continue;
    absl::string_view rest = line.substr(at + info.size());
    if (absl::ConsumePrefix(&rest, "Ring "))
      read_ring(rest, rank, log);
    else if (absl::ConsumePrefix(&rest, "Trees "))
      read_trees(rest, rank, log);
    else if (absl::ConsumePrefix(&rest, "Channel "))
      read_channel(rest, rank, log);
    else if (const size_t using_at = rest.find(" : Using "); using_at != absl::string_view::npos)
      read_devices(rest.substr(using_at), log);
  }
  return log;
}

}  // namespace ccld::decision::validate
