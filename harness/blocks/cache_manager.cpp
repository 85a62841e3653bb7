#include "harness/blocks/cache_manager.h"

#include <algorithm>

namespace lockstep::harness {

std::string describe(const BlockOperation& operation) {
  switch (operation.kind) {
    case BlockOperation::Kind::New:
      return "new " + operation.id;
    case BlockOperation::Kind::Step:
      return "step " + operation.id;
    case BlockOperation::Kind::Free:
      return "free " + operation.id;
    case BlockOperation::Kind::Preempt:
      return "preempt " + operation.id;
  }
  return {};
}

base::Status CacheManager::set_up(const BlockSetup& setup) {
  trace::EngineSettings settings;
  settings.groups = setup.groups;
  for (trace::GroupSpec& group : settings.groups) {
    group.block_size = setup.block_size;
    group.pool = 0;
  }
  settings.pools = {{"blocks", setup.num_blocks}};
  cache_ = std::make_unique<engine::KvCache>(settings, engine::EventSink(), policy_);
  live_.clear();
  next_id_ = 0;
  return base::Ok{};
}

bool CacheManager::grow(Request& request, std::uint32_t end) {
  if (end > request.computed) {
    engine::CacheOps ops;
    if (cache_->reserve(request.id, request.computed, end, {0}, {}, ops) != engine::Growth::Done) {
      return false;
    }
  }
  request.computed = end;
  cache_->commit(request.id, std::span(request.tokens).first(end), end);
  return true;
}

BlockAnswer CacheManager::answer(const Request& request, bool ok) const {
  BlockAnswer result;
  result.ok = ok;
  result.free = cache_->pool(0).available();
  for (std::uint32_t g = 0; g < cache_->group_count(); ++g) {
    const auto table = cache_->table(request.id, g);
    result.blocks.emplace_back(table.begin(), table.end());
  }
  return result;
}

BlockAnswer CacheManager::begin(const BlockOperation& operation) {
  Request request{{next_id_++}, operation.tokens, 0};
  const auto known = static_cast<std::uint32_t>(request.tokens.size());
  cache_->open(request.id, {});
  const std::uint32_t hit = cache_->look_up(request.id, request.tokens, known - 1);
  request.computed = hit;
  BlockAnswer result;
  if (grow(request, hit + std::min(operation.computed, known - hit))) {
    result = answer(request, true);
    live_[operation.id] = std::move(request);
  } else {
    cache_->undo_look_up(request.id);
    cache_->close(request.id);
    result.ok = false;
    result.free = cache_->pool(0).available();
  }
  result.hit_tokens = hit;
  return result;
}

// What the window leaves goes back before more is asked for, as a step's end did.
BlockAnswer CacheManager::step(Request& request, const BlockOperation& operation) {
  if (operation.append) request.tokens.push_back(*operation.append);
  cache_->trim(request.id, request.computed);
  const auto known = static_cast<std::uint32_t>(request.tokens.size());
  const std::uint32_t end = std::min(known, request.computed + operation.computed);
  return answer(request, grow(request, end));
}

base::Result<BlockAnswer> CacheManager::apply(const BlockOperation& operation) {
  const auto found = live_.find(operation.id);
  const bool is_new = operation.kind == BlockOperation::Kind::New;
  if (is_new != (found == live_.end())) {
    return base::input_error({}, describe(operation) + (is_new ? ": is live" : ": is not live"));
  }
  switch (operation.kind) {
    case BlockOperation::Kind::New:
      return begin(operation);
    case BlockOperation::Kind::Step:
      return step(found->second, operation);
    case BlockOperation::Kind::Free:
    case BlockOperation::Kind::Preempt:
      cache_->close(found->second.id);
      live_.erase(found);
      break;
  }
  BlockAnswer result;
  result.free = cache_->pool(0).available();
  return result;
}

}  // namespace lockstep::harness
