#include "engine/cache/kv_pages.h"

#include "base/check.h"

namespace lockstep::engine {

KvPages::KvPages(std::uint32_t page_count, std::uint32_t page_size)
    : page_count_(page_count), page_size_(page_size) {
  LS_CHECK(page_size > 0);
  LS_CHECK(std::uint64_t{page_count} * page_size < std::uint64_t{1} << 31);  // slots are int32
  for (std::uint32_t page = 0; page < page_count; ++page) free_.push_back({page});
}

std::uint32_t KvPages::pages_for(std::uint64_t token_count) const {
  return static_cast<std::uint32_t>((token_count + page_size_ - 1) / page_size_);
}

bool KvPages::grow(trace::RequestId request, std::uint64_t token_count,
                   std::vector<trace::PageId>* taken) {
  const auto found = tables_.find(request);
  const std::size_t held = found == tables_.end() ? 0 : found->second.size();
  const std::size_t wanted = pages_for(token_count);
  if (wanted <= held) return true;
  if (wanted - held > free_.size()) return false;
  std::vector<trace::PageId>& table = tables_[request];
  for (std::size_t i = held; i < wanted; ++i) {
    table.push_back(free_.front());
    if (taken) taken->push_back(free_.front());
    free_.pop_front();
  }
  LS_CHECK(table.size() == wanted);
  return true;
}

std::span<const trace::PageId> KvPages::table(trace::RequestId request) const {
  const auto found = tables_.find(request);
  return found == tables_.end() ? std::span<const trace::PageId>() : std::span(found->second);
}

std::uint32_t KvPages::slot(trace::RequestId request, trace::Position position) const {
  const auto pages = table(request);
  LS_CHECK(position / page_size_ < pages.size());
  return pages[position / page_size_].value * page_size_ + position % page_size_;
}

std::vector<trace::PageId> KvPages::release(trace::RequestId request) {
  const auto found = tables_.find(request);
  if (found == tables_.end()) return {};
  std::vector<trace::PageId> pages(found->second.rbegin(), found->second.rend());
  for (const trace::PageId page : pages) free_.push_back(page);
  tables_.erase(found);
  LS_CHECK(free_.size() <= page_count_);
  return pages;
}

}  // namespace lockstep::engine
