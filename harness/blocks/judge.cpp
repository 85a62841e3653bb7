#include "harness/blocks/judge.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::harness {

using trace::kNoBlock;

std::string_view name(BlockRule rule) {
  switch (rule) {
    case BlockRule::Answer:
      return "answer";
    case BlockRule::TableLength:
      return "table_length";
    case BlockRule::Held:
      return "held";
    case BlockRule::Stable:
      return "stable";
    case BlockRule::OneOwner:
      return "one_owner";
    case BlockRule::HitLength:
      return "hit_length";
    case BlockRule::HitContent:
      return "hit_content";
    case BlockRule::FreeCount:
      return "free_count";
    case BlockRule::RefusalTrace:
      return "refusal_trace";
    case BlockRule::Refusal:
      return "refusal";
  }
  return {};
}

void BlockJudge::breach(BlockRule rule, std::string message) {
  breaches_.push_back({rule, std::move(message)});
}

void BlockJudge::expect(bool holds, BlockRule rule, const std::string& message) {
  ++checked_;
  if (!holds) breach(rule, message);
}

std::uint32_t BlockJudge::first_needed(std::uint32_t group, std::uint32_t next) const {
  const trace::GroupSpec& spec = setup_.groups[group];
  if (spec.type != trace::GroupType::SlidingWindow || next < spec.window) return 0;
  return (next - spec.window + 1) / setup_.block_size;
}

