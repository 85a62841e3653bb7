// What the cache of parsed modules and lowered programs promises.
#include "device/vgpu/exec/module_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace lockstep::device::vgpu::exec {
namespace {

std::string module_text(int number) {
  return ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry one()\n{\n"
         "  .reg .b32 %r<2>;\n  mov.u32 %r1, " +
         std::to_string(number) + ";\n  ret;\n}\n";
}

TEST(ModuleCache, TheSameTextIsParsedOnce) {
  ModuleCache cache(4);
  const auto first = cache.find(module_text(1), "a.ptx").value();
  EXPECT_EQ(cache.find(module_text(1), "a.ptx").value(), first);
  EXPECT_NE(cache.find(module_text(1), "b.ptx").value(), first);  // messages name it
  EXPECT_NE(cache.find(module_text(2), "a.ptx").value(), first);
}

TEST(ModuleCache, AProgramIsLoweredOnceForEachChoiceOfOptions) {
  ModuleCache cache(4);
  const auto module = cache.find(module_text(1), "a.ptx").value();
  const ptx::Function& entry = module->parsed().functions.at("one");
  LowerOptions options;
  const auto program = module->program(entry, options).value();
  EXPECT_EQ(module->program(entry, options).value(), program);
  options.checked = true;
  EXPECT_NE(module->program(entry, options).value(), program);
  options = {};
  options.approximation = ApproximationMode::High;
  EXPECT_NE(module->program(entry, options).value(), program);
  options = {};
  options.sm = 90;
  EXPECT_NE(module->program(entry, options).value(), program);
}

TEST(ModuleCache, TheOldestLeavesAndWhoHoldsItKeepsIt) {
  ModuleCache cache(2);
  const auto first = cache.find(module_text(1), "a.ptx").value();
  const auto second = cache.find(module_text(2), "a.ptx").value();
  ASSERT_TRUE(cache.find(module_text(3), "a.ptx").ok());
  EXPECT_EQ(cache.find(module_text(2), "a.ptx").value(), second);
  EXPECT_NE(cache.find(module_text(1), "a.ptx").value(), first);
  EXPECT_EQ(first->parsed().functions.count("one"), 1u);
}

TEST(ModuleCache, AnErrorIsGivenEachTime) {
  ModuleCache cache(2);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(cache.find("no module", "a.ptx").ok());
}

TEST(ModuleCache, ThreadsShareWhatTheyLoadTogether) {
  ModuleCache cache(8);
  std::array<std::vector<const Program*>, 4> programs;
  std::vector<std::thread> threads;
  for (auto& mine : programs) {
    threads.emplace_back([&cache, &mine] {
      for (int number = 0; number < 8; ++number) {
        const auto module = cache.find(module_text(number), "a.ptx").value();
        mine.push_back(module->program(module->parsed().functions.at("one"), {}).value().get());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : programs) EXPECT_EQ(mine, programs[0]);
}

}  // namespace
}  // namespace lockstep::device::vgpu::exec
