// KvPages: which page of the KV pool holds which tokens of which request.
//
// Pages are handed out from the head of one free queue (at first 0, 1, 2, ...) and come back at its
// tail, a request's last page first. Growth is all or nothing: a refusal leaves everything as it
// was. free + used = total at every step.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "trace/ids.h"

namespace lockstep::engine {

class KvPages {
 public:
  KvPages(std::uint32_t page_count, std::uint32_t page_size);

  std::uint32_t page_size() const { return page_size_; }
  std::uint32_t page_count() const { return page_count_; }
  std::uint32_t free_count() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t used_count() const { return page_count_ - free_count(); }
  // Pages that `token_count` tokens of one request need.
  std::uint32_t pages_for(std::uint64_t token_count) const;

  // Makes room for `token_count` tokens of the request in all. False (and no change) if the pool
  // has too few free pages. `taken` gets the new pages.
  bool grow(trace::RequestId request, std::uint64_t token_count,
            std::vector<trace::PageId>* taken = nullptr);
  // All pages of the request, in the order of its positions; empty if it has none.
  std::span<const trace::PageId> table(trace::RequestId request) const;
  // The cell of one position: page * page_size + offset.
  std::uint32_t slot(trace::RequestId request, trace::Position position) const;
  // Gives back everything the request holds; returns those pages, last first.
  std::vector<trace::PageId> release(trace::RequestId request);

 private:
  std::uint32_t page_count_, page_size_;
  std::deque<trace::PageId> free_;
  std::map<trace::RequestId, std::vector<trace::PageId>> tables_;
};

}  // namespace lockstep::engine