BlockJudge::Content BlockJudge::content(const Request& request, std::uint32_t group,
                                        std::uint32_t index, std::uint32_t end) const {
  const std::uint32_t begin = index * setup_.block_size;
  std::uint64_t hash = group + 1;
  for (std::uint32_t i = 0; i < end; ++i) {
    hash = (hash ^ (request.tokens[i] + 1)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return {group, index, end - begin, hash};
}

std::size_t BlockJudge::held() const {
  std::set<trace::BlockId> blocks;
  for (const auto& [id, request] : live_) {
    for (const Table& table : request.tables) blocks.insert(table.begin(), table.end());
  }
  blocks.erase(kNoBlock);
  return blocks.size();
}

void BlockJudge::judge_tables(const BlockAnswer& answer, const Request& before, std::uint32_t first,
                              std::uint32_t end) {
  for (std::uint32_t g = 0; g < setup_.groups.size(); ++g) {
    const Table& table = answer.blocks[g];
    const std::string group = "group " + std::to_string(g);
    expect(table.size() >= setup_.blocks_for(end), BlockRule::TableLength,
           group + ": " + std::to_string(table.size()) + " entries for " + std::to_string(end) +
               " tokens");
    for (std::uint32_t i = first_needed(g, first); i < table.size(); ++i) {
      if (table[i] != kNoBlock) continue;
      breach(BlockRule::Held, group + ": block " + std::to_string(i) + " is not held");
      break;
    }
    ++checked_;
    for (std::uint32_t i = 0; i < before.tables[g].size(); ++i) {
      const trace::BlockId old = before.tables[g][i];
      if (i < table.size() && table[i] == old) continue;
      const bool back = i < table.size() && table[i] == kNoBlock;
      if (back && i < first_needed(g, before.computed)) continue;
      breach(BlockRule::Stable, group + ": block " + std::to_string(i) + " was " +
                                    std::to_string(old.value) + " and is another");
      break;
    }
    ++checked_;
  }
}

void BlockJudge::judge_hit(const BlockAnswer& answer, const Request& request) {
  const std::uint32_t hit = answer.hit_tokens;
  expect(hit % setup_.block_size == 0 && hit < request.tokens.size(), BlockRule::HitLength,
         std::to_string(hit) + " tokens hit of " + std::to_string(request.tokens.size()));
  if (!breaches_.empty() || !answer.ok) return;
  for (std::uint32_t g = 0; g < setup_.groups.size(); ++g) {
    for (std::uint32_t i = 0; i < hit / setup_.block_size; ++i) {
      const trace::BlockId block = answer.blocks[g][i];
      if (block == kNoBlock) continue;
      const auto written = contents_.find(block);
      const bool right = written != contents_.end() &&
                         written->second == content(request, g, i, (i + 1) * setup_.block_size);
      expect(right, BlockRule::HitContent,
             "group " + std::to_string(g) + ": block " + std::to_string(block.value) +
                 " of the hit does not hold tokens " + std::to_string(i * setup_.block_size) +
                 " to " + std::to_string((i + 1) * setup_.block_size - 1));
    }
  }
}

// A block that [first, end) of the request writes has no other holder, and one place. (That blocks
// which are only shared hold what their holders think follows from this and from judge_hit().)
void BlockJudge::judge_holders(const std::string& id, std::uint32_t first, std::uint32_t end) {
  const std::uint32_t size = setup_.block_size;
  std::set<trace::BlockId> written;
  for (std::uint32_t g = 0; g < setup_.groups.size(); ++g) {
    for (std::uint32_t i = first / size; i * size < end; ++i) {
      const trace::BlockId block = live_.at(id).tables[g][i];
      if (!written.insert(block).second) {
        breach(BlockRule::OneOwner, "block " + std::to_string(block.value) + " is written twice");
      }
    }
  }
  for (const auto& [other, request] : live_) {
    for (std::uint32_t g = 0; g < request.tables.size(); ++g) {
      for (std::uint32_t i = 0; i < request.tables[g].size(); ++i) {
        const trace::BlockId block = request.tables[g][i];
        const bool mine = other == id && i >= first / size && i * size < end;
        if (mine || !written.contains(block)) continue;
        breach(BlockRule::OneOwner, "block " + std::to_string(block.value) +
                                        " is written, and is also in place " + std::to_string(i) +
                                        " of " + other + ", group " + std::to_string(g));
        return;
      }
    }
  }
  ++checked_;
}

void BlockJudge::judge_refusal(const BlockAnswer& answer, Request& request, std::uint32_t first,
                               std::uint32_t end) {
  std::size_t needed = 0;
  for (const Table& table : request.tables) {
    needed += setup_.blocks_for(end) - std::min<std::size_t>(setup_.blocks_for(end), table.size());
  }
  expect(
      needed > free_, BlockRule::Refusal,
      std::to_string(needed) + " blocks were wanted and " + std::to_string(free_) + " were free");
  if (answer.blocks.empty()) {
    expect(answer.free == free_, BlockRule::RefusalTrace,
           std::to_string(free_) + " blocks were free before a refusal, " +
               std::to_string(answer.free) + " after it");
    return;
  }
  for (std::uint32_t g = 0; g < setup_.groups.size(); ++g) {
    for (std::uint32_t i = 0; i < request.tables[g].size(); ++i) {
      const trace::BlockId old = request.tables[g][i];
      const trace::BlockId now = i < answer.blocks[g].size() ? answer.blocks[g][i] : old;
      if (now == old || (now == kNoBlock && i < first_needed(g, first))) continue;
      breach(BlockRule::RefusalTrace, "group " + std::to_string(g) + ": block " +
                                          std::to_string(i) + " changed by a refusal");
    }
  }
  ++checked_;
  request.tables = answer.blocks;
}

void BlockJudge::write(const Request& request, std::uint32_t first, std::uint32_t end) {
  const std::uint32_t size = setup_.block_size;
  for (std::uint32_t g = 0; g < setup_.groups.size(); ++g) {
    for (std::uint32_t i = first / size; i * size < end; ++i) {
      contents_[request.tables[g][i]] = content(request, g, i, std::min(end, (i + 1) * size));
    }
  }
}

void BlockJudge::judge_growth(const BlockOperation& operation, const BlockAnswer& answer,
                              Request& request, std::uint32_t first) {
  const auto known = static_cast<std::uint32_t>(request.tokens.size());
  const std::uint32_t end = std::min(known, first + operation.computed);
  const bool named = answer.blocks.size() == setup_.groups.size();
  expect(named || (!answer.ok && answer.blocks.empty()), BlockRule::TableLength,
         std::to_string(answer.blocks.size()) + " tables for " +
             std::to_string(setup_.groups.size()) + " groups");
  if (!breaches_.empty()) return;
  const bool is_new = operation.kind == BlockOperation::Kind::New;
  if (!answer.ok) {
    if (is_new) judge_hit(answer, request);
    if (breaches_.empty()) judge_refusal(answer, request, first, end);
    if (is_new) live_.erase(operation.id);
    return;
  }
  judge_tables(answer, request, first, end);
  if (breaches_.empty() && is_new) judge_hit(answer, request);
  if (!breaches_.empty()) return;
  request.tables = answer.blocks;
  request.computed = end;
  if (first == end) return;
  judge_holders(operation.id, first, end);
  if (breaches_.empty()) write(request, first, end);
}

std::vector<BlockBreach> BlockJudge::judge(const BlockOperation& operation,
                                           const BlockAnswer& answer) {
  breaches_.clear();
  switch (operation.kind) {
    case BlockOperation::Kind::New: {
      LS_CHECK(!live_.contains(operation.id) && !operation.tokens.empty());
      Request& request = live_[operation.id];
      request.tokens = operation.tokens;
      request.tables.resize(setup_.groups.size());
      judge_growth(operation, answer, request, answer.hit_tokens);
      break;
    }
    case BlockOperation::Kind::Step: {
      Request& request = live_.at(operation.id);
      if (operation.append) request.tokens.push_back(*operation.append);
      judge_growth(operation, answer, request, request.computed);
      break;
    }
    case BlockOperation::Kind::Free:
    case BlockOperation::Kind::Preempt:
      LS_CHECK(live_.erase(operation.id) == 1);
      break;
  }
  if (!breaches_.empty()) return breaches_;
  const std::size_t held_count = held();
  expect(held_count <= setup_.num_blocks && answer.free == setup_.num_blocks - held_count,
         BlockRule::FreeCount,
         std::to_string(held_count) + " of " + std::to_string(setup_.num_blocks) +
             " blocks are held, and " + std::to_string(answer.free) + " are said to be free");
  free_ = answer.free;
  return breaches_;
}

}  // namespace lockstep::harness
