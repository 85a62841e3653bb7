// Memory instructions: widths, vectors, spaces, asynchronous copies and matrices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "device/vgpu/exec/kernel_testing.h"

namespace lockstep::device::vgpu::exec {
namespace {

using testing::KernelResult;
using testing::KernelRun;
using testing::run_everywhere;
using testing::with_entry;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

std::vector<u32> numbers(std::size_t count) {
  std::vector<u32> values(count);
  for (std::size_t k = 0; k < count; ++k) values[k] = static_cast<u32>(k * 2654435761u + 12345);
  return values;
}
// `words` of output for each thread; `body` has %rd3 = in + 64 thread, %rd4 = out + 4 words thread.
std::vector<u32> run(const std::string& before, const std::string& body, u32 words,
                     u32 threads = 32, u32 blocks = 1) {
  KernelRun kernel;
  kernel.ptx = with_entry(
      before,
      "mov.u32 %r60, %ntid.x; mad.lo.u32 %r61, %r2, %r60, %r1;\n"
      "mul.wide.u32 %rd3, %r61, 64; add.u64 %rd3, %rd3, %rd1;\nmul.wide.u32 %rd4, %r61, " +
          std::to_string(4 * words) + "; add.u64 %rd4, %rd4, %rd2;\n" + body);
  kernel.config = {.grid = {blocks}, .block = {threads}};
  kernel.input = numbers(16 * threads * blocks);
  kernel.output_words = words * threads * blocks;
  const KernelResult result = run_everywhere(kernel);
  for (const Diagnostic& diagnostic : result.diagnostics) ADD_FAILURE() << diagnostic.message;
  return result.output;
}
template <class T>
T element(const std::vector<u32>& words, std::size_t byte) {
  T value;
  std::memcpy(&value, reinterpret_cast<const u8*>(words.data()) + byte, sizeof(T));
  return value;
}

TEST(Loads, WidenBySignOrZero) {
  // 40 threads: a full warp and a partial one. Addresses far apart, then next to each other.
  const auto in = numbers(16 * 40);
  const auto out = run("", R"(
    ld.global.u8 %r3, [%rd3+1]; ld.global.s8 %r4, [%rd3+2]; ld.global.u16 %r5, [%rd3+2];
    ld.global.s16 %r6, [%rd3+6]; ld.global.nc.u32 %r7, [%rd3+8];
    ld.global.s8 %h1, [%rd3+3]; cvt.s32.s16 %r8, %h1;
    ld.global.s32 %rd5, [%rd3+12]; st.global.u64 [%rd4+24], %rd5;
    st.global.v4.u32 [%rd4+32], {%r3, %r4, %r5, %r6};
    st.global.v2.u32 [%rd4], {%r7, %r8};
    mul.wide.u32 %rd6, %r61, 1; add.u64 %rd6, %rd6, %rd1; ld.global.u8 %r9, [%rd6];
    mul.wide.u32 %rd7, %r61, 2; add.u64 %rd7, %rd7, %rd1; ld.global.s16 %r10, [%rd7];
    mul.wide.u32 %rd8, %r61, 8; add.u64 %rd8, %rd8, %rd1; ld.global.u64 %rd9, [%rd8];
    ld.global.u32 %r11, [%rd1+20];
    st.global.u32 [%rd4+8], %r9; st.global.u32 [%rd4+12], %r10; st.global.u64 [%rd4+16], %rd9;
    st.global.u32 [%rd4+48], %r11;)",
                       16, 40);
  for (u32 k = 0; k < 40; ++k) {
    const std::size_t base = 64 * k;
    const auto result = [&](u32 word) { return out[16 * k + word]; };
    EXPECT_EQ(result(0), element<u32>(in, base + 8));
    EXPECT_EQ(result(1), static_cast<u32>(element<std::int8_t>(in, base + 3)));
    EXPECT_EQ(result(2), element<u8>(in, k));
    EXPECT_EQ(result(3), static_cast<u32>(element<std::int16_t>(in, 2 * k)));
    EXPECT_EQ(element<u64>(out, 64 * k + 16), element<u64>(in, 8 * k));
    EXPECT_EQ(element<u64>(out, 64 * k + 24),
              static_cast<u64>(element<std::int32_t>(in, base + 12)));
    EXPECT_EQ(result(8), element<u8>(in, base + 1));
    EXPECT_EQ(result(9), static_cast<u32>(element<std::int8_t>(in, base + 2)));
    EXPECT_EQ(result(10), element<u16>(in, base + 2));
    EXPECT_EQ(result(11), static_cast<u32>(element<std::int16_t>(in, base + 6)));
    EXPECT_EQ(result(12), in[5]);
  }
}

TEST(Loads, VectorsOfEveryShape) {
  const auto in = numbers(16 * 40);
  const auto out = run("", R"(
    ld.global.v2.u64 {%rd5, %rd6}, [%rd3+16]; st.global.v2.u64 [%rd4], {%rd6, %rd5};
    ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%rd3+8];
    st.global.v4.u16 [%rd4+16], {%h4, %h3, %h2, %h1};
    ld.global.v4.u8 {%h5, %h6, _, %h8}, [%rd3+4]; st.global.v2.u8 [%rd4+24], {%h8, %h5};
    st.global.u16 [%rd4+26], %h6; mov.u32 %r20, 0; st.global.u32 [%rd4+28], %r20;
    mul.wide.u32 %rd7, %r61, 16; add.u64 %rd7, %rd7, %rd1;
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd7]; st.global.v4.f32 [%rd4+32], {%f4, %f3, %f2, %f1};
    mul.wide.u32 %rd7, %r61, 8; add.u64 %rd7, %rd7, %rd1;
    ld.global.v2.b32 {%r3, %r4}, [%rd7]; st.global.v2.b32 [%rd4+48], {%r4, %r3};)",
                       16, 40);
  for (u32 k = 0; k < 40; ++k) {
    const std::size_t base = 64 * k;
    EXPECT_EQ(element<u64>(out, base), element<u64>(in, base + 24));
    EXPECT_EQ(element<u64>(out, base + 8), element<u64>(in, base + 16));
    for (u32 j = 0; j < 4; ++j) {
      EXPECT_EQ(element<u16>(out, base + 16 + 2 * j), element<u16>(in, base + 8 + 2 * (3 - j)));
      EXPECT_EQ(out[16 * k + 8 + j], in[4 * k + 3 - j]);
    }
    EXPECT_EQ(element<u8>(out, base + 24), element<u8>(in, base + 7));
    EXPECT_EQ(element<u8>(out, base + 25), element<u8>(in, base + 4));
    EXPECT_EQ(element<u16>(out, base + 26), element<u8>(in, base + 5));
    EXPECT_EQ(out[16 * k + 12], in[2 * k + 1]);
    EXPECT_EQ(out[16 * k + 13], in[2 * k]);
  }
}

