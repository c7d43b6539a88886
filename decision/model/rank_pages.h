// Memory for the ranks of a communicator, by pages of 64: a page is there once one of its ranks has spoken. A message
// that claims a communicator of 262,144 ranks costs one page.
//
// RankPages numbers the slots of the pages; RankTable keeps a RankModel-like value in each.
// Contract: plain state, not thread-safe. `Value` has a member `rank`. References stay valid.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "decision/model/types.h"

namespace ccld::decision {

class RankPages {
 public:
  static constexpr size_t page_ranks = 64;
  static constexpr size_t none = SIZE_MAX;

  // Of a rank whose page is there.
  size_t slot(size_t rank) const {
    const size_t page = rank / page_ranks;
    if (page == 0) return rank < slots_ ? rank : none;  // most communicators are small
    if (page >= numbers_.size() || numbers_[page] == 0) return none;
    return numbers_[page] * page_ranks + rank % page_ranks;
  }
  // Adds the page of the rank; `ranks`: how many there are, as far as known. True: slots() has grown.
  bool add(size_t rank, size_t ranks) {
    const size_t page = rank / page_ranks;
    if (page == 0 && slots_ >= page_ranks) return false;
    const size_t before = slots_;
    if (page == 0) {
      slots_ = std::max(slots_, std::min(page_ranks, std::max(rank + 1, ranks)));
      return slots_ > before;
    }
    if (page < numbers_.size() && numbers_[page] != 0) return false;
    if (page >= numbers_.size()) numbers_.resize(page + 1);
    // The slots of page 0 are the first, so they are there as soon as any other is.
    slots_ = (std::max(slots_, page_ranks) + page_ranks - 1) / page_ranks * page_ranks;
    numbers_[page] = static_cast<uint32_t>(slots_ / page_ranks);
    slots_ += page_ranks;
    return true;
  }
  size_t slots() const { return slots_; }
  // visit(first rank, first slot, how many), in the order of ranks.
  template <class Visit>
  void visit(Visit visit) const {
    if (slots_ > 0) visit(size_t{0}, size_t{0}, std::min(slots_, page_ranks));
    for (size_t page = 1; page < numbers_.size(); ++page)
      if (numbers_[page] != 0) visit(page * page_ranks, numbers_[page] * page_ranks, page_ranks);
  }

 private:
  size_t slots_ = 0;
  std::vector<uint32_t> numbers_;  // by page; 0: not there (page 0 always has number 0)
};

template <class Value>
class RankTable {
  static constexpr size_t page_ranks = RankPages::page_ranks;

 public:
  // How many ranks there are, as far as known: of some nothing may have been heard.
  size_t size() const { return size_; }
  // `last`: there will not be more.
  void set_size(size_t ranks, bool last) { size_ = ranks, size_is_known_ = last; }
  // For how many more ranks there would be room if this one spoke.
  size_t room_for(size_t rank) const { return page_of(rank) ? 0 : page_length(rank); }
  // Of a rank below size(); makes room for it.
  Value& at(size_t rank) {
    const size_t page = rank / page_ranks;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (!pages_[page]) {
      const size_t length = page_length(rank);
      pages_[page] = std::make_unique<Value[]>(length);
      for (size_t i = 0; i < length; ++i) pages_[page][i].rank = Rank{static_cast<int32_t>(page * page_ranks + i)};
      lengths_.resize(pages_.size());
      lengths_[page] = static_cast<uint8_t>(length);
    }
    return pages_[page][rank % page_ranks];
  }
  // nullptr: nobody near it has spoken.
  const Value* find(size_t rank) const {
    const Value* page = rank < size_ ? page_of(rank) : nullptr;
    return page && rank % page_ranks < lengths_[rank / page_ranks] ? page + rank % page_ranks : nullptr;
  }
  Value* find(size_t rank) { return const_cast<Value*>(std::as_const(*this).find(rank)); }

  // visit(first value, how many), for each page that is there, in their order.
  template <class Visit>
  void visit_pages(Visit visit) const {
    for (size_t page = 0; page < pages_.size() && page * page_ranks < size_; ++page)
      if (pages_[page])
        visit(static_cast<const Value*>(pages_[page].get()),
              std::min<size_t>(lengths_[page], size_ - page * page_ranks));
  }
  // visit(value), in their order.
  template <class Visit>
  void visit_mutable(Visit visit) {
    visit_pages([&](const Value* page, size_t n) {
      for (size_t i = 0; i < n; ++i) visit(const_cast<Value&>(page[i]));
    });
  }

  // Over the ranks for which there is room, in their order.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Value;
    using difference_type = std::ptrdiff_t;
    using pointer = const Value*;
    using reference = const Value&;
    Iterator() = default;
    Iterator(const RankTable* table, size_t rank) : table_(table), rank_(rank) { settle(); }
    reference operator*() const { return *at_; }
    pointer operator->() const { return at_; }
    Iterator& operator++() {
      ++rank_, ++at_;
      if (rank_ % page_ranks == 0 || rank_ >= end_) settle();
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.rank_ == b.rank_; }

   private:
    void settle() {
      const size_t size = table_->size_;
      for (; rank_ < size; rank_ = (rank_ / page_ranks + 1) * page_ranks) {
        const size_t first = rank_ / page_ranks * page_ranks;
        if (first / page_ranks >= table_->pages_.size()) break;
        if (!(at_ = table_->find(rank_))) continue;
        end_ = std::min(size, first + table_->lengths_[first / page_ranks]);
        return;
      }
      rank_ = size;
    }
    const RankTable* table_ = nullptr;
    const Value* at_ = nullptr;
    size_t rank_ = 0, end_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size_}; }

 private:
  const Value* page_of(size_t rank) const {
    return rank / page_ranks < pages_.size() ? pages_[rank / page_ranks].get() : nullptr;
  }
  size_t page_length(size_t rank) const {
    return size_is_known_ ? std::min(page_ranks, size_ - rank / page_ranks * page_ranks) : page_ranks;
  }

  size_t size_ = 0;
  bool size_is_known_ = false;
  std::vector<std::unique_ptr<Value[]>> pages_;
  std::vector<uint8_t> lengths_;  // of the pages
};

}  // namespace ccld::decision
