// ptx::Function -> Program: every spelled opcode gets its handler, operands become register
// offsets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "device/device.h"
#include "device/vgpu/exec/handlers.h"
#include "device/vgpu/exec/program.h"
#include "device/vgpu/ptx/ir.h"

namespace lockstep::device::vgpu::exec {

// Rows of one instruction set by key.
class OpcodeTable {
 public:
  explicit OpcodeTable(InstructionSet set);
  const Row* find(const std::string& key) const;

 private:
  void add(const Row& row);
  std::unordered_map<std::string, const Row*> rows_;
};
const OpcodeTable& opcode_table(InstructionSet set);

struct LowerOptions {
  InstructionSet instruction_set = InstructionSet::Scalar;
  bool checked = false;
  ApproximationMode approximation = ApproximationMode::Nominal;
  std::uint32_t sm = 80;
  // Device address of a module-scope .global or .const variable.
  std::function<std::uint64_t(const ptx::Variable*)> global_address;
};

// An opcode that is not in the table, an operand of the wrong width or recursion is an Error that
// names the line. The Program keeps no reference to `module`.
base::Result<std::unique_ptr<Program>> lower(const ptx::Module& module, const ptx::Function& entry,
                                             const LowerOptions& options);

}  // namespace lockstep::device::vgpu::exec
