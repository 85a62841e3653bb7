#include "harness/report/format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::harness {
namespace {

TEST(Format, CountsGetSeparatorsAndFromAMillionOnAUnit) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(12345), "12,345");
  EXPECT_EQ(format_count(66'300'000), "66.3 M");
  EXPECT_EQ(format_count(8'100'000'000), "8.1 G");
}

TEST(Format, RatiosAreShortUpToAThousand) {
  EXPECT_EQ(format_ratio(0.714), "0.71");
  EXPECT_EQ(format_ratio(2.8e6), "2.8e+06");
  EXPECT_EQ(format_ratio({}), "-");
  EXPECT_EQ(format_ratio(HUGE_VAL), "inf");
}

TEST(Format, QuoteEscapesAndCutsByCharacters) {
  EXPECT_EQ(quote("a\n\"b\"\t\x01", 40), "\"a\\n\\\"b\\\"\\t\\x01\"");
  EXPECT_EQ(quote("\xe4\xb8\x96\xe7\x95\x8c!", 2), "\"\xe4\xb8\x96\xe7\x95\x8c...\"");
}

TEST(Format, InvalidUtf8BecomesOneReplacementForEachMaximalPart) {
  EXPECT_EQ(valid_utf8("a\xff"
                       "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(valid_utf8("\xf0\x9f\x98"), "\xef\xbf\xbd");                          // cut off
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
}

}  // namespace
}  // namespace lockstep::harness
