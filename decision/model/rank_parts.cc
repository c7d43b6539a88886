#include "decision/model/rank_parts.h"

#include <algorithm>

#include "absl/strings/string_view.h"

namespace ccld::decision {
namespace {

constexpr size_t fixed_words = 5;

size_t length_of(const int32_t* words) { return fixed_words + static_cast<size_t>(words[fixed_words - 1]); }

std::vector<int32_t> words_of(const ChannelTopology& c) {
  std::vector<int32_t> words{c.ring_prev, c.ring_next, c.tree_up, c.tree_depth,
                             static_cast<int32_t>(c.tree_down.size())};
  words.insert(words.end(), c.tree_down.begin(), c.tree_down.end());
  return words;
}

}  // namespace

const std::string& Name::nothing() {
  static const std::string empty;
  return empty;
}

Name NamePool::too_many() {
  static const std::string text = "(too many names)";
  return Name(text);
}

Name NamePool::of(std::string_view text, uint8_t& brought) {
  if (text.empty()) return Name();
  const absl::string_view key(text.data(), text.size());
  if (const auto known = texts_.find(key); known != texts_.end()) return Name(*known);
  if (brought >= names_per_rank_max) return ++refused_, too_many();
  ++brought;
  return Name(*texts_.insert(std::string(text)).first);
}

void ChannelList::assign(const std::vector<ChannelTopology>& channels) {
  places_.clear();
  words_.clear();
  for (const ChannelTopology& c : channels) {
    if (places_.size() == UINT8_MAX) break;  // there are 64 at most
    const std::vector<int32_t> words = words_of(c);
    uint8_t neighbours = 0;
    size_t at = 0;
    for (; at < words_.size(); at += length_of(&words_[at]), ++neighbours)
      if (length_of(&words_[at]) == words.size() && std::equal(words.begin(), words.end(), &words_[at])) break;
    if (at == words_.size()) words_.insert(words_.end(), words.begin(), words.end());
    places_.push_back({static_cast<uint8_t>(c.channel), neighbours});
  }
  places_.shrink_to_fit();
  words_.shrink_to_fit();
}

ChannelTopology ChannelList::operator[](size_t i) const {
  const int32_t* words = words_.data();
  for (uint8_t n = places_[i].neighbours; n > 0; --n) words += length_of(words);
  ChannelTopology c;
  c.channel = places_[i].channel;
  c.ring_prev = words[0];
  c.ring_next = words[1];
  c.tree_up = words[2];
  c.tree_depth = words[3];
  c.tree_down.assign(words + fixed_words, words + fixed_words + words[4]);
  return c;
}

void ConnectionList::assign(const std::vector<NetConnection>& connections, NamePool& names, uint8_t& names_brought) {
  all_.clear();
  devices_.clear();
  all_.reserve(connections.size());
  for (const NetConnection& c : connections) {
    const Name name = names.of(c.net_name, names_brought);
    const auto same = [&](const Device& d) { return d.number == c.net_device && d.name == name; };
    const auto known = std::find_if(devices_.begin(), devices_.end(), same);
    const auto device = static_cast<uint16_t>(known - devices_.begin());  // there are 4096 connections at most
    if (known == devices_.end()) devices_.push_back({name, c.net_device});
    all_.push_back({c.peer, device, static_cast<uint8_t>(c.channel), c.direction});
  }
  all_.shrink_to_fit();
  devices_.shrink_to_fit();
}

NetConnection ConnectionList::operator[](size_t i) const {
  const Packed& p = all_[i];
  const Device& d = devices_[p.device];
  return {p.channel, p.direction, p.peer, d.number, d.name};
}

}  // namespace ccld::decision
