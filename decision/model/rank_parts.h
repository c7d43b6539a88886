// What a rank says of itself once, kept in little memory: texts that many ranks share, where its channels lead, and its
// connections through network devices. (A communicator of 100,000 ranks has millions of channels.)
//
// Contract: values are those of CommUp (events.h), in its order. Iteration yields them by value.
// Threads: as their owner, the communicator.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/node_hash_set.h"
#include "decision/model/events.h"

namespace ccld::decision {

// A rank has its host, its GPU and a handful of network devices; no machine has more than some dozen of these. Whoever
// brings more texts than this has no such machine, and would fill the memory with them.
constexpr uint8_t names_per_rank_max = 64;

// A text of a NamePool.
class Name {
 public:
  Name() : text_(&nothing()) {}
  operator const std::string&() const { return *text_; }
  const std::string& str() const { return *text_; }
  bool empty() const { return text_->empty(); }
  friend bool operator==(const Name& a, const Name& b) { return a.text_ == b.text_ || *a.text_ == *b.text_; }

 private:
  friend class NamePool;
  explicit Name(const std::string& text) : text_(&text) {}
  static const std::string& nothing();
  const std::string* text_;
};

// Every distinct text once. Names live as long as the pool, so each rank may bring so many of them and no more.
class NamePool {
 public:
  // `brought`: by this rank so far, of texts that were not known. Beyond names_per_rank_max: too_many().
  Name of(std::string_view text, uint8_t& brought);
  static Name too_many();
  size_t size() const { return texts_.size(); }
  uint64_t refused() const { return refused_; }  // texts

 private:
  absl::node_hash_set<std::string> texts_;
  uint64_t refused_ = 0;
};

// Makes Value of the i-th element of a List: `Value at(size_t) const`.
template <class List, class Value>
class ByValueIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Value;
  using difference_type = std::ptrdiff_t;
  using pointer = const Value*;
  using reference = Value;
  ByValueIterator(const List* list, size_t i) : list_(list), i_(i) {}
  Value operator*() const { return (*list_)[i_]; }
  ByValueIterator& operator++() {
    ++i_;
    return *this;
  }
  friend bool operator==(const ByValueIterator& a, const ByValueIterator& b) { return a.i_ == b.i_; }

 private:
  const List* list_;
  size_t i_;
};

// Channels with the same neighbours share them: NCCL repeats a ring on several channels.
class ChannelList {
 public:
  void assign(const std::vector<ChannelTopology>&);
  size_t size() const { return places_.size(); }
  bool empty() const { return places_.empty(); }
  ChannelTopology operator[](size_t) const;
  ByValueIterator<ChannelList, ChannelTopology> begin() const { return {this, 0}; }
  ByValueIterator<ChannelList, ChannelTopology> end() const { return {this, size()}; }

 private:
  struct Place {
    uint8_t channel, neighbours;
  };
  static_assert(abi::channels_max <= UINT8_MAX);
  std::vector<Place> places_;
  std::vector<int32_t>
      words_;  // of each set of neighbours: ring_prev, ring_next, tree_up, tree_depth, number of children, children
};

class ConnectionList {
 public:
  void assign(const std::vector<NetConnection>&, NamePool&, uint8_t& names_brought);
  size_t size() const { return all_.size(); }
  bool empty() const { return all_.empty(); }
  NetConnection operator[](size_t) const;
  ByValueIterator<ConnectionList, NetConnection> begin() const { return {this, 0}; }
  ByValueIterator<ConnectionList, NetConnection> end() const { return {this, size()}; }

 private:
  struct Packed {
    int32_t peer;
    uint16_t device;  // of devices_
    uint8_t channel;
    abi::Direction direction;
  };
  static_assert(sizeof(Packed) == 8);
  struct Device {
    Name name;
    int number;
  };
  std::vector<Packed> all_;
  std::vector<Device> devices_;  // a handful
};

}  // namespace ccld::decision
