// What is said of addresses inside, beside and after allocations.
#include "device/vgpu/check/memcheck.h"

#include <gtest/gtest.h>

namespace lockstep::device::vgpu::check {
namespace {

TEST(AllocationTable, FindsTheAllocationThatHoldsAWholeRange) {
  AllocationTable table;
  table.add(0x1000, 64, "a");
  table.add(0x1100, 16, "b");
  EXPECT_EQ(table.find(0x1000, 64)->label, "a");
  EXPECT_EQ(table.find(0x103f, 1)->label, "a");
  EXPECT_EQ(table.find(0x1104, 12)->label, "b");
  EXPECT_EQ(table.find(0x0fff, 1), nullptr);
  EXPECT_EQ(table.find(0x103f, 2), nullptr);
  EXPECT_EQ(table.find(0x1040, 1), nullptr);
  EXPECT_EQ(table.find(0x1000, ~u64{0}), nullptr);
  table.remove(0x1000);
  EXPECT_EQ(table.find(0x1000, 1), nullptr);
}

TEST(AllocationTable, DescribesWhatAnAccessMisses) {
  AllocationTable table;
  EXPECT_EQ(table.describe(0x1000, 4), "in no allocation");
  table.add(0x1000, 64, "a");
  table.add(0x1100, 16, "b");
  EXPECT_EQ(table.describe(0x1008, 4), "at offset 8 of \"a\" of 64 bytes");
  EXPECT_EQ(table.describe(0x103e, 4), "reaches 2 bytes past the end of \"a\" of 64 bytes");
  EXPECT_EQ(table.describe(0x1040, 4), "0 bytes after \"a\" of 64 bytes");
  EXPECT_EQ(table.describe(0x1041, 4), "1 byte after \"a\" of 64 bytes");
  EXPECT_EQ(table.describe(0x10f8, 4), "8 bytes before \"b\" of 16 bytes");
  EXPECT_EQ(table.describe(0x0ffc, 4), "4 bytes before \"a\" of 64 bytes");
  EXPECT_EQ(table.describe(0x90000000, 4), "in no allocation");
}

TEST(AllocationTable, AFreedAllocationIsNamedUntilItsBytesAreUsedAgain) {
  AllocationTable table;
  table.add(0x1000, 64, "a");
  table.remove(0x1000);
  EXPECT_EQ(table.describe(0x1020, 4), "in \"a\" of 64 bytes, which was freed");
  table.add(0x1000, 16, "b");
  EXPECT_EQ(table.describe(0x1004, 4), "at offset 4 of \"b\" of 16 bytes");
  EXPECT_EQ(table.describe(0x1020, 4), "16 bytes after \"b\" of 16 bytes");
}

TEST(AllocationTable, WritesHexadecimal) {
  EXPECT_EQ(hexadecimal(0), "0x0");
  EXPECT_EQ(hexadecimal(0x10f), "0x10f");
  EXPECT_EQ(hexadecimal(~u64{0}), "0xffffffffffffffff");
}

}  // namespace
}  // namespace lockstep::device::vgpu::check
