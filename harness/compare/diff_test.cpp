// first_difference: exact, and it names the first place.
#include "harness/compare/diff.h"

#include <gtest/gtest.h>

namespace lockstep::harness {
namespace {

using trace::Event;
using trace::RequestId;

std::vector<Event> stream() {
  return {trace::LifeAborted{RequestId{0}, 3}, trace::RequestTouched{RequestId{1}, "flip"},
          trace::RunEnded{9, {RequestId{1}}}};
}

TEST(Diff, EqualStreamsHaveNone) { EXPECT_FALSE(first_difference(stream(), stream())); }

TEST(Diff, NamesTheFirstEventBothSidesAndTheTick) {
  std::vector<Event> other = stream();
  other[1] = trace::RequestTouched{RequestId{1}, "fail"};
  other[2] = trace::RunEnded{8, {}};
  const auto difference = first_difference(stream(), other);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->index, 1u);
  EXPECT_EQ(difference->tick, 3u);
  EXPECT_EQ(difference->first, R"(["request_touched",1,"flip"])");
  EXPECT_EQ(difference->second, R"(["request_touched",1,"fail"])");
  EXPECT_EQ(parting(difference->first, difference->second), 23u);
}

TEST(Diff, AStreamThatEndsEarlyDiffersThere) {
  std::vector<Event> shorter = stream();
  shorter.pop_back();
  const auto difference = first_difference(stream(), shorter);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->index, 2u);
  EXPECT_EQ(difference->second, "");
  EXPECT_EQ(shown_around(difference->second, 0, 40), "(the stream has ended)");
}

TEST(Diff, LongEventsAreCutAroundWhereTheyPart) {
  const std::string a = std::string(200, 'x') + "here" + std::string(200, 'y');
  const std::string b = std::string(200, 'x') + "HERE" + std::string(200, 'y');
  const std::string shown = shown_around(a, parting(a, b), 60);
  EXPECT_EQ(shown.size(), 60u);
  EXPECT_NE(shown.find("here"), std::string::npos);
  EXPECT_TRUE(shown.starts_with("...") && shown.ends_with("..."));
}

}  // namespace
}  // namespace lockstep::harness