TEST(Stores, ContiguousScatteredAndMasked) {
  // The output is transposed in pieces: out[(thread * 7) % 40], and only for odd threads after.
  const auto out = run("", R"(
    mul.lo.u32 %r3, %r61, 7; rem.u32 %r3, %r3, 40; mul.wide.u32 %rd5, %r3, 4;
    add.u64 %rd5, %rd5, %rd2;
    st.global.u32 [%rd5], %r61;
    bar.sync 0;
    and.b32 %r4, %r61, 1; setp.ne.u32 %p1, %r4, 0;
    mul.wide.u32 %rd6, %r61, 4; add.u64 %rd6, %rd6, %rd2;
    @%p1 st.global.u32 [%rd6], 1000;)",
                       1, 40);
  for (u32 k = 0; k < 40; ++k) {
    const u32 writer = k * 23 % 40;  // 7 * 23 = 161 = 1 modulo 40
    EXPECT_EQ(out[k], k % 2 == 1 ? 1000 : writer);
  }
}

TEST(Spaces, SharedLocalConstAndGenericAddresses) {
  const auto in = numbers(16 * 64);
  const auto out = run(R"(
    .const .align 4 .b32 table[4] = {10, 20, 30, 40};
    .global .align 8 .u64 pointer = generic(data)+4;
    .global .align 4 .b32 data[3] = {7, 8, 9};
    .extern .shared .align 16 .b8 dynamic[];
    .shared .align 8 .b8 tile[512];)",
                       R"(
    .local .align 8 .b8 stack[32];
    and.b32 %r3, %r1, 3; mul.wide.u32 %rd5, %r3, 4; mov.u64 %rd6, table; add.u64 %rd6, %rd6, %rd5;
    ld.const.u32 %r10, [%rd6];
    ld.global.u64 %rd7, [pointer]; ld.u32 %r11, [%rd7];
    mov.u64 %rd8, stack; add.u64 %rd9, %rd8, %rd5; st.local.u32 [%rd9], %r1;
    cvta.local.u64 %rd10, %rd9; ld.u32 %r12, [%rd10]; ld.local.u32 %r13, [%rd9];
    mov.u32 %r4, tile; mad.lo.u32 %r5, %r1, 8, %r4; st.shared.v2.u32 [%r5], {%r1, %r12};
    cvt.u64.u32 %rd11, %r5; cvta.shared.u64 %rd11, %rd11; ld.u32 %r14, [%rd11+4];
    isspacep.shared %p1, %rd11; isspacep.global %p2, %rd11; isspacep.local %p3, %rd10;
    isspacep.global %p4, %rd7;
    cvta.to.shared.u64 %rd12, %rd11; cvt.u32.u64 %r6, %rd12; ld.shared.u32 %r15, [%r6];
    selp.u32 %r16, 1, 0, %p1; selp.u32 %r17, 2, 0, %p2; selp.u32 %r18, 4, 0, %p3;
    selp.u32 %r19, 8, 0, %p4; or.b32 %r16, %r16, %r17; or.b32 %r16, %r16, %r18;
    or.b32 %r16, %r16, %r19;
    setp.lt.u32 %p5, %r1, 10; selp.b64 %rd13, %rd3, %rd11, %p5; selp.b64 %rd13, %rd10, %rd13, %p1;
    selp.b64 %rd14, %rd3, %rd10, %p5; ld.u32 %r20, [%rd14];
    st.global.v4.u32 [%rd4], {%r10, %r11, %r12, %r13};
    st.global.v4.u32 [%rd4+16], {%r14, %r15, %r16, %r20};)",
                       8, 64);
  for (u32 k = 0; k < 64; ++k) {
    EXPECT_EQ(out[8 * k], 10 * (k % 4 + 1));
    EXPECT_EQ(out[8 * k + 1], 8u);
    for (const u32 word : {2u, 3u, 4u, 5u}) EXPECT_EQ(out[8 * k + word], k);
    EXPECT_EQ(out[8 * k + 6], 1u + 4 + 8);
    EXPECT_EQ(out[8 * k + 7], k < 10 ? in[16 * k] : k);
  }
}

