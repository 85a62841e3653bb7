#include "engine/cache/block_key.h"

namespace lockstep::engine {

std::string hex(const BlockKey& key) { return key.first.hex() + key.second.hex(); }

void BlockKeyChain::begin(char tag) {
  bytes_.clear();
  bytes_.push_back(std::byte{0});  // which half; finish() sets it
  bytes_.push_back(static_cast<std::byte>(tag));
}

void BlockKeyChain::put(std::uint64_t value, std::size_t byte_count) {
  for (std::size_t i = 0; i < byte_count; ++i) {
    bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

BlockKey BlockKeyChain::finish() {
  BlockKey key;
  bytes_[0] = std::byte{1};
  key.first = base::hash_bytes(bytes_);
  bytes_[0] = std::byte{2};
  key.second = base::hash_bytes(bytes_);
  return key;
}

BlockKey BlockKeyChain::root(const KeyScope& scope, std::uint32_t group, std::uint32_t block_size) {
  begin('R');
  put(scope.model, 8);
  put(group, 4);
  put(block_size, 4);
  put(scope.adapter.has_value(), 1);
  if (scope.adapter) put(*scope.adapter, 8);
  put(scope.salt.has_value(), 1);
  if (scope.salt) {
    put(scope.salt->size(), 8);
    for (const char letter : *scope.salt) bytes_.push_back(static_cast<std::byte>(letter));
  }
  return finish();
}

BlockKey BlockKeyChain::next(const BlockKey& previous, std::span<const trace::TokenId> tokens) {
  begin('B');
  put(previous.first.high, 8);
  put(previous.first.low, 8);
  put(previous.second.high, 8);
  put(previous.second.low, 8);
  put(tokens.size(), 8);
  std::size_t at = bytes_.size();
  bytes_.resize(at + 4 * tokens.size());
  for (const trace::TokenId token : tokens) {
    for (std::size_t i = 0; i < 4; ++i) bytes_[at++] = static_cast<std::byte>(token >> (8 * i));
  }
  return finish();
}

}  // namespace lockstep::engine
