// For tests: one opcode over many operands, on every host instruction set, with all lanes active
// and with some.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::device::vgpu::exec::testing {

// `opcode`: "add.s32". `signature`: a letter for each operand, the destination first: h, w, x (16,
// 32, 64 bits) or p (predicate, as a destination or a source: 0 or 1).
struct OpcodeCase {
  std::string opcode, signature;
  std::function<std::uint64_t(std::uint64_t, std::uint64_t, std::uint64_t)> expected;
  std::string suffix = "";  // further operands: ", 0xEA"
};

// Checks every combination of the operands' edge values and some random ones. `values` per source,
// or edge values of the letter where empty.
void check_opcode(const OpcodeCase& test,
                  const std::vector<std::vector<std::uint64_t>>& values = {});

std::vector<std::uint64_t> edge_integers(char letter);
std::vector<std::uint64_t> edge_floats(char letter);  // f16 (h), f32 (w), f64 (x)
std::vector<std::uint64_t> edge_bf16();

}  // namespace lockstep::device::vgpu::exec::testing
