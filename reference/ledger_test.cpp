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

}  // namespace
}  // namespace lockstep::reference
