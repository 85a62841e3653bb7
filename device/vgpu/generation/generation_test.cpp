// The generations' tables: which instructions exist, and what they say of themselves.
#include "device/vgpu/generation/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace lockstep::device::vgpu::generation {
namespace {

using numeric::MmaForm;
using numeric::MmaFormat;
using numeric::MmaScheme;

TEST(Generation, each_is_found_by_number_and_by_name) {
  std::uint32_t before = 0;
  for (const GenerationSpec* generation : all()) {
    EXPECT_GT(generation->sm, before);
    before = generation->sm;
    EXPECT_EQ(find(generation->sm), generation);
    EXPECT_EQ(find("sm_" + std::to_string(generation->sm)), generation);
    EXPECT_EQ(find(generation->name), generation);
  }
  EXPECT_EQ(all().size(), 6u);
  EXPECT_EQ(find(61), nullptr);
  EXPECT_EQ(find("sm_61"), nullptr);
}

TEST(Generation, limits_are_consistent) {
  for (const GenerationSpec* generation : all()) {
    const Limits& limits = generation->limits;
    EXPECT_EQ(limits.shared_bytes_per_block, 48u * 1024);
    EXPECT_GE(limits.shared_bytes_per_block_optin, limits.shared_bytes_per_block);
    EXPECT_EQ(limits.shared_bytes_per_block_optin + limits.shared_bytes_reserved_per_block,
              limits.shared_bytes_per_multiprocessor);
    EXPECT_EQ(limits.threads_per_multiprocessor % 32, 0u);
    EXPECT_LE(limits.threads_per_block, limits.threads_per_multiprocessor);
    EXPECT_GT(limits.multiprocessor_count, 0u);
    EXPECT_GT(limits.memory_bytes, 0u);
  }
}

TEST(Generation, no_instruction_has_two_rows) {
  for (const GenerationSpec* generation : all()) {
    std::vector<std::tuple<MmaUnit, MmaKind, MmaAccumulator>> seen;
    for (const MmaRule& rule : generation->mma) {
      const auto key = std::tuple(rule.unit, rule.kind, rule.accumulator);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), key), 0) << generation->name;
      seen.push_back(key);
    }
  }
}

bool exists(const GenerationSpec& generation, const MmaQuery& query) {
  return mma_form(generation, query).ok();
}

TEST(Generation, instructions_exist_where_ptxas_accepts_them) {
  const MmaQuery f16{.k = 16};
  const MmaQuery bf16{.a = MmaFormat::BF16, .b = MmaFormat::BF16, .k = 16};
  const MmaQuery tf32{.a = MmaFormat::TF32, .b = MmaFormat::TF32, .k = 8};
  const MmaQuery fp8{.a = MmaFormat::E4M3, .b = MmaFormat::E5M2, .k = 32};
  const MmaQuery fp8_kind{.a = MmaFormat::E4M3, .b = MmaFormat::E4M3, .k = 32, .kind_f8f6f4 = true};
  const MmaQuery fp6{.a = MmaFormat::E3M2, .b = MmaFormat::E2M1, .k = 32, .kind_f8f6f4 = true};
  const MmaQuery fp4{.a = MmaFormat::E2M1, .b = MmaFormat::E2M1, .k = 64, .scaled = true};
  const MmaQuery nvf4_ue8m0{
      .a = MmaFormat::E2M1, .b = MmaFormat::E2M1, .k = 64, .scaled = true, .scale_block = 16};
  const MmaQuery nvf4{.a = MmaFormat::E2M1,
                      .b = MmaFormat::E2M1,
                      .k = 64,
                      .scaled = true,
                      .scale = MmaFormat::UE4M3,
                      .scale_block = 16};
  const MmaQuery int8{.a = MmaFormat::S8, .b = MmaFormat::U8, .c = MmaFormat::S32, .k = 32};
  const MmaQuery m8n8k4{.unit = MmaUnit::MmaM8n8k4, .k = 4};
  struct Row {
    MmaQuery query;
    bool expected[6];  // sm_75 sm_80 sm_89 sm_90 sm_100 sm_120
  };
  const Row rows[] = {
      {f16, {false, true, true, true, true, true}},
      {{.k = 8}, {true, true, true, true, true, true}},
      {bf16, {false, true, true, true, true, true}},
      {tf32, {false, true, true, true, true, true}},
      {fp8, {false, false, true, true, true, true}},
      {fp8_kind, {false, false, false, false, true, true}},
      {fp6, {false, false, false, false, false, true}},
      {fp4, {false, false, false, false, false, true}},
      {nvf4, {false, false, false, false, false, true}},
      {nvf4_ue8m0, {false, false, false, false, false, false}},
      {int8, {false, true, true, true, true, true}},
      {{.a = MmaFormat::S8, .b = MmaFormat::U8, .c = MmaFormat::S32, .k = 16},
       {false, true, true, true, true, true}},
      {m8n8k4, {true, false, false, false, false, false}},
      {{.unit = MmaUnit::Wgmma, .k = 16}, {false, false, false, true, false, false}},
      {{.unit = MmaUnit::Tcgen05, .k = 16}, {false, false, false, false, true, false}},
  };
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < all().size(); ++i) {
      EXPECT_EQ(exists(*all()[i], row.query), row.expected[i])
          << all()[i]->name << " row " << (&row - rows);
    }
  }
}

TEST(Generation, a_missing_instruction_is_an_error_that_names_it) {
  const auto form = mma_form(kSm80, {.a = MmaFormat::E4M3, .b = MmaFormat::E4M3, .k = 32});
  ASSERT_FALSE(form.ok());
  EXPECT_EQ(form.error().exit_status(), 4);
  EXPECT_THAT(form.error().message(), testing::HasSubstr("sm_80: mma.sync.m16n8k32.f32.e4m3.e4m3"));
}

TEST(Generation, families_share_their_sixteen_bit_arithmetic) {
  EXPECT_EQ(kSm80.f16_block(), kSm89.f16_block());
  EXPECT_EQ(kSm90.f16_block(), kSm100.f16_block());
  EXPECT_EQ(kSm90.f16_block(), kSm120.f16_block());
  EXPECT_NE(kSm80.f16_block(), kSm90.f16_block());
  EXPECT_EQ(kSm80.f16_block().products, 8u);
  EXPECT_EQ(kSm80.f16_block().fraction_bits, 24u);
  EXPECT_EQ(kSm90.f16_block().products, 16u);
  EXPECT_EQ(kSm90.f16_block().fraction_bits, 25u);
}

TEST(Generation, satfinite_changes_integer_forms_only) {
  MmaQuery query{.a = MmaFormat::S8, .b = MmaFormat::S8, .c = MmaFormat::S32, .k = 32};
  EXPECT_EQ(mma_form(kSm90, query)->scheme, MmaScheme::IntegerWrap);
  query.satfinite = true;
  EXPECT_EQ(mma_form(kSm90, query)->scheme, MmaScheme::IntegerSaturate);
}

}  // namespace
}  // namespace lockstep::device::vgpu::generation
