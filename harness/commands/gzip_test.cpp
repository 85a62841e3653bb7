// gzip: what others compressed comes out, and what is damaged is an error.
#include "harness/commands/gzip.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace lockstep::harness {
namespace {

std::string file(const std::string& name) {
  std::ifstream stream(LOCKSTEP_GOLDEN_DIR "/" + name, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

constexpr std::uint64_t kMost = 1 << 24;

TEST(Gzip, AllThreeKindsOfBlockComeOut) {
  // "abcabcabcabc" stored, and with the fixed codes (zlib levels 0 and 9).
  const std::string head = "1f8b0800000000000003", tail = "342a6e5a0c000000";
  const auto stored =
      gunzip("s", from_hex(head + "010c00f3ff" + "616263616263616263616263" + tail), kMost);
  ASSERT_TRUE(stored.ok()) << stored.error().message();
  EXPECT_EQ(*stored, "abcabcabcabc");
  const auto fixed = gunzip("f", from_hex(head + "4b4c4a4e842100" + tail), kMost);
  ASSERT_TRUE(fixed.ok()) << fixed.error().message();
  EXPECT_EQ(*fixed, "abcabcabcabc");
  const auto dynamic = gunzip("d", file("vllm_block_traces/full_s1_b24.json.gz"), kMost);
  ASSERT_TRUE(dynamic.ok()) << dynamic.error().message();
  EXPECT_EQ(dynamic->substr(0, 2), "{\"");
}

TEST(Gzip, MembersFollowEachOther) {
  const std::string bytes = file("vllm_block_traces/full_s1_b24.json.gz");
  const auto once = gunzip("a", bytes, kMost), twice = gunzip("b", bytes + bytes, kMost);
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_EQ(*twice, *once + *once);
}

TEST(Gzip, AFileThatIsCutOffOrDamagedIsAnError) {
  const std::string bytes = file("vllm_block_traces/swa_s1_b24.json.gz");
  for (std::size_t size = 1; size < bytes.size(); size += size < 64 ? 1 : 97) {
    EXPECT_FALSE(gunzip("cut", bytes.substr(0, size), kMost).ok()) << size;
  }
  // From the deflate stream on; the header's time and name may say what they like.
  for (std::size_t at = 40; at < bytes.size(); at += 61) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(gunzip("flip", damaged, kMost).ok()) << at;
  }
  EXPECT_FALSE(gunzip("limit", bytes, 1000).ok());
}

}  // namespace
}  // namespace lockstep::harness
