// Block keys: different contents have different keys, however the fields are cut.
#include "engine/cache/block_key.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <tuple>

namespace lockstep::engine {
namespace {

using Tokens = std::vector<trace::TokenId>;

BlockKey key_of(const KeyScope& scope, std::uint32_t group, const std::vector<Tokens>& blocks) {
  BlockKeyChain chain;
  BlockKey key = chain.root(scope, group, 4);
  for (const Tokens& block : blocks) key = chain.next(key, block);
  return key;
}

TEST(BlockKey, AdapterAndSaltOfTheSameTextDiffer) {  // bug X08
  KeyScope adapter, salt, empty_salt;
  adapter.adapter = 83;
  salt.salt = "S";
  empty_salt.salt = "";
  const std::vector<Tokens> blocks = {{1, 2, 3, 4}};
  const std::vector<BlockKey> keys = {key_of({}, 0, blocks), key_of(adapter, 0, blocks),
                                      key_of(salt, 0, blocks), key_of(empty_salt, 0, blocks)};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]) << i << " " << j;
  }
}

TEST(BlockKey, TheSaltIsNotTheTokens) {
  KeyScope salt;
  salt.salt = std::string("\1\0\0\0", 4);
  EXPECT_NE(key_of(salt, 0, {{2}}), key_of({}, 0, {{1, 2}}));
  EXPECT_NE(key_of({}, 0, {{1, 2}, {3}}), key_of({}, 0, {{1}, {2, 3}}));
  EXPECT_NE(key_of({}, 0, {{1}}), key_of({}, 0, {{1}, {}}));
}

TEST(BlockKey, BothHalvesDependOnEverything) {
  KeyScope scope;
  scope.model = 5;
  const BlockKey plain = key_of(scope, 1, {{1, 2, 3, 4}});
  scope.model = 6;
  const std::vector<BlockKey> others = {key_of(scope, 1, {{1, 2, 3, 4}}),
                                        key_of({5, {}, {}}, 2, {{1, 2, 3, 4}}),
                                        key_of({5, {}, {}}, 1, {{1, 2, 3, 0x01000004}})};
  for (const BlockKey& other : others) {
    EXPECT_NE(other.first, plain.first);
    EXPECT_NE(other.second, plain.second);
  }
  EXPECT_NE(plain.first, plain.second);
}

TEST(BlockKey, DependsOnTheWholeKeyOfTheBlockBefore) {
  BlockKeyChain chain;
  const std::vector<trace::TokenId> tokens = {1, 2, 3};
  const BlockKey before{{1, 2}, {3, 4}};
  const BlockKey plain = chain.next(before, tokens);
  for (std::uint64_t base::Hash128::*word : {&base::Hash128::high, &base::Hash128::low}) {
    BlockKey first = before, second = before;
    ++(first.first.*word);
    ++(second.second.*word);
    EXPECT_NE(chain.next(first, tokens), plain);
    EXPECT_NE(chain.next(second, tokens), plain);
  }
}

TEST(BlockKey, IsAFunctionOfItsContentAlone) {
  BlockKeyChain used;
  KeyScope scope;
  scope.salt = "long enough to leave something behind";
  used.next(used.root(scope, 7, 4), Tokens(100, 9));
  BlockKeyChain fresh;
  const BlockKey root = fresh.root({}, 0, 4);
  EXPECT_EQ(used.root({}, 0, 4), root);
  EXPECT_EQ(used.next(root, Tokens{1}), fresh.next(root, Tokens{1}));
  EXPECT_EQ(hex(root).size(), 64u);
}

// Few tokens, short salts: many contents that nearly agree.
RC_GTEST_PROP(BlockKey, EqualKeysMeanEqualContents, ()) {
  const auto any_scope = rc::gen::exec([] {
    KeyScope scope;
    scope.model = *rc::gen::inRange<std::uint64_t>(0, 2);
    if (*rc::gen::arbitrary<bool>()) scope.adapter = *rc::gen::inRange<std::uint64_t>(0, 3);
    if (*rc::gen::arbitrary<bool>()) {
      scope.salt =
          *rc::gen::resize(4, rc::gen::container<std::string>(rc::gen::element('\0', '\1', 'B')));
    }
    return scope;
  });
  using Content = std::tuple<std::uint64_t, std::optional<std::uint64_t>,
                             std::optional<std::string>, std::uint32_t, std::vector<Tokens>>;
  std::map<BlockKey, Content> contents;
  for (int i = 0; i < 20; ++i) {
    const KeyScope scope = *any_scope;
    const auto group = *rc::gen::inRange<std::uint32_t>(0, 2);
    const auto blocks = *rc::gen::resize(
        4, rc::gen::container<std::vector<Tokens>>(
               rc::gen::container<Tokens>(rc::gen::inRange<trace::TokenId>(0, 2))));
    const Content content{scope.model, scope.adapter, scope.salt, group, blocks};
    const auto [place, is_new] = contents.emplace(key_of(scope, group, blocks), content);
    RC_ASSERT(is_new || place->second == content);
  }
}

}  // namespace
}  // namespace lockstep::engine
