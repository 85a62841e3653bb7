// The reference ledger against the exact values of docs/scenario.md and of an independent program.
#include "reference/ledger.h"

#include <gtest/gtest.h>

#include "reference/ledger_sequence.h"

namespace lockstep::reference {
namespace {

using trace::GroupType;
using Tokens = std::vector<trace::TokenId>;

// The plain ledger: all defaults.
const trace::Scenario& plain() {
  static const trace::Scenario scenario;
  return scenario;
}
trace::RequestSpec request(Tokens prompt, std::uint32_t max_tokens) {
  trace::RequestSpec spec;
  spec.prompt = std::move(prompt);
  spec.max_tokens = max_tokens;
  return spec;
}
trace::ScriptEntry scripted(trace::TokenId token) {
  return {trace::ScriptEntry::Kind::Token, token, {}};
}
trace::ScriptEntry scripted(std::vector<std::pair<trace::TokenId, double>> logits) {
  return {trace::ScriptEntry::Kind::Logits, 0, std::move(logits)};
}
Tokens tokens_of(const trace::Scenario& scenario, const trace::RequestSpec& spec) {
  return answer(scenario, spec, {}, 0).tokens;
}

TEST(Ledger, FirstTokensOfThePlainLedger) {
  EXPECT_EQ(tokens_of(plain(), request({1, 2, 3}, 8)),
            (Tokens{60, 123, 17, 241, 255, 97, 196, 181}));
}

TEST(Ledger, ExamplesOfTheContract) {
  // X01
  EXPECT_EQ(tokens_of(plain(), request({1, 2, 3, 4}, 1)), (Tokens{212}));
  EXPECT_EQ(tokens_of(plain(), request({1, 2, 3, 4, 5}, 3)), (Tokens{219, 129, 121}));
  EXPECT_EQ(tokens_of(plain(), request({11, 12, 13, 14, 15, 16, 17, 18, 19}, 3)),
            (Tokens{246, 225, 41}));
  // X17
  EXPECT_EQ(tokens_of(plain(), request({4, 5, 6}, 3)), (Tokens{85, 93, 92}));
  // X24
  trace::RequestSpec a = request({1, 2, 3}, 6);
  for (const trace::TokenId token : Tokens{9, 10, 11, 256, 20, 21, 22}) {
    a.script.push_back(scripted(token));
  }
  const LedgerAnswer stopped = answer(plain(), a, {}, 0);
  EXPECT_EQ(stopped.tokens, (Tokens{9, 10, 11, 256}));
  EXPECT_EQ(stopped.finish_reason, "stop");
  EXPECT_EQ(stopped.stop_token, std::nullopt);
  trace::RequestSpec b = request({1, 2, 3}, 4);
  for (const trace::TokenId token : Tokens{9, 10, 11, 12, 13, 256})
    b.script.push_back(scripted(token));
  const LedgerAnswer capped = answer(plain(), b, {}, 0);
  EXPECT_EQ(capped.tokens, (Tokens{9, 10, 11, 12}));
  EXPECT_EQ(capped.finish_reason, "length");
  // X77
  trace::Scenario hybrid;
  hybrid.engine.groups = {{.name = "full"}, {.name = "state", .type = GroupType::Mamba}};
  EXPECT_EQ(tokens_of(hybrid, request({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 1)), (Tokens{89}));
  EXPECT_EQ(tokens_of(hybrid, request({1, 2, 3, 4, 5, 6, 7, 8, 20}, 3)), (Tokens{226, 223, 74}));
}

// Tokens of a separate program in another language, from docs/scenario.md alone.
TEST(Ledger, GroupsSeedsAndAdaptersAsAnotherProgramHasThem) {
  trace::Scenario scenario;
  scenario.ledger.seed = 5;
  EXPECT_EQ(tokens_of(scenario, request({1, 2, 3}, 8)),
            (Tokens{118, 17, 125, 148, 135, 236, 26, 239}));

  scenario.ledger.seed = 0;
  scenario.adapters = {{.key = "a", .name = "a", .id = 1, .weights = 7},
                       {.key = "b", .name = "b", .id = 2, .weights = 3}};
  trace::RequestSpec adapted = request({1, 2, 3}, 8);
  adapted.adapter = 0;
  EXPECT_EQ(tokens_of(scenario, adapted), (Tokens{39, 211, 249, 160, 61, 211, 218, 24}));

  scenario.ledger.seed = 9;
  Tokens prompt;
  for (trace::TokenId token = 0; token < 20; ++token) prompt.push_back(token);
  const trace::GroupSpec full;
  const auto window = [](std::uint32_t size) {
    return trace::GroupSpec{.name = "w", .type = GroupType::SlidingWindow, .window = size};
  };
  const auto mamba = [](std::uint32_t width) {
    return trace::GroupSpec{.name = "m", .type = GroupType::Mamba, .conv_width = width};
  };
  adapted = request(prompt, 8);
  adapted.adapter = 1;
  scenario.engine.groups = {full, window(5), mamba(4)};
  EXPECT_EQ(tokens_of(scenario, adapted), (Tokens{163, 202, 42, 208, 130, 156, 54, 49}));
  scenario.engine.groups = {window(1), mamba(1)};
  EXPECT_EQ(tokens_of(scenario, request(prompt, 8)),
            (Tokens{75, 245, 177, 174, 246, 172, 223, 188}));
  scenario.engine.groups = {mamba(6), window(3), window(8)};
  EXPECT_EQ(tokens_of(scenario, request(prompt, 8)),
            (Tokens{243, 200, 81, 56, 203, 114, 198, 238}));

  trace::Scenario large;
  large.ledger.tokenizer_size = 1000;
  large.ledger.vocab_size = 1024;
  large.ledger.eos_token_ids = {256, 7};
  EXPECT_EQ(tokens_of(large, request({1, 2, 3}, 8)),
            (Tokens{60, 702, 958, 287, 988, 271, 716, 450}));
}

// Rule 1 of docs/scenario.md, as far as it can be seen from here; padding columns are 32 higher.
TEST(Ledger, PaddingAndEngineFieldsChangeNothing) {
  trace::RequestSpec spec = request({1, 2, 3}, 30);
  spec.sampling.temperature = 1;
  spec.sampling.logprobs = 3;
  const LedgerAnswer want = answer(plain(), spec, {}, 11);
  trace::Scenario other;
  other.seed = 99;
  other.ledger.vocab_size = 4096;
  other.engine.groups[0].block_size = 3;
  other.engine.max_num_batched_tokens = 5;
  other.engine.async_depth = 3;
  const LedgerAnswer got = answer(other, spec, {}, 11);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.logprobs, want.logprobs);
}

trace::RequestSpec scripted_request(const Tokens& script, std::uint32_t max_tokens) {
  trace::RequestSpec spec = request({1, 2, 3}, max_tokens);
  for (const trace::TokenId token : script) spec.script.push_back(scripted(token));
  return spec;
}

TEST(Ledger, StopIdsEndAndAreNamedEosEndsAndIsNot) {
  trace::RequestSpec spec = scripted_request({9, 10, 256, 11}, 8);
  spec.sampling.stop_token_ids = {10, 256};
  LedgerAnswer got = answer(plain(), spec, {}, 0);
  EXPECT_EQ(got.tokens, (Tokens{9, 10}));
  EXPECT_EQ(got.finish_reason, "stop");
  EXPECT_EQ(got.stop_token, 10u);
  spec.sampling.stop_token_ids = {256};
  got = answer(plain(), spec, {}, 0);
  EXPECT_EQ(got.tokens, (Tokens{9, 10, 256}));
  EXPECT_EQ(got.stop_token, std::nullopt);
  spec.sampling.ignore_eos = true;
  got = answer(plain(), spec, {}, 0);
  EXPECT_EQ(got.tokens, (Tokens{9, 10, 256}));
  EXPECT_EQ(got.stop_token, 256u);
  spec.sampling.stop_token_ids = {};
  got = answer(plain(), spec, {}, 0);
  EXPECT_EQ(got.tokens.size(), 8u);
  EXPECT_EQ(got.finish_reason, "length");
}

// Whether the integer scan or the doubles find the token: logprobs asks for the latter.
TEST(Ledger, MinTokensMasksStopsAndTheNextLikeliestIsTaken) {
  for (const bool doubles : {false, true}) {
    trace::RequestSpec spec = scripted_request({256, 256, 256}, 8);
    spec.script[1] = {};
    if (doubles) spec.sampling.logprobs = 0;
    EXPECT_EQ(tokens_of(plain(), spec), (Tokens{256}));
    spec.sampling.min_tokens = 2;
    EXPECT_EQ(tokens_of(plain(), spec), (Tokens{60, 123, 256}));
    spec.sampling.stop_token_ids = {123};  // masked where it would be the largest
    const Tokens got = tokens_of(plain(), spec);
    ASSERT_EQ(got.size(), 3u);
    EXPECT_NE(got[1], 123u);
    spec.sampling.stop_token_ids = {60};
    EXPECT_NE(tokens_of(plain(), spec)[0], 60u);
    spec.sampling.min_tokens = 0;
    spec.script[0] = {};
    EXPECT_EQ(tokens_of(plain(), spec), (Tokens{60}));
  }
}

TEST(Ledger, MaxModelLenCaps) {
  trace::Scenario scenario;
  scenario.engine.max_model_len = 5;
  const LedgerAnswer got = answer(scenario, request({1, 2, 3}, 8), {}, 0);
  EXPECT_EQ(got.tokens, (Tokens{60, 123}));
  EXPECT_EQ(got.finish_reason, "length");
}

TEST(Ledger, ScriptedLogitsMaskAllOthers) {
  trace::RequestSpec spec = request({1, 2, 3}, 3);
  spec.script = {scripted({{5, -3.0}, {9, -3.0}, {40, -4.0}}), scripted({{7, 0.25}, {256, 0.5}})};
  spec.sampling.logprobs = 5;
  const LedgerAnswer got = answer(plain(), spec, {}, 0);
  EXPECT_EQ(got.tokens, (Tokens{5, 256}));
  ASSERT_EQ(got.logprobs.size(), 2u);
  EXPECT_EQ(got.logprobs[0].entries.size(), 4u);
  EXPECT_EQ(got.logprobs[1].entries.size(), 3u);
  EXPECT_EQ(got.text, "\x05");
}

TEST(Ledger, OnlyTheSeedOfARequestChangesItsDraws) {
  trace::RequestSpec spec = request({1, 2, 3}, 40);
  spec.sampling.temperature = 1.5;
  const LedgerAnswer first = answer(plain(), spec, {}, 1);
  const LedgerAnswer second = answer(plain(), spec, {}, 2);
  EXPECT_NE(first.tokens, second.tokens);
  ASSERT_EQ(first.draws.size(), first.tokens.size());
  for (std::size_t i = 0; i < first.draws.size(); ++i) {
    EXPECT_EQ(first.draws[i].address,
              (trace::DrawAddress{1, 3 + i, trace::DrawPurpose::Sample, 0}));
  }
}

// A fork's child, or the output given as prompt: the same rest, where nothing of the sampling is
// by output (presence, frequency, min_tokens, stops).
TEST(Ledger, ContinuingItsOwnOutputGivesTheSameTokens) {
  trace::RequestSpec spec = request({1, 2, 3}, 24);
  spec.sampling.temperature = 0.8;
  spec.sampling.top_k = 40;
  spec.sampling.top_p = 0.95;
  spec.sampling.repetition_penalty = 1.3;
  spec.sampling.ignore_eos = true;
  spec.sampling.logprobs = 1;
  const LedgerAnswer whole = answer(plain(), spec, {}, 77);
  for (std::uint32_t given = 0; given <= 24; ++given) {
    const Tokens output(whole.tokens.begin(), whole.tokens.begin() + given);
    const LedgerAnswer child = answer(plain(), spec, output, 77);
    EXPECT_EQ(child.tokens, whole.tokens) << given;
    EXPECT_EQ(child.text, whole.text);
    EXPECT_EQ(child.finish_reason, "length");
    EXPECT_EQ(child.logprobs.size(), 24u - given);
    if (given == 24) break;
    trace::RequestSpec continued = spec;
    continued.prompt.insert(continued.prompt.end(), output.begin(), output.end());
    continued.max_tokens = 24 - given;
    const LedgerAnswer rest = answer(plain(), continued, {}, 77);
    EXPECT_EQ(rest.tokens, Tokens(whole.tokens.begin() + given, whole.tokens.end())) << given;
    EXPECT_EQ(rest.logprobs, child.logprobs);
  }
}

TEST(Ledger, InheritedTokensCountForOutputRules) {
  trace::RequestSpec spec = scripted_request({9, 256, 256}, 8);
  spec.sampling.min_tokens = 2;
  spec.sampling.presence_penalty = 2;
  spec.sampling.frequency_penalty = 0.5;
  const LedgerAnswer whole = answer(plain(), spec, {}, 0);
  EXPECT_EQ(whole.tokens.size(), 3u);
  EXPECT_EQ(answer(plain(), spec, {whole.tokens[0]}, 0).tokens, whole.tokens);
  EXPECT_EQ(answer(plain(), spec, {whole.tokens[0], whole.tokens[1]}, 0).tokens, whole.tokens);
}

TEST(Ledger, GreedyContinuationIsGreedyAndDoesNotEnd) {
  trace::RequestSpec spec = scripted_request({9, 256, 10}, 2);
  spec.sampling.temperature = 2;
  spec.sampling.seed = 5;
  const Tokens got = greedy_continuation(plain(), spec, 6);
  ASSERT_EQ(got.size(), 6u);
  EXPECT_EQ(Tokens(got.begin(), got.begin() + 3), (Tokens{9, 256, 10}));
  EXPECT_EQ(greedy_continuation(plain(), request({1, 2, 3}, 1), 8),
            (Tokens{60, 123, 17, 241, 255, 97, 196, 181}));
  EXPECT_EQ(greedy_continuation(plain(), request({1, 2, 3}, 1), 0), Tokens{});
  for (std::uint32_t given = 0; given <= 6; ++given) {
    const Tokens inherited(got.begin(), got.begin() + given);
    EXPECT_EQ(greedy_continuation(plain(), spec, inherited, 6), got);
  }
  // With its sampling rules: what was said before is penalized.
  spec = request({1, 2, 3}, 1);
  spec.sampling.logit_bias = {{60, -100.0}, {200, 100.0}};
  EXPECT_EQ(greedy_continuation(plain(), spec, 2), (Tokens{200, 200}));
  spec.sampling.presence_penalty = 1000;
  EXPECT_NE(greedy_continuation(plain(), spec, 2)[1], 200u);
}

}  // namespace
}  // namespace lockstep::reference
