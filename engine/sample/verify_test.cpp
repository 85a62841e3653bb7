// Chain verification by example.
#include "engine/sample/verify.h"

#include <gtest/gtest.h>

#include "engine/sample/philox.h"
#include "engine/sample/sample_case_test.h"

namespace lockstep::engine {
namespace {

using Ids = std::vector<trace::TokenId>;
using Rows = std::vector<std::vector<double>>;

Verified verify(const SampleCase& c, const Rows& rows, const Ids& drafts) {
  const std::vector<std::span<const double>> spans(rows.begin(), rows.end());
  return verify_chain({c.input(), spans, drafts});
}

Ids tokens_of(const Verified& verified) {
  Ids tokens;
  for (const SampledDraw& draw : verified.emitted) tokens.push_back(draw.token);
  return tokens;
}

// Rows whose greedy tokens are these.
Rows preferring(std::uint32_t tokenizer_size, const Ids& tokens) {
  Rows rows(tokens.size(), std::vector<double>(tokenizer_size, 0));
  for (std::size_t i = 0; i < tokens.size(); ++i) rows[i][tokens[i]] = 1;
  return rows;
}

SampleCase greedy_case(std::uint32_t tokenizer_size) {
  SampleCase c;
  c.tokenizer_size = tokenizer_size;
  return c;
}

TEST(Verify, WithoutDraftsGivesOneToken) {
  const Verified got = verify(greedy_case(4), preferring(4, {2}), {});
  EXPECT_EQ(tokens_of(got), Ids{2});
  EXPECT_EQ(got.accepted, 0u);
}

TEST(Verify, AllDraftsRightGiveOneTokenMore) {
  const Verified got = verify(greedy_case(4), preferring(4, {2, 1, 3}), {2, 1});
  EXPECT_EQ(tokens_of(got), (Ids{2, 1, 3}));
  EXPECT_EQ(got.accepted, 2u);
}

TEST(Verify, TheFirstWrongDraftIsCorrectedAndEndsTheChain) {
  // The draft after the wrong one would match again; it does not count.
  const Verified got = verify(greedy_case(4), preferring(4, {2, 1, 3, 0}), {2, 0, 3});
  EXPECT_EQ(tokens_of(got), (Ids{2, 1}));
  EXPECT_EQ(got.accepted, 1u);
}

TEST(Verify, ADraftBeyondTheVocabularyIsWrong) {
  Rows rows = preferring(4, {2, 1});
  for (std::vector<double>& row : rows) row.push_back(32);  // padding
  const Verified got = verify(greedy_case(4), rows, {4});
  EXPECT_EQ(tokens_of(got), Ids{2});
  EXPECT_EQ(got.accepted, 0u);
}

TEST(Verify, GoesOnPastAStopTokenForTheCallerToCut) {
  SampleCase c = greedy_case(4);
  c.eos = {1};
  EXPECT_EQ(tokens_of(verify(c, preferring(4, {2, 1, 3}), {2, 1})), (Ids{2, 1, 3}));
}

TEST(Verify, DrawsAtEachPositionsOwnAddress) {
  SampleCase c = greedy_case(2);
  c.params.temperature = 1;
  c.prompt = {1, 1, 1};
  c.output = {0};
  c.seed = 99;
  Ids drafts;
  for (std::uint64_t position = 4; position < 8; ++position) {
    drafts.push_back(uniform({99, position, trace::DrawPurpose::Sample, 0}) < 0.5 ? 0u : 1u);
  }
  const Verified got = verify(c, Rows(5, {0, 0}), drafts);
  EXPECT_EQ(got.accepted, 4u);
  ASSERT_EQ(got.emitted.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got.emitted[i].draw.address,
              (trace::DrawAddress{99, 4 + i, trace::DrawPurpose::Sample, 0}));
  }
}

// X34: a penalty sees each accepted draft, not only the last.
TEST(Verify, PenaltiesCountEveryAcceptedDraft) {
  SampleCase c = greedy_case(3);
  c.params.frequency_penalty = 1;
  // Tokens by row, penalties counted: [2.5, 2, 0] -> 0; [1.5, 2, 0] -> 1; [1.5, 1, 0] -> 0;
  // [0.5, 1, 0] -> 1; [0.5, 0, 0] -> 0; [-0.5, 0, 0] -> 1.
  const Verified got = verify(c, Rows(6, {2.5, 2, 0}), {0, 1, 0, 1, 0});
  EXPECT_EQ(got.accepted, 5u);
  EXPECT_EQ(tokens_of(got), (Ids{0, 1, 0, 1, 0, 1}));
  // Counting only the last one would draw 0, 1, 0, 1, ... for ever; the next row tells.
  c.output = {0, 1, 0, 1, 0, 1};
  EXPECT_EQ(tokens_of(verify(c, Rows(1, {2.5, 2, 0}), {})), Ids{2});
}

// X34: min_tokens 8 masks EOS for exactly 8 tokens, four to a step.
TEST(Verify, MinTokensCountsEveryAcceptedDraft) {
  SampleCase c = greedy_case(2);
  c.eos = {1};
  c.params.min_tokens = 8;
  const Rows rows(5, {0, 1});  // EOS is preferred in every row
  const Verified first = verify(c, rows, {0, 0, 0, 0});
  EXPECT_EQ(tokens_of(first), (Ids{0, 0, 0, 0, 0}));
  c.output = tokens_of(first);
  const Verified second = verify(c, rows, {0, 0, 0, 0});
  EXPECT_EQ(tokens_of(second), (Ids{0, 0, 0, 1}));
  EXPECT_EQ(second.accepted, 3u);
}

TEST(Verify, LogprobsComeWithEachToken) {
  SampleCase c = greedy_case(4);
  c.params.logprobs = 2;
  const Verified got = verify(c, preferring(4, {2, 1}), {2});
  ASSERT_EQ(got.emitted.size(), 2u);
  for (const SampledDraw& draw : got.emitted) {
    ASSERT_EQ(draw.logprobs.entries.size(), 3u);
    EXPECT_EQ(draw.logprobs.entries[0].first, draw.token);
    EXPECT_EQ(draw.logprobs.entries[1].first, draw.token);
  }
}

}  // namespace
}  // namespace lockstep::engine
