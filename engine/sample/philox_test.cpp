// Philox against Random123's known answers, and the uniform's packing.
#include "engine/sample/philox.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::engine {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, GivesRandom123sKnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, PacksSeedPositionPurposeAndCandidateAsDefined) {
  EXPECT_EQ(uniform({0, 0, trace::DrawPurpose::Sample, 0}),
            static_cast<double>(0x6627e8d5e169c58dULL >> 11) * 0x1p-53);
  const std::uint64_t seed = 0x0123456789abcdefULL;
  const std::uint64_t position = 0xfedcba9876543210ULL;
  const Words words = philox4x32_10({0x76543210, 0xfedcba98, 4, 7}, {0x89abcdef, 0x01234567});
  const std::uint64_t joined = std::uint64_t{words[0]} << 32 | words[1];
  EXPECT_EQ(uniform({seed, position, trace::DrawPurpose::Draft, 7}),
            static_cast<double>(joined >> 11) * 0x1p-53);
}

TEST(Uniform, IsBelowOneAndChangesWithEachPartOfTheAddress) {
  const trace::DrawAddress address{5, 9, trace::DrawPurpose::Sample, 0};
  const double u = uniform(address);
  EXPECT_GE(u, 0);
  EXPECT_LT(u, 1);
  EXPECT_EQ(u, uniform(address));
  EXPECT_NE(u, uniform({6, 9, trace::DrawPurpose::Sample, 0}));
  EXPECT_NE(u, uniform({5 + (std::uint64_t{1} << 32), 9, trace::DrawPurpose::Sample, 0}));
  EXPECT_NE(u, uniform({5, 10, trace::DrawPurpose::Sample, 0}));
  EXPECT_NE(u, uniform({5, 9 + (std::uint64_t{1} << 32), trace::DrawPurpose::Sample, 0}));
  EXPECT_NE(u, uniform({5, 9, trace::DrawPurpose::Bonus, 0}));
  EXPECT_NE(u, uniform({5, 9, trace::DrawPurpose::Sample, 1}));
}

}  // namespace
}  // namespace lockstep::engine
