#include "device/vgpu/exec/opcode_testing.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "base/prng.h"
#include "device/device.h"

namespace lockstep::device::vgpu::exec::testing {

namespace {

constexpr std::size_t kMaxRandom = 6;

std::string type_of(char letter) { return letter == 'h' ? "b16" : letter == 'x' ? "b64" : "b32"; }
std::string register_of(char letter, std::size_t k) {
  return "%" + std::string(1, letter) + std::to_string(k);
}

// Thread i takes element i of each operand's buffer (8 bytes an element). `masked`: only threads
// whose number is odd, or divisible by 5, execute the opcode.
std::string kernel_text(const OpcodeCase& test, bool masked) {
  std::string text =
      ".version 9.0\n.target sm_100\n.address_size 64\n"
      ".visible .entry k(.param .u64 d, .param .u64 s0, .param .u64 s1, .param .u64 s2, "
      ".param .u32 n) {\n"
      ".reg .pred %p<8>, %q<4>;\n.reg .b16 %h<8>;\n.reg .b32 %w<8>, %r<12>;\n"
      ".reg .b64 %x<8>, %rd<12>;\n"
      "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"
      "mad.lo.u32 %r3, %r0, %r1, %r2; ld.param.u32 %r4, [n];\n"
      "setp.ge.u32 %q0, %r3, %r4;\n@%q0 bra done;\n"
      "mul.wide.u32 %rd0, %r3, 8;\n";
  const std::string& letters = test.signature;
  for (std::size_t k = 1; k < letters.size(); ++k) {
    const std::string source = "s" + std::to_string(k - 1);
    text += "ld.param.u64 %rd1, [" + source + "]; add.u64 %rd1, %rd1, %rd0;\n";
    if (letters[k] == 'p') {
      text += "ld.global.b32 %r5, [%rd1]; setp.ne.u32 " + register_of('p', k) + ", %r5, 0;\n";
    } else {
      text += "ld.global." + type_of(letters[k]) + " " + register_of(letters[k], k) + ", [%rd1];\n";
    }
  }
  if (letters[0] == 'p') {
    text += "setp.ne.u32 %p0, 1, 0;\n";
  } else {
    text += "mov." + type_of(letters[0]) + " " + register_of(letters[0], 0) + ", 77;\n";
  }
  if (masked) {
    text +=
        "and.b32 %r6, %r3, 1; rem.u32 %r7, %r3, 5; setp.ne.u32 %q1, %r6, 0;\n"
        "setp.eq.or.u32 %q1, %r7, 0, %q1;\n@%q1 ";
  }
  text += test.opcode + " ";
  for (std::size_t k = 0; k < letters.size(); ++k) {
    text += (k == 0 ? "" : ", ") + register_of(letters[k], k);
  }
  text += test.suffix + ";\nld.param.u64 %rd2, [d]; add.u64 %rd2, %rd2, %rd0;\n";
  if (letters[0] == 'p') {
    text += "selp.b64 %rd3, 1, 0, %p0;\n";
  } else if (letters[0] == 'x') {
    text += "mov.b64 %rd3, %x0;\n";
  } else {
    text += std::string("cvt.u64.") + (letters[0] == 'h' ? "u16" : "u32") + " %rd3, " +
            register_of(letters[0], 0) + ";\n";
  }
  return text + "st.global.b64 [%rd2], %rd3;\ndone:\nret;\n}\n";
}

std::vector<std::uint64_t> run(const OpcodeCase& test, bool masked, const std::string& set,
                               const std::vector<std::vector<std::uint64_t>>& columns) {
  DeviceOptions options;
  options.instruction_set = set;
  options.memory_bytes = 1 << 24;
  auto opened = open("vgpu:sm_100", options);
  if (!opened) return {};  // a host without this instruction set
  Device& device = *opened.value();
  const auto kernel = device.load(kernel_text(test, masked), test.opcode + ".ptx", "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message();
  if (!kernel.ok()) return {};
  const std::size_t count = columns[0].size();
  Parameters parameters;
  std::vector<Buffer> buffers;
  for (std::size_t k = 0; k < 4; ++k) {
    buffers.push_back(device.allocate(8 * count, "operand").value());
    if (k > 0 && k <= columns.size()) {
      EXPECT_TRUE(
          device.copy_to_device(buffers.back().address(), std::as_bytes(std::span(columns[k - 1])))
              .ok());
    }
    parameters.add(buffers.back().address());
  }
  parameters.add(static_cast<std::uint32_t>(count));
  const LaunchConfig config = {.grid = {static_cast<std::uint32_t>((count + 127) / 128)},
                               .block = {128}};
  EXPECT_TRUE(device.launch(kernel.value(), config, parameters.bytes()).ok());
  for (const Diagnostic& diagnostic : device.take_diagnostics()) {
    ADD_FAILURE() << diagnostic.message;
  }
  std::vector<std::uint64_t> result(count);
  EXPECT_TRUE(
      device.copy_from_device(std::as_writable_bytes(std::span(result)), buffers[0].address())
          .ok());
  return result;
}

// All combinations of the sources' values, as one column for each source.
std::vector<std::vector<std::uint64_t>> combine(
    const std::vector<std::vector<std::uint64_t>>& values) {
  std::size_t count = 1;
  for (const auto& list : values) count *= list.size();
  std::vector<std::vector<std::uint64_t>> columns(values.size());
  for (std::size_t n = 0; n < count; ++n) {
    std::size_t rest = n;
    for (std::size_t k = 0; k < values.size(); ++k) {
      columns[k].push_back(values[k][rest % values[k].size()]);
      rest /= values[k].size();
    }
  }
  return columns;
}

std::uint64_t cut(std::uint64_t value, char letter) {
  return letter == 'h' ? value & 0xffff : letter == 'w' ? value & 0xffffffff : value;
}

}  // namespace

std::vector<std::uint64_t> edge_integers(char letter) {
  std::vector<std::uint64_t> values = {0,
                                       1,
                                       2,
                                       3,
                                       7,
                                       31,
                                       32,
                                       33,
                                       63,
                                       64,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0x7fff,
                                       0x8000,
                                       0xffff,
                                       0x12345678,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       ~std::uint64_t{0}};
  base::Prng prng(11);
  for (std::size_t k = 0; k < kMaxRandom; ++k) values.push_back(prng.next());
  if (letter == 'p') return {0, 1};
  return values;
}
std::vector<std::uint64_t> edge_floats(char letter) {
  std::vector<std::uint64_t> values;
  base::Prng prng(12);
  if (letter == 'h') {
    values = {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x3c00, 0xbc00, 0x3555,
              0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7c01, 0x7e00, 0xffff, 0x3800, 0x4248};
  } else if (letter == 'w') {
    values = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
              0x3f800000, 0xbf800000, 0x3eaaaaab, 0x7f7fffff, 0xff7fffff, 0x7f800000,
              0xff800000, 0x7f800001, 0xffc12345, 0x3f000000, 0xbfc00000, 0x4b000001,
              0x4f000000, 0xcf000001, 0x5f000000, 0x3f7fffff, 0x477fe000, 0x33000001};
  } else {
    values = {0,
              0x8000000000000000,
              1,
              0x000fffffffffffff,
              0x3ff0000000000000,
              0xbff0000000000000,
              0x3fd5555555555555,
              0x7fefffffffffffff,
              0x7ff0000000000000,
              0xfff0000000000000,
              0x7ff0000000000001,
              0x7ff8000000000000,
              0x3fe0000000000000,
              0x41dfffffffc00000,
              0xc1e0000000200000,
              0x43e0000000000000,
              0x36a0000000000001,
              0x47efffffefffffff};
  }
  for (std::size_t k = 0; k < kMaxRandom; ++k) values.push_back(cut(prng.next(), letter));
  return values;
}
std::vector<std::uint64_t> edge_bf16() {
  std::vector<std::uint64_t> values = {0,      0x8000, 1,      0x8001, 0x7f,   0x80,   0x3f80,
                                       0xbf80, 0x3eab, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7f81,
                                       0x7fc0, 0xffff, 0x3f00, 0x4049, 0x0400};
  base::Prng prng(13);
  for (std::size_t k = 0; k < kMaxRandom; ++k) values.push_back(cut(prng.next(), 'h'));
  return values;
}

void check_opcode(const OpcodeCase& test, const std::vector<std::vector<std::uint64_t>>& values) {
  SCOPED_TRACE(test.opcode);
  std::vector<std::vector<std::uint64_t>> lists = values;
  for (std::size_t k = lists.size(); k + 1 < test.signature.size(); ++k) {
    lists.push_back(edge_integers(test.signature[k + 1]));
  }
  const auto columns = combine(lists);
  for (const bool masked : {false, true}) {
    for (const char* set : {"scalar", "avx2", "avx512"}) {
      const std::vector<std::uint64_t> result = run(test, masked, set, columns);
      if (std::string_view(set) == "scalar") {
        ASSERT_EQ(result.size(), columns[0].size());
      }
      for (std::size_t n = 0; n < result.size(); ++n) {
        std::uint64_t in[3] = {0, 0, 0};
        for (std::size_t k = 0; k < columns.size(); ++k) {
          in[k] = cut(columns[k][n], test.signature[k + 1]);
        }
        const bool active = !masked || n % 2 == 1 || n % 5 == 0;
        const std::uint64_t sentinel = test.signature[0] == 'p' ? 1 : 77;
        const std::uint64_t expected =
            active ? cut(test.expected(in[0], in[1], in[2]), test.signature[0]) : sentinel;
        ASSERT_EQ(result[n], expected)
            << set << (masked ? " masked" : "") << " of 0x" << std::hex << in[0] << ", 0x" << in[1]
            << ", 0x" << in[2] << ": 0x" << result[n] << ", not 0x" << expected;
      }
    }
  }
}

// The negative control of all tests that use check_opcode.
TEST(OpcodeTesting, AWrongExpectationFails) {
  EXPECT_FATAL_FAILURE(check_opcode({"add.u32", "www",
                                     [](std::uint64_t a, std::uint64_t b, std::uint64_t) {
                                       return a + b + (a == 33 && b == 64 ? 1 : 0);
                                     }}),
                       "of 0x21, 0x40, 0x0: 0x61, not 0x62");
}

}  // namespace lockstep::device::vgpu::exec::testing
