// Integer and bit opcodes against definitions written out here, with edge values.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "device/vgpu/exec/opcode_testing.h"

namespace lockstep::device::vgpu::exec {
namespace {

using testing::check_opcode;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

TEST(IntegerOpcodes, AdditionAndMultiplicationWrap) {
  for (const char* type : {"u32", "s32"}) {
    const std::string t = type;
    check_opcode({"add." + t, "www", [](u64 a, u64 b, u64) { return a + b; }});
    check_opcode({"sub." + t, "www", [](u64 a, u64 b, u64) { return a - b; }});
    check_opcode({"mul.lo." + t, "www", [](u64 a, u64 b, u64) { return a * b; }});
    check_opcode({"mad.lo." + t, "wwww", [](u64 a, u64 b, u64 c) { return a * b + c; }});
  }
  for (const char* type : {"u64", "s64"}) {
    const std::string t = type;
    check_opcode({"add." + t, "xxx", [](u64 a, u64 b, u64) { return a + b; }});
    check_opcode({"sub." + t, "xxx", [](u64 a, u64 b, u64) { return a - b; }});
    check_opcode({"mul.lo." + t, "xxx", [](u64 a, u64 b, u64) { return a * b; }});
  }
  check_opcode({"add.s16", "hhh", [](u64 a, u64 b, u64) { return a + b; }});
  check_opcode({"sub.u16", "hhh", [](u64 a, u64 b, u64) { return a - b; }});
  check_opcode({"mul.lo.s16", "hhh", [](u64 a, u64 b, u64) { return a * b; }});
}

TEST(IntegerOpcodes, HighAndWideProducts) {
  check_opcode({"mul.hi.u32", "www", [](u64 a, u64 b, u64) { return (a * b) >> 32; }});
  check_opcode({"mul.hi.s32", "www", [](u64 a, u64 b, u64) {
                  return static_cast<u64>((s64{static_cast<s32>(a)} * static_cast<s32>(b)) >> 32);
                }});
  check_opcode({"mul.hi.u64", "xxx",
                [](u64 a, u64 b, u64) { return static_cast<u64>((u128{a} * b) >> 64); }});
  check_opcode({"mul.hi.s64", "xxx", [](u64 a, u64 b, u64) {
                  return static_cast<u64>((s128{static_cast<s64>(a)} * static_cast<s64>(b)) >> 64);
                }});
  check_opcode({"mul.wide.u32", "xww", [](u64 a, u64 b, u64) { return a * b; }});
  check_opcode({"mul.wide.s32", "xww", [](u64 a, u64 b, u64) {
                  return static_cast<u64>(s64{static_cast<s32>(a)} * static_cast<s32>(b));
                }});
  check_opcode({"mul.wide.u16", "whh", [](u64 a, u64 b, u64) { return a * b; }});
  check_opcode({"mul.wide.s16", "whh", [](u64 a, u64 b, u64) {
                  return static_cast<u64>(s64{static_cast<s16>(a)} * static_cast<s16>(b));
                }});
  check_opcode({"mad.wide.u32", "xwwx", [](u64 a, u64 b, u64 c) { return a * b + c; }});
  check_opcode({"mad.hi.u32", "wwww", [](u64 a, u64 b, u64 c) { return ((a * b) >> 32) + c; }});
}

TEST(IntegerOpcodes, DivisionTruncatesAndDividesByZeroAsTheHardwareDoes) {
  check_opcode({"div.u32", "www", [](u64 a, u64 b, u64) { return b == 0 ? ~u64{0} : a / b; }});
  check_opcode({"rem.u32", "www", [](u64 a, u64 b, u64) { return b == 0 ? a : a % b; }});
  const auto quotient = [](s64 a, s64 b) {
    return static_cast<u64>(b == 0 ? -1 : static_cast<s64>(s128{a} / b));
  };
  const auto remainder = [](s64 a, s64 b) {
    return static_cast<u64>(b == 0 ? a : static_cast<s64>(s128{a} % b));
  };
  check_opcode({"div.s32", "www", [&](u64 a, u64 b, u64) {
                  return quotient(static_cast<s32>(a), static_cast<s32>(b));
                }});
  check_opcode({"rem.s32", "www", [&](u64 a, u64 b, u64) {
                  return remainder(static_cast<s32>(a), static_cast<s32>(b));
                }});
  check_opcode({"div.s64", "xxx", [&](u64 a, u64 b, u64) {
                  return quotient(static_cast<s64>(a), static_cast<s64>(b));
                }});
  check_opcode({"rem.s64", "xxx", [&](u64 a, u64 b, u64) {
                  return remainder(static_cast<s64>(a), static_cast<s64>(b));
                }});
  check_opcode({"div.u64", "xxx", [](u64 a, u64 b, u64) { return b == 0 ? ~u64{0} : a / b; }});
  check_opcode({"div.s16", "hhh", [&](u64 a, u64 b, u64) {
                  return quotient(static_cast<s16>(a), static_cast<s16>(b));
                }});
}

TEST(IntegerOpcodes, MinMaxAbsNeg) {
  check_opcode({"min.s32", "www", [](u64 a, u64 b, u64) {
                  return static_cast<s32>(a) < static_cast<s32>(b) ? a : b;
                }});
  check_opcode({"max.u32", "www", [](u64 a, u64 b, u64) { return a > b ? a : b; }});
  check_opcode({"max.s64", "xxx", [](u64 a, u64 b, u64) {
                  return static_cast<s64>(a) > static_cast<s64>(b) ? a : b;
                }});
  check_opcode({"min.u16", "hhh", [](u64 a, u64 b, u64) { return a < b ? a : b; }});
  check_opcode({"abs.s32", "ww", [](u64 a, u64, u64) { return a >> 31 != 0 ? 0 - a : a; }});
  check_opcode({"neg.s32", "ww", [](u64 a, u64, u64) { return 0 - a; }});
  check_opcode({"neg.s64", "xx", [](u64 a, u64, u64) { return 0 - a; }});
  check_opcode({"add.sat.s32", "www", [](u64 a, u64 b, u64) {
                  const s64 sum = s64{static_cast<s32>(a)} + static_cast<s32>(b);
                  return static_cast<u64>(sum > 0x7fffffff      ? 0x7fffffff
                                          : sum < -0x80000000LL ? -0x80000000LL
                                                                : sum);
                }});
  check_opcode(
      {"sad.u32", "wwww", [](u64 a, u64 b, u64 c) { return c + (a < b ? b - a : a - b); }});
}

TEST(IntegerOpcodes, ShiftsClamp) {
  check_opcode({"shl.b32", "www", [](u64 a, u64 b, u64) { return b > 31 ? 0 : a << b; }});
  check_opcode({"shl.b64", "xxw", [](u64 a, u64 b, u64) { return b > 63 ? 0 : a << b; }});
  check_opcode({"shl.b16", "hhw", [](u64 a, u64 b, u64) { return b > 15 ? 0 : a << b; }});
  check_opcode({"shr.u32", "www", [](u64 a, u64 b, u64) { return b > 31 ? 0 : a >> b; }});
  check_opcode({"shr.b32", "www", [](u64 a, u64 b, u64) { return b > 31 ? 0 : a >> b; }});
  check_opcode({"shr.s32", "www", [](u64 a, u64 b, u64) {
                  return static_cast<u64>(static_cast<s32>(a) >> (b > 31 ? 31 : b));
                }});
  check_opcode({"shr.s64", "xxw", [](u64 a, u64 b, u64) {
                  return static_cast<u64>(static_cast<s64>(a) >> (b > 63 ? 63 : b));
                }});
  check_opcode({"shr.u64", "xxw", [](u64 a, u64 b, u64) { return b > 63 ? 0 : a >> b; }});
  check_opcode({"shr.s16", "hhw", [](u64 a, u64 b, u64) {
                  return static_cast<u64>(static_cast<s16>(a) >> (b > 15 ? 15 : b));
                }});
  check_opcode({"shf.l.wrap.b32", "wwww",
                [](u64 a, u64 b, u64 c) { return ((b << 32 | a) << (c & 31)) >> 32; }});
  check_opcode(
      {"shf.r.wrap.b32", "wwww", [](u64 a, u64 b, u64 c) { return (b << 32 | a) >> (c & 31); }});
  check_opcode({"shf.l.clamp.b32", "wwww",
                [](u64 a, u64 b, u64 c) { return c >= 32 ? a : ((b << 32 | a) << c) >> 32; }});
  check_opcode({"shf.r.clamp.b32", "wwww",
                [](u64 a, u64 b, u64 c) { return c >= 32 ? b : (b << 32 | a) >> c; }});
}

TEST(IntegerOpcodes, Logic) {
  check_opcode({"and.b32", "www", [](u64 a, u64 b, u64) { return a & b; }});
  check_opcode({"or.b64", "xxx", [](u64 a, u64 b, u64) { return a | b; }});
  check_opcode({"xor.b16", "hhh", [](u64 a, u64 b, u64) { return a ^ b; }});
  check_opcode({"not.b32", "ww", [](u64 a, u64, u64) { return ~a; }});
  check_opcode({"cnot.b32", "ww", [](u64 a, u64, u64) { return u64{a == 0}; }});
  check_opcode({"and.pred", "ppp", [](u64 a, u64 b, u64) { return a & b; }});
  check_opcode({"or.pred", "ppp", [](u64 a, u64 b, u64) { return a | b; }});
  check_opcode({"xor.pred", "ppp", [](u64 a, u64 b, u64) { return a ^ b; }});
  check_opcode({"not.pred", "pp", [](u64 a, u64, u64) { return a ^ 1; }});
  check_opcode({"lop3.b32", "wwww", [](u64 a, u64 b, u64 c) { return (a & b) | c; }, ", 0xEA"});
  check_opcode({"lop3.b32", "wwww", [](u64 a, u64 b, u64 c) { return a ^ b ^ c; }, ", 0x96"});
  check_opcode(
      {"lop3.b32", "wwww", [](u64 a, u64 b, u64 c) { return (~a & b) | (a & c); }, ", 0xAC"});
  check_opcode({"selp.b32", "wwwp", [](u64 a, u64 b, u64 c) { return c != 0 ? a : b; }});
  check_opcode({"selp.f64", "xxxp", [](u64 a, u64 b, u64 c) { return c != 0 ? a : b; }});
  check_opcode({"selp.u16", "hhhp", [](u64 a, u64 b, u64 c) { return c != 0 ? a : b; }});
  check_opcode({"slct.u32.s32", "wwww",
                [](u64 a, u64 b, u64 c) { return static_cast<s32>(c) >= 0 ? a : b; }});
}

u64 permuted(u64 a, u64 b, u64 selectors) {
  const u64 bytes = b << 32 | a;
  u64 result = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u64 selector = selectors >> (4 * k) & 15;
    u64 byte = bytes >> (8 * (selector & 7)) & 0xff;
    if (selector > 7) byte = byte >> 7 != 0 ? 0xff : 0;
    result |= byte << (8 * k);
  }
  return result;
}
TEST(IntegerOpcodes, BytePermutations) {
  check_opcode({"prmt.b32", "wwww", permuted},
               {{0x03020100, 0x83f281f0, 0x12345678},
                {0x07060504, 0x87f685f4},
                {0x3210, 0x7654, 0x5410, 0x4140, 0xffff, 0x8888, 0x1032, 0xba98, 0x00c4}});
  check_opcode({"prmt.b32.f4e", "wwww",
                [](u64 a, u64 b, u64 c) { return (b << 32 | a) >> (8 * (c & 3)) & 0xffffffff; }});
  check_opcode({"prmt.b32.rc8", "wwww",
                [](u64 a, u64, u64 c) { return (a >> (8 * (c & 3)) & 0xff) * 0x01010101; }});
  check_opcode({"prmt.b32.rc16", "wwww",
                [](u64 a, u64, u64 c) { return (a >> (16 * (c & 1)) & 0xffff) * 0x00010001; }});
}

u64 field(u64 a, u64 position, u64 length, u32 bits, bool is_signed) {
  // PTX ISA, bfe, written as there: bit by bit.
  position &= 0xff;
  length &= 0xff;
  const u64 most = bits - 1;
  u64 sign = 0;
  if (is_signed && length != 0) {
    const u64 last = position + length - 1 < most ? position + length - 1 : most;
    sign = a >> last & 1;
  }
  u64 result = 0;
  for (u64 k = 0; k <= most; ++k) {
    const u64 bit = k < length && position + k <= most ? a >> (position + k) & 1 : sign;
    result |= bit << k;
  }
  return result;
}
TEST(IntegerOpcodes, BitFields) {
  const std::vector<u64> places = {0, 1, 5, 8, 16, 31, 32, 33, 63, 64, 255, 256};
  const std::vector<u64> words = {0, 0x80000000, 0xffffffff, 0x12345678, 0x87654321};
  const std::vector<u64> longs = {0, ~u64{0}, 0x8000000000000000, 0x123456789abcdef0};
  check_opcode({"bfe.u32", "wwww", [](u64 a, u64 b, u64 c) { return field(a, b, c, 32, false); }},
               {words, places, places});
  check_opcode({"bfe.s32", "wwww", [](u64 a, u64 b, u64 c) { return field(a, b, c, 32, true); }},
               {words, places, places});
  check_opcode({"bfe.u64", "xxww", [](u64 a, u64 b, u64 c) { return field(a, b, c, 64, false); }},
               {longs, places, places});
  check_opcode({"bfe.s64", "xxww", [](u64 a, u64 b, u64 c) { return field(a, b, c, 64, true); }},
               {longs, places, places});
  for (const u64 length : {0, 1, 8, 31, 32, 40}) {
    const auto inserted = [length](u64 a, u64 b, u64 c) {
      u64 result = b;
      const u64 position = c & 0xff;
      for (u64 k = 0; k < length && position + k < 32; ++k) {
        result = (result & ~(u64{1} << (position + k))) | (a >> k & 1) << (position + k);
      }
      return result;
    };
    check_opcode({"bfi.b32", "wwww", inserted, ", " + std::to_string(length)},
                 {words, words, places});
  }
}

TEST(IntegerOpcodes, BitCounts) {
  check_opcode({"popc.b32", "ww", [](u64 a, u64, u64) { return u64(std::popcount(a)); }});
  check_opcode({"popc.b64", "wx", [](u64 a, u64, u64) { return u64(std::popcount(a)); }});
  check_opcode({"clz.b32", "ww",
                [](u64 a, u64, u64) { return u64(std::countl_zero(static_cast<u32>(a))); }});
  check_opcode({"clz.b64", "wx", [](u64 a, u64, u64) { return u64(std::countl_zero(a)); }});
  check_opcode({"brev.b32", "ww", [](u64 a, u64, u64) {
                  u64 result = 0;
                  for (u32 k = 0; k < 32; ++k) result |= (a >> k & 1) << (31 - k);
                  return result;
                }});
  check_opcode({"bfind.u32", "ww",
                [](u64 a, u64, u64) { return u64(31 - std::countl_zero(static_cast<u32>(a))); }});
  check_opcode({"bfind.shiftamt.s32", "ww", [](u64 a, u64, u64) {
                  const u32 x = static_cast<u32>(a >> 31 != 0 ? ~a : a);
                  return x == 0 ? ~u64{0} : u64(std::countl_zero(x));
                }});
  check_opcode({"bmsk.clamp.b32", "www", [](u64 a, u64 b, u64) {
                  u64 result = 0;
                  for (u64 k = a; k < 32 && k < a + b; ++k) result |= u64{1} << k;
                  return result;
                }});
}

TEST(IntegerOpcodes, DotProductsOfBytes) {
  check_opcode({"dp4a.s32.s32", "wwww", [](u64 a, u64 b, u64 c) {
                  s64 sum = static_cast<s64>(c);
                  for (u32 k = 0; k < 4; ++k) {
                    sum += static_cast<std::int8_t>(a >> (8 * k)) *
                           static_cast<std::int8_t>(b >> (8 * k));
                  }
                  return static_cast<u64>(sum);
                }});
  check_opcode({"dp4a.u32.s32", "wwww", [](u64 a, u64 b, u64 c) {
                  s64 sum = static_cast<s64>(c);
                  for (u32 k = 0; k < 4; ++k) {
                    sum += static_cast<std::uint8_t>(a >> (8 * k)) *
                           static_cast<std::int8_t>(b >> (8 * k));
                  }
                  return static_cast<u64>(sum);
                }});
}

TEST(IntegerOpcodes, Comparisons) {
  check_opcode({"setp.lt.s32", "pww",
                [](u64 a, u64 b, u64) { return u64{static_cast<s32>(a) < static_cast<s32>(b)}; }});
  check_opcode({"setp.lo.u32", "pww", [](u64 a, u64 b, u64) { return u64{a < b}; }});
  check_opcode({"setp.ne.b64", "pxx", [](u64 a, u64 b, u64) { return u64{a != b}; }});
  check_opcode({"setp.ge.u64", "pxx", [](u64 a, u64 b, u64) { return u64{a >= b}; }});
  check_opcode({"setp.gt.s16", "phh",
                [](u64 a, u64 b, u64) { return u64{static_cast<s16>(a) > static_cast<s16>(b)}; }});
  check_opcode({"setp.eq.and.s32", "pwwp", [](u64 a, u64 b, u64 c) { return u64{a == b} & c; }});
  check_opcode({"setp.ne.xor.u32", "pwwp", [](u64 a, u64 b, u64 c) { return u64{a != b} ^ c; }});
  check_opcode({"set.lt.u32.s32", "www", [](u64 a, u64 b, u64) {
                  return static_cast<s32>(a) < static_cast<s32>(b) ? ~u64{0} : 0;
                }});
}

TEST(IntegerOpcodes, Conversions) {
  check_opcode({"cvt.s64.s32", "xw",
                [](u64 a, u64, u64) { return static_cast<u64>(s64{static_cast<s32>(a)}); }});
  check_opcode({"cvt.u64.u32", "xw", [](u64 a, u64, u64) { return a; }});
  check_opcode({"cvt.s32.s8", "wh", [](u64 a, u64, u64) {
                  return static_cast<u64>(s64{static_cast<std::int8_t>(a)});
                }});
  check_opcode({"cvt.s32.s8", "ww", [](u64 a, u64, u64) {
                  return static_cast<u64>(s64{static_cast<std::int8_t>(a)});
                }});
  check_opcode({"cvt.u16.u8", "hh", [](u64 a, u64, u64) { return a & 0xff; }});
  check_opcode({"cvt.u8.u32", "ww", [](u64 a, u64, u64) { return a & 0xff; }});
  check_opcode({"cvt.s8.s32", "ww", [](u64 a, u64, u64) {
                  return static_cast<u64>(s64{static_cast<std::int8_t>(a)});
                }});
  check_opcode({"cvt.sat.s8.s32", "hw", [](u64 a, u64, u64) {
                  const s32 x = static_cast<s32>(a);
                  return static_cast<u64>(s64{x < -128 ? -128 : x > 127 ? 127 : x});
                }});
  check_opcode({"cvt.sat.u8.s32", "hw", [](u64 a, u64, u64) {
                  const s32 x = static_cast<s32>(a);
                  return static_cast<u64>(x < 0 ? 0 : x > 255 ? 255 : x);
                }});
  check_opcode({"cvt.sat.u32.s64", "wx", [](u64 a, u64, u64) {
                  const s64 x = static_cast<s64>(a);
                  return static_cast<u64>(x < 0 ? 0 : x > 0xffffffffLL ? 0xffffffffLL : x);
                }});
}

}  // namespace
}  // namespace lockstep::device::vgpu::exec
