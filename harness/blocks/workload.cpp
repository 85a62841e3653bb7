#include "harness/blocks/workload.h"

#include <algorithm>
#include <iterator>

namespace lockstep::harness {
namespace {

constexpr std::uint32_t kTokens = 50;  // few, so that texts agree here and there

}  // namespace

BlockWorkload::BlockWorkload(std::uint64_t seed) : prng_(seed) {
  const std::uint32_t sizes[] = {1, 2, 4, 4, 16};
  setup_.block_size = sizes[prng_.below(std::size(sizes))];
  setup_.num_blocks = static_cast<std::uint32_t>(8 + prng_.below(33));
  trace::GroupSpec full, window;
  window.type = trace::GroupType::SlidingWindow;
  window.window =
      static_cast<std::uint32_t>(setup_.block_size * (1 + prng_.below(3)) + prng_.below(2));
  const std::uint64_t kind = prng_.below(4);
  if (kind != 2) setup_.groups.push_back(full);
  if (kind >= 2) setup_.groups.push_back(window);
  for (int i = 0; i < 4; ++i) {
    std::vector<trace::TokenId>& prefix = prefixes_.emplace_back();
    const std::uint64_t length = setup_.block_size * (1 + prng_.below(5)) + prng_.below(2);
    for (std::uint64_t j = 0; j < length; ++j) {
      prefix.push_back(static_cast<trace::TokenId>(prng_.below(kTokens)));
    }
  }
}

std::vector<trace::TokenId> BlockWorkload::text() {
  std::vector<trace::TokenId> tokens;
  if (prng_.below(4) > 0) {
    const std::vector<trace::TokenId>& prefix = prefixes_[prng_.below(prefixes_.size())];
    const std::uint64_t length = prng_.below(3) > 0 ? prefix.size() : prng_.below(prefix.size());
    tokens.assign(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(length));
  }
  const std::uint64_t more = 1 + prng_.below(3 * setup_.block_size);
  for (std::uint64_t i = 0; i < more; ++i) {
    tokens.push_back(static_cast<trace::TokenId>(prng_.below(kTokens)));
  }
  return tokens;
}

BlockOperation BlockWorkload::next() {
  BlockOperation operation;
  if (!refused_.empty()) {
    operation.kind = BlockOperation::Kind::Preempt;
    operation.id = refused_;
    return operation;
  }
  const std::uint64_t choice = prng_.below(10);
  if (live_.empty() || choice < 3) {
    operation.id = "r" + std::to_string(next_id_++);
    operation.tokens = text();
    const std::uint64_t all = operation.tokens.size();
    operation.computed =
        static_cast<std::uint32_t>(prng_.below(2) > 0 ? all : 1 + prng_.below(all));
    return operation;
  }
  auto found = live_.begin();
  std::advance(found, prng_.below(live_.size()));
  operation.id = found->first;
  if (choice == 3 || choice == 4) {
    operation.kind = choice == 3 || prng_.below(4) > 0 ? BlockOperation::Kind::Free
                                                       : BlockOperation::Kind::Preempt;
    return operation;
  }
  operation.kind = BlockOperation::Kind::Step;
  const Request& request = found->second;
  const std::uint32_t left = request.known - request.computed;
  if (left == 0) {
    operation.append = static_cast<trace::TokenId>(prng_.below(kTokens));
    operation.computed = 1;
  } else {
    operation.computed = static_cast<std::uint32_t>(1 + prng_.below(left));
  }
  return operation;
}

void BlockWorkload::answered(const BlockOperation& operation, const BlockAnswer& answer) {
  switch (operation.kind) {
    case BlockOperation::Kind::New: {
      if (!answer.ok) break;
      Request& request = live_[operation.id];
      request.known = static_cast<std::uint32_t>(operation.tokens.size());
      request.computed = std::min(request.known, answer.hit_tokens + operation.computed);
      break;
    }
    case BlockOperation::Kind::Step: {
      Request& request = live_.at(operation.id);
      request.known += operation.append.has_value();
      if (answer.ok) {
        request.computed = std::min(request.known, request.computed + operation.computed);
      } else {
        refused_ = operation.id;
      }
      break;
    }
    case BlockOperation::Kind::Free:
    case BlockOperation::Kind::Preempt:
      if (refused_ == operation.id) refused_.clear();
      live_.erase(operation.id);
      break;
  }
}

}  // namespace lockstep::harness
