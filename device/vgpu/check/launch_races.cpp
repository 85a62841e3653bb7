// Races between the blocks of a launch; racecheck.h.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/vgpu/check/racecheck.h"

namespace lockstep::device::vgpu::check {

LaunchRaces::LaunchRaces(u64 first_address, u64 size_bytes)
    : first_page_(first_address >> kPageShift),
      page_count_((size_bytes >> kPageShift) + 2),
      table_(page_count_ * sizeof(u32)) {}

void LaunchRaces::begin_launch(const AllocationTable* allocations) {
  LS_CHECK(waiting_.empty());
  allocations_ = allocations;
  u32* table = static_cast<u32*>(table_.data());
  for (const u64 page : used_) table[page - first_page_] = 0;
  used_.clear();
  next_order_ = 0;
  last_order_ = ~u64{0};
  findings_.clear();
}

std::unique_ptr<BlockPage> LaunchRaces::new_page() {
  std::unique_ptr<BlockPage> page;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      page = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (page == nullptr) return std::make_unique<BlockPage>();
  page->weak.clear();
  page->strong.reset();
  return page;
}

void LaunchRaces::finish_block(u64 order, BlockLog log, bool failed) {
  const std::lock_guard lock(mutex_);
  if (failed) last_order_ = std::min(last_order_, order);
  waiting_.emplace(order, std::move(log));
  while (!waiting_.empty() && waiting_.begin()->first == next_order_) {
    if (next_order_ <= last_order_) merge(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    ++next_order_;
  }
}

Findings LaunchRaces::take_findings() {
  LS_CHECK(waiting_.empty() || last_order_ != ~u64{0});
  waiting_.clear();
  return std::exchange(findings_, {});
}

void LaunchRaces::merge(BlockLog& log) {
  findings_.merge(log.findings);
  u32* table = static_cast<u32*>(table_.data());
  for (std::unique_ptr<BlockPage>& page : log.pages) {
    u32& entry = table[page->page - first_page_];
    if (entry == 0) {
      used_.push_back(page->page);
      entry = static_cast<u32>(used_.size());
      if (pages_.size() < used_.size()) {
        pages_.push_back(std::make_unique<LaunchPage>());
      } else {
        LaunchPage& known = *pages_[entry - 1];
        known.weak.clear();
        known.fenced_weak.reset();
        known.strong.reset();
        known.fenced_strong.reset();
      }
    }
    merge_page(log, *page, *pages_[entry - 1]);
    spare_.push_back(std::move(page));
  }
}

void LaunchRaces::report(const BlockLog& log, const BlockPage& page, const LaunchPage& known,
                         u32 word, u64 bytes, bool writes, bool other_wrote) {
  const u64 offset = u64{word} * 64 + static_cast<u64>(__builtin_ctzll(bytes));
  const u64 line = offset >> kLineShift;
  const u16 mine = writes ? page.lines.written[line] : page.lines.read[line];
  const u16 theirs = other_wrote ? known.lines.written[line] : known.lines.read[line];
  const u32 other = other_wrote ? known.written_block[line] : known.read_block[line];
  findings_.add("racecheck", "global", long_instruction(mine), long_instruction(theirs),
                static_cast<u64>(__builtin_popcountll(bytes)), [&] {
                  const u64 address = (page.page << kPageShift) + offset;
                  std::string text = "block " + std::to_string(log.block) +
                                     (writes ? " writes " : " reads ") + "global memory at " +
                                     hexadecimal(address);
                  if (allocations_ != nullptr) {
                    text += " (" + allocations_->describe(address, 1) + ")";
                  }
                  return text + ", which block " + std::to_string(other) +
                         (other_wrote ? " writes" : " reads") + " in the same launch";
                });
}

void LaunchRaces::compare(const BlockLog& log, const BlockPage& page, const LaunchPage& known,
                          bool fenced) {
  static const PageSets kNone = {};
  const auto sets = [](const std::unique_ptr<PageSets>& some) -> const PageSets& {
    return some != nullptr ? *some : kNone;
  };
  const PageSets& weak = fenced ? sets(known.fenced_weak) : known.weak;
  const PageSets& strong = sets(fenced ? known.fenced_strong : known.strong);
  const PageSets& my_strong = sets(page.strong);
  const PageSets& mine = page.weak;
  // Most pages are only read, or touched by one block.
  const bool writes = mine.any_written || my_strong.any_written;
  const bool written = weak.any_written || strong.any_written;
  if (!writes && !written) return;
  if (!written && !weak.any_read && !strong.any_read) return;
  for (u32 word = 0; word < kPageWords; ++word) {
    const u64 write_write = (mine.written[word] & (weak.written[word] | strong.written[word])) |
                            (my_strong.written[word] & weak.written[word]);
    const u64 write_read = (mine.written[word] & (weak.read[word] | strong.read[word])) |
                           (my_strong.written[word] & weak.read[word]);
    const u64 read_write = (mine.read[word] & (weak.written[word] | strong.written[word])) |
                           (my_strong.read[word] & weak.written[word]);
    if (__builtin_expect((write_write | write_read | read_write) == 0, 1)) continue;
    if (write_write != 0) report(log, page, known, word, write_write, true, true);
    if ((write_read & ~write_write) != 0) {
      report(log, page, known, word, write_read & ~write_write, true, false);
    }
    if ((read_write & ~write_write) != 0) {
      report(log, page, known, word, read_write & ~write_write, false, true);
    }
  }
}

void LaunchRaces::merge_page(const BlockLog& log, BlockPage& page, LaunchPage& known) {
  compare(log, page, known, false);
  if (!log.fenced && (known.fenced_weak != nullptr || known.fenced_strong != nullptr)) {
    compare(log, page, known, true);
  }
  static_assert(kLineShift == 6);  // a word of bits is a line
  const auto add_one = [&](const std::array<u64, kPageWords>& mine,
                           std::array<u64, kPageWords>& sum,
                           const std::array<u16, kPageLines>& instructions,
                           std::array<u16, kPageLines>& last, std::array<u32, kPageLines>& block) {
    for (u32 word = 0; word < kPageWords; ++word) {
      const bool any = mine[word] != 0;
      sum[word] |= mine[word];
      last[word] = any ? instructions[word] : last[word];
      block[word] = any ? log.block : block[word];
    }
  };
  const auto add = [&](const PageSets& mine, PageSets& sum) {
    if (mine.any_read) {
      add_one(mine.read, sum.read, page.lines.read, known.lines.read, known.read_block);
      sum.any_read = true;
    }
    if (mine.any_written) {
      add_one(mine.written, sum.written, page.lines.written, known.lines.written,
              known.written_block);
      sum.any_written = true;
    }
  };
  const auto made = [](std::unique_ptr<PageSets>& some) -> PageSets& {
    if (some == nullptr) some = std::make_unique<PageSets>();
    return *some;
  };
  add(page.weak, log.fenced ? made(known.fenced_weak) : known.weak);
  if (page.strong != nullptr) {
    add(*page.strong, made(log.fenced ? known.fenced_strong : known.strong));
  }
}

}  // namespace lockstep::device::vgpu::check