TEST(AsyncCopies, ArriveWhenTheyAreWaitedForAndFillWithZero) {
  const auto in = numbers(16 * 64);
  const auto out = run(".shared .align 16 .b8 tile[4096];", R"(
    mov.u32 %r3, tile; mad.lo.u32 %r4, %r1, 64, %r3;
    setp.lt.u32 %p1, %r1, 16; selp.u32 %r5, 16, 6, %p1;
    cp.async.cg.shared.global [%r4], [%rd3], 16;
    cp.async.ca.shared.global [%r4+16], [%rd3+16], 16, %r5;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r4+32], [%rd3+32], 8;
    cp.async.ca.shared.global [%r4+40], [%rd3+40], 4;
    cp.async.ca.shared.global [%r4+44], [%rd3+44], 4, 0;
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r4];
    st.global.v4.u32 [%rd4], {%r10, %r11, %r12, %r13};
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r4+16];
    st.global.v4.u32 [%rd4+16], {%r10, %r11, %r12, %r13};
    cp.async.wait_all;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r4+32];
    st.global.v4.u32 [%rd4+32], {%r10, %r11, %r12, %r13};)",
                       12, 64);
  for (u32 k = 0; k < 64; ++k) {
    for (u32 word = 0; word < 12; ++word) {
      u32 expected = in[16 * k + word];
      if (k >= 16 && word == 5) expected &= 0xffff;
      if (k >= 16 && (word == 6 || word == 7)) expected = 0;
      if (word == 11) expected = 0;
      EXPECT_EQ(out[12 * k + word], expected) << k << " " << word;
    }
  }
}

// A 16x16 tile of 16-bit numbers in shared memory, row by row; row r starts at 32 r.
const char kFillTile[] = R"(
    mov.u32 %r3, tile; mad.lo.u32 %r4, %r1, 16, %r3;
    shl.b32 %r5, %r1, 3; mad.lo.u32 %r6, %r5, 65537, 65536;
    st.shared.u32 [%r4], %r6; add.u32 %r6, %r6, 131074; st.shared.u32 [%r4+4], %r6;
    add.u32 %r6, %r6, 131074; st.shared.u32 [%r4+8], %r6; add.u32 %r6, %r6, 131074;
    st.shared.u32 [%r4+12], %r6; bar.sync 0;
    and.b32 %r7, %r1, 15; shr.u32 %r8, %r1, 4;
    mad.lo.u32 %r9, %r7, 32, %r3; mad.lo.u32 %r9, %r8, 16, %r9;)";
