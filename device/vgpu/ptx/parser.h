// PTX text -> Module. Everything that ptxas would accept of the grammar we support parses; anything
// else is an Error with its line.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/limits.h"
#include "device/vgpu/ptx/ir.h"

namespace lockstep::device::vgpu::ptx {

// `name`: for messages. Bodies of functions are parsed at once; unknown opcodes are no error here.
base::Result<Module> parse(std::string_view text, const std::string& name,
                           const base::Limits& limits = {});

}  // namespace lockstep::device::vgpu::ptx
