// Fault -> Diagnostic: who, where, and next to which allocation.
#pragma once

#include <string>

#include "device/device.h"
#include "device/vgpu/check/findings.h"
#include "device/vgpu/exec/launch.h"
#include "device/vgpu/exec/memory.h"
#include "device/vgpu/exec/program.h"
#include "device/vgpu/exec/runtime.h"

namespace lockstep::device::vgpu::exec {

// "kernels/rms_norm.cu:18", or "line 120 of the PTX".
std::string source_of(const Program& program, std::uint32_t instruction);

Diagnostic diagnose(const Program& program, const GlobalMemory& memory,
                    const LaunchOptions& options, std::uint64_t linear_block, const Fault& fault);

Diagnostic diagnose(const Program& program, const check::Finding& finding);

}  // namespace lockstep::device::vgpu::exec
