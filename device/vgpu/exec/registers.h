// What a PTX function does with its registers: which operands are written, and which registers an
// execution might read before it writes them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/vgpu/ptx/ir.h"

namespace lockstep::device::vgpu::exec {

// Calls visit(register, is_written) for each register that the instruction names, its guard too.
void for_each_register(const ptx::Instruction& instruction,
                       const std::function<void(std::uint32_t, bool)>& visit);

// One entry a register: true where some path from the start may read it unwritten. Guarded writes
// don't count, so a register may be listed that no real execution reads.
std::vector<bool> maybe_read_unwritten(const ptx::Function& function);

// Whether control may go on elsewhere than at the next instruction.
bool ends_straight_line(const ptx::Instruction& instruction);

}  // namespace lockstep::device::vgpu::exec
