#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>

#include "engine/deliver/accept.h"
#include "engine/deliver/router.h"
#include "engine/deliver/text_stream.h"

namespace lockstep::engine {
namespace {

// The same cases in every run; more of them: RC_PARAMS="seed=1 max_success=10000".
[[maybe_unused]] const int kSeeded = ::setenv("RC_PARAMS", "seed=20261129 max_success=300", 0);

using Tokens = std::vector<trace::TokenId>;

trace::RequestSpec capped(std::uint32_t max_tokens) {
  trace::RequestSpec spec;
  spec.max_tokens = max_tokens;
  return spec;
}

TEST(Accept, AStopInsideTheCandidatesComesBeforeTheCap) {
  const Tokens eos{256}, candidates{10, 11, 256, 20, 21, 22};
  const Acceptance stopped = accept(capped(6), eos, 4096, 1, 4, candidates);
  EXPECT_EQ(stopped.emitted, 3u);
  EXPECT_EQ(stopped.reason, "stop");
  const Acceptance cut = accept(capped(3), eos, 4096, 1, 4, candidates);
  EXPECT_EQ(cut.emitted, 2u);
  EXPECT_EQ(cut.reason, "length");
}

TEST(Accept, StopIdsDoNotEndTheFirstMinTokens) {
  trace::RequestSpec spec = capped(9);
  spec.sampling.stop_token_ids = {5};
  spec.sampling.min_tokens = 2;
  const Tokens candidates{5, 5, 5, 5};
  const Acceptance result = accept(spec, {}, 4096, 0, 3, candidates);
  EXPECT_EQ(result.emitted, 3u);
  EXPECT_EQ(result.stop_token, 5u);
}

TEST(Accept, EosEndsWithoutAStopIdUnlessIgnored) {
  trace::RequestSpec spec = capped(9);
  const Tokens eos{256}, candidates{1, 256, 2};
  const Acceptance ended = accept(spec, eos, 4096, 0, 3, candidates);
  EXPECT_EQ(ended.emitted, 2u);
  EXPECT_FALSE(ended.stop_token);
  spec.sampling.ignore_eos = true;
  EXPECT_EQ(accept(spec, eos, 4096, 0, 3, candidates).emitted, 3u);
}

TEST(Accept, TheContextIsACapToo) {
  const Tokens candidates{1, 2, 3, 4};
  const Acceptance result = accept(capped(9), {}, 10, 2, 8, candidates);
  EXPECT_EQ(result.emitted, 2u);
  EXPECT_EQ(result.reason, "length");
}

RC_GTEST_PROP(Accept, TokensInOneBlockEndAsTheyDoOneByOne, (Tokens tokens)) {
  trace::RequestSpec spec = capped(*rc::gen::inRange<std::uint32_t>(1, 6));
  spec.sampling.stop_token_ids = {*rc::gen::inRange<trace::TokenId>(0, 6)};
  spec.sampling.min_tokens = *rc::gen::inRange<std::uint32_t>(0, 3);
  for (trace::TokenId& token : tokens) token %= 6;
  const Tokens eos{0};
  const Acceptance whole = accept(spec, eos, 20, 0, 14, tokens);
  Acceptance last;
  std::uint32_t emitted = 0;
  for (const trace::TokenId token : tokens) {
    last = accept(spec, eos, 20, emitted, 14 + emitted, std::span(&token, 1));
    ++emitted;
    if (last.ends) break;
  }
  RC_ASSERT(whole.emitted == emitted);
  RC_ASSERT(whole.ends == last.ends);
  RC_ASSERT(whole.reason == last.reason);
  RC_ASSERT(whole.stop_token == last.stop_token);
}

TEST(Router, ACompletionCountsOnceAndOnlyInFlight) {
  Router router;
  router.made({0}, {5, {{0, {3}}}, {{1}}});
  router.made({1}, {6, {}, {}});
  EXPECT_EQ(router.in_flight(), 2u);
  EXPECT_EQ(router.oldest(), 5u);
  const auto record = router.complete({0});
  ASSERT_TRUE(record);
  EXPECT_EQ(record->uses.size(), 1u);
  EXPECT_FALSE(router.complete({0}));  // a duplicate
  EXPECT_EQ(router.oldest(), 6u);
  EXPECT_EQ(router.give_up().size(), 1u);
  EXPECT_FALSE(router.complete({1}));  // given up before
  EXPECT_FALSE(router.oldest());
}

std::string decode(const std::string& bytes) {
  TextStream stream;
  std::string text;
  for (const char byte : bytes) text += stream.push(static_cast<unsigned char>(byte));
  return text + stream.finish();
}

TEST(TextStream, WholeCharactersComeWhenTheyAreWhole) {
  TextStream stream;
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xf0), "");
  EXPECT_EQ(stream.push(0x9f), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(300), "");  // no text, and no end of the character
  EXPECT_EQ(stream.push(0x80), "\xf0\x9f\x98\x80");
}

// The replacement for each maximal invalid part (Unicode 15, section 3.9).
TEST(TextStream, EachMaximalInvalidPartIsOneReplacement) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(decode("\xf1\x80\x80"
                   "A"),
            r + "A");
  EXPECT_EQ(decode("\xc0\xaf"), r + r);
  EXPECT_EQ(decode("\xe0\x80\x80"), r + r + r);
  EXPECT_EQ(decode("\xed\xa0\x80"), r + r + r);
  EXPECT_EQ(decode("\xe2\x82"), r);
  EXPECT_EQ(decode("\xf4\x91\x92\x93"), r + r + r + r);
}

RC_GTEST_PROP(TextStream, WhatWasSentIsNeverTakenBack, (std::string bytes)) {
  TextStream stream;
  std::string sent;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sent += stream.push(static_cast<unsigned char>(bytes[i]));
    RC_ASSERT(decode(bytes.substr(0, i + 1)).starts_with(sent));
  }
  sent += stream.finish();
  RC_ASSERT(sent == decode(bytes));
}

}  // namespace
}  // namespace lockstep::engine