TEST(Matrices, LoadedRowsBecomeFragments) {
  // Element (row, column) of the tile is 16 row + column. Lane l points to row l % 16, half l / 16:
  // the four matrices are the quadrants (0,0), (1,0), (0,1), (1,1) by (row, column) half.
  const auto plain = run(".shared .align 16 .b8 tile[512];", std::string(kFillTile) + R"(
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r9];
    st.global.v4.u32 [%rd4], {%r10, %r11, %r12, %r13};)",
                         4);
  const auto transposed = run(".shared .align 16 .b8 tile[512];", std::string(kFillTile) + R"(
    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r9];
    st.global.v4.u32 [%rd4], {%r10, %r11, %r12, %r13};)",
                              4);
  for (u32 lane = 0; lane < 32; ++lane) {
    for (u32 tile = 0; tile < 4; ++tile) {
      const u32 row = lane / 4, column = lane % 4 * 2;
      const auto value = [&](u32 r, u32 c) {
        return 16 * (r + 8 * (tile % 2)) + c + 8 * (tile / 2);
      };
      EXPECT_EQ(plain[4 * lane + tile], value(row, column) | value(row, column + 1) << 16);
      EXPECT_EQ(transposed[4 * lane + tile], value(column, row) | value(column + 1, row) << 16);
    }
  }
}

TEST(Matrices, StoredFragmentsAndMovedOnesAreTheInverse) {
  const auto out = run(".shared .align 16 .b8 tile[512];\n.shared .align 16 .b8 copy[512];",
                       std::string(kFillTile) + R"(
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11}, [%r9];
    movmatrix.sync.aligned.m8n8.trans.b16 %r12, %r10;
    movmatrix.sync.aligned.m8n8.trans.b16 %r13, %r11;
    mov.u32 %r14, copy; sub.u32 %r15, %r9, %r3; add.u32 %r15, %r15, %r14;
    stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r15], {%r12, %r13};
    bar.sync 0;
    and.b32 %r16, %r1, 15; mad.lo.u32 %r17, %r16, 32, %r14;
    ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r17];
    st.global.v4.u32 [%rd4], {%r20, %r21, %r22, %r23};)",
                       4);
  for (u32 lane = 0; lane < 16; ++lane) {
    for (u32 word = 0; word < 4; ++word) {
      const u32 value = 16 * lane + 2 * word;
      EXPECT_EQ(out[4 * lane + word], value | (value + 1) << 16);
    }
  }
}

TEST(Moves, PackAndUnpack) {
  const auto out = run("", R"(
    ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd3];
    mov.b64 %rd5, {%r3, %r4}; mov.b64 {%r7, %r8}, %rd5; mov.b32 {%h1, %h2}, %r5;
    mov.b32 %r9, {%h2, %h1}; mov.b64 {%h3, %h4, %h5, %h6}, %rd5; mov.b64 %rd6, {%h6, %h5, %h4, %h3};
    mov.b64 {_, %r10}, %rd6;
    st.global.v4.u32 [%rd4], {%r7, %r8, %r9, %r10};)",
                       4);
  const auto in = numbers(16 * 32);
  for (u32 k = 0; k < 32; ++k) {
    const u32 *from = &in[16 * k], *to = &out[4 * k];
    EXPECT_EQ(to[0], from[0]);
    EXPECT_EQ(to[1], from[1]);
    EXPECT_EQ(to[2], from[2] << 16 | from[2] >> 16);
    EXPECT_EQ(to[3], from[0] << 16 | from[0] >> 16);
  }
}

TEST(Carries, WideAdditionAndSubtraction) {
  const auto out = run("", R"(
    ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd3];
    add.cc.u32 %r7, %r3, %r5; addc.u32 %r8, %r4, %r6;
    sub.cc.u32 %r9, %r3, %r5; subc.u32 %r10, %r4, %r6;
    st.global.v4.u32 [%rd4], {%r7, %r8, %r9, %r10};)",
                       4);
  const auto in = numbers(16 * 32);
  for (u32 k = 0; k < 32; ++k) {
    const u64 a = element<u64>(in, 64 * k), b = element<u64>(in, 64 * k + 8);
    EXPECT_EQ(element<u64>(out, 16 * k), a + b);
    EXPECT_EQ(element<u64>(out, 16 * k + 8), a - b);
  }
}

}  // namespace
}  // namespace lockstep::device::vgpu::exec
