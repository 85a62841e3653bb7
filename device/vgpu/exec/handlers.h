// The handlers of one host instruction set, as a table from spelled opcodes. The tables of the
// three instruction sets have the same rows and compute the same bits; `common` has all other
// opcodes.
#pragma once

#include <span>
#include <string_view>

#include "device/vgpu/exec/machine.h"

namespace lockstep::device::vgpu::exec {

// One spelled opcode. `signature`: a letter for each operand in the order of the PTX text: h, w, x:
// register of 16, 32, 64 bits; p: predicate. They become Instr::d, a, b, c, e.
struct Row {
  const char* key;
  Handler full, partial;
  const char* signature;
};

enum class InstructionSet : std::uint8_t { Scalar, Avx2, Avx512 };

namespace common {
std::span<const std::span<const Row>> rows();
}
namespace scalar {
std::span<const std::span<const Row>> rows();
}
namespace avx2 {
std::span<const std::span<const Row>> rows();
}
namespace avx512 {
std::span<const std::span<const Row>> rows();
}

}  // namespace lockstep::device::vgpu::exec
