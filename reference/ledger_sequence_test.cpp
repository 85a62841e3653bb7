// Running sums against the sums of docs/scenario.md, written out.
#include "reference/ledger_sequence.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "reference/ledger_mix.h"

namespace lockstep::reference {
namespace {

using trace::GroupSpec;
using trace::GroupType;

using Word = std::uint64_t;

// Every sum anew at each position, from all cells.
struct Literal {
  Word seed = 0, weights = 0;
  std::vector<GroupSpec> groups;
  std::vector<trace::TokenId> tokens;
  std::vector<std::vector<Word>> cells;  // group, position

  Word read(std::size_t g, std::size_t p) const {
    const std::vector<Word>& c = cells[g];
    Word sum = 0;
    switch (groups[g].type) {
      case GroupType::FullAttention:
        for (std::size_t q = 0; q < p; ++q) sum += c[q];
        break;
      case GroupType::SlidingWindow:
        for (std::size_t q = 0; q < p; ++q) {
          if (p - q < groups[g].window) sum += c[q];
        }
        break;
      case GroupType::Mamba:
        for (std::size_t q = 0; q < p; ++q) sum = mix(Word{5}, sum, c[q]);
        for (std::size_t d = 1; d < groups[g].conv_width && d <= p; ++d) {
          sum += mix(Word{6}, Word{d}, c[p - d]);
        }
        break;
    }
    return sum;
  }

  Word feed(trace::TokenId token) {
    const std::size_t p = tokens.size();
    tokens.push_back(token);
    cells.resize(groups.size());
    Word row = mix(Word{3}, mix(Word{1}, seed, weights, Word{token}, Word{p}, Word{0}));
    for (std::size_t g = 0; g < groups.size(); ++g) row = absorb(row, read(g, p));
    for (std::size_t g = 0; g < groups.size(); ++g) cells[g].push_back(mix(Word{4}, Word{g}, row));
    return row;
  }
};

TEST(LedgerSequence, RunningSumsAreTheSumsOfTheDefinition) {
  base::Prng prng(17);
  for (int run = 0; run < 60; ++run) {
    std::vector<GroupSpec> groups(1 + prng.below(4));
    for (GroupSpec& group : groups) {
      group.type = static_cast<GroupType>(prng.below(3));
      group.window = static_cast<std::uint32_t>(1 + prng.below(9));
      group.conv_width = static_cast<std::uint32_t>(1 + prng.below(6));
    }
    Literal literal{.seed = prng.next(),
                    .weights = prng.below(2) * prng.next(),
                    .groups = groups,
                    .tokens = {},
                    .cells = {}};
    LedgerSequence sequence(literal.seed, literal.weights, groups);
    for (int i = 0; i < 40; ++i) {
      const auto token = static_cast<trace::TokenId>(prng.below(257));
      ASSERT_EQ(sequence.feed(token), literal.feed(token)) << "run " << run << ", position " << i;
    }
    ASSERT_EQ(sequence.position(), 40u);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t p = 0; p < 40; ++p) EXPECT_EQ(sequence.cell(g, p), literal.cells[g][p]);
    }
  }
}

TEST(LedgerSequence, StateOfAMambaGroupIsItsFold) {
  LedgerSequence sequence(3, 0, {{.name = "state", .type = GroupType::Mamba}});
  EXPECT_EQ(sequence.state(0), 0u);
  Word state = 0;
  for (const trace::TokenId token : std::vector<trace::TokenId>{4, 5, 6, 7, 8}) {
    sequence.feed(token);
    state = mix(Word{5}, state, sequence.cell(0, sequence.position() - 1));
    EXPECT_EQ(sequence.state(0), state);
  }
}

}  // namespace
}  // namespace lockstep::reference
