#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/prng.h"

namespace lockstep::base {
namespace {

TEST(Checked, OverflowIsNothing) {
  EXPECT_EQ(checked_add(1, 2), 3u);
  EXPECT_FALSE(checked_add(~std::uint64_t{0}, 1));
  EXPECT_FALSE(checked_mul(std::uint64_t{1} << 33, std::uint64_t{1} << 33));
  EXPECT_EQ(checked_align_up(33, 32), 64u);
  EXPECT_FALSE(checked_align_up(~std::uint64_t{0}, 32));
  EXPECT_TRUE(range_fits(4, 4, 8));
  EXPECT_FALSE(range_fits(4, 5, 8));
  EXPECT_FALSE(range_fits(9, ~std::uint64_t{0}, 8));
}

TEST(Error, MessageNamesFileOffsetPlaceAndRule) {
  EXPECT_EQ(input_error("a.gguf", 12, "tensor x", "too long").message(),
            "a.gguf: offset 12: tensor x: too long");
  EXPECT_EQ(input_error("a", "b").exit_status(), 2);
  EXPECT_EQ(environment_error("a", "b").exit_status(), 4);
}

TEST(Check, FailsAsExceptionInsideASubjectOnly) {
  {
    const SubjectScope scope;
    EXPECT_THROW(LS_CHECK(1 == 2), CheckFailure);
  }
  EXPECT_EXIT(LS_CHECK(1 == 2, "text"), testing::ExitedWithCode(3), "1 == 2 \\(text\\)");
}

TEST(Prng, SameSeedSameNumbers) {
  Prng a(7), b(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.below(13), b.below(13));
}

}  // namespace
}  // namespace lockstep::base
