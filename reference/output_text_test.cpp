// UTF-8 decoding against Python's bytes.decode("utf-8", errors="replace").
#include "reference/output_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace lockstep::reference {
namespace {

struct Case {
  std::string_view bytes, text;
};

template <std::size_t kSize>
constexpr std::string_view bytes(const char (&text)[kSize]) {
  return {text, kSize - 1};
}

TEST(OutputText, EachMaximalInvalidPartIsOneReplacement) {
  const Case cases[] = {
      {bytes("\x70\x6c\x61\x69\x6e"), bytes("\x70\x6c\x61\x69\x6e")},
      {bytes("\x80"), bytes("\xef\xbf\xbd")},
      {bytes("\xc3\xa9"), bytes("\xc3\xa9")},
      {bytes("\xc3"), bytes("\xef\xbf\xbd")},
      {bytes("\xc3\x28"), bytes("\xef\xbf\xbd\x28")},
      {bytes("\xe2\x82\xac"), bytes("\xe2\x82\xac")},
      {bytes("\xe2\x82"), bytes("\xef\xbf\xbd")},
      {bytes("\xe2\x82\x41"), bytes("\xef\xbf\xbd\x41")},
      {bytes("\xe2\x28\xa1"), bytes("\xef\xbf\xbd\x28\xef\xbf\xbd")},
      {bytes("\xf0\x9f\x98\x80"), bytes("\xf0\x9f\x98\x80")},
      {bytes("\xf0\x9f\x98"), bytes("\xef\xbf\xbd")},
      {bytes("\xf0\x9f\x98\xf0\x9f\x98\x80"), bytes("\xef\xbf\xbd\xf0\x9f\x98\x80")},
      {bytes("\xf0\x80\x80\x80"), bytes("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
      {bytes("\xe0\x9f\xbf"), bytes("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
      {bytes("\xe0\xa0\x80"), bytes("\xe0\xa0\x80")},
      {bytes("\xed\xa0\x80"), bytes("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
      {bytes("\xed\x9f\xbf"), bytes("\xed\x9f\xbf")},
      {bytes("\xf4\x8f\xbf\xbf"), bytes("\xf4\x8f\xbf\xbf")},
      {bytes("\xf4\x90\x80\x80"), bytes("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
      {bytes("\xc0\xaf"), bytes("\xef\xbf\xbd\xef\xbf\xbd")},
      {bytes("\xfe\xff"), bytes("\xef\xbf\xbd\xef\xbf\xbd")},
      {bytes("\xf5\x80"), bytes("\xef\xbf\xbd\xef\xbf\xbd")},
      {bytes("\xf1\x80\x80\x41\xf1\x80\x41\xc2"),
       bytes("\xef\xbf\xbd\x41\xef\xbf\xbd\x41\xef\xbf\xbd")},
      {bytes("\xf8\x88\x80\x80\x80"),
       bytes("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
      {bytes("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
       bytes("\x61\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x62\xef\xbf\xbd\x63\xef\xbf\xbd\xef\xbf\xbd"
             "\x64")},
      {bytes("\x00\xc2\x80\x7f"), bytes("\x00\xc2\x80\x7f")},
  };
  for (const Case& c : cases) EXPECT_EQ(decode_utf8(c.bytes), c.text);
}

// All sequences of 1 to 4 bytes at the borders of table 3-7, by length, then in lexical order: one
// FNV-1a hash of the texts that Python gives, each followed by a line feed.
TEST(OutputText, BorderSequencesDecodeAsInPython) {
  const unsigned char kBorders[] = {0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                    0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                    0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
  std::uint64_t hash = 0xcbf29ce484222325u;
  std::uint64_t count = 0;
  for (std::size_t length = 1; length <= 4; ++length) {
    std::vector<std::size_t> digits(length, 0);
    while (true) {
      std::string sequence;
      for (const std::size_t digit : digits) {
        sequence.push_back(static_cast<char>(kBorders[digit]));
      }
      for (const char c : decode_utf8(sequence) + "\n") {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
      }
      ++count;
      std::size_t place = length;
      while (place > 0 && ++digits[place - 1] == std::size(kBorders)) digits[--place] = 0;
      if (place == 0) break;
    }
  }
  EXPECT_EQ(count, 292560u);
  EXPECT_EQ(hash, 0x6f0c7ed54c4d5dadu);
}

TEST(OutputText, OnlyIdsBelow256HaveText) {
  const std::vector<trace::TokenId> tokens = {'a', 256, 0xc3, 300, 0xa9, 0xe2, 1000, 'b'};
  EXPECT_EQ(output_text(tokens),
            "a\xc3\xa9\xef\xbf\xbd"
            "b");
  EXPECT_EQ(output_text({}), "");
}

}  // namespace
}  // namespace lockstep::reference
