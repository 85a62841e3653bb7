// Fuzz target: any bytes as PTX text end in an Error with its line, or in a Module whose indices
// and pointers all hold. Limits are small so that a run spends its time in the parser.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "device/vgpu/ptx/parser.h"

namespace {

using namespace lockstep;
using namespace lockstep::device::vgpu::ptx;

bool is_in(const std::vector<Variable>& variables, const Variable* variable) {
  return !variables.empty() && variable >= &variables.front() && variable <= &variables.back();
}

void check_operand(const Module& module, const Function& function, const Operand& operand) {
  if (operand.second_register) LS_CHECK(*operand.second_register < function.registers.size());
  if (operand.has_register) LS_CHECK(operand.index < function.registers.size());
  if (operand.variable != nullptr) {
    LS_CHECK(
        is_in(function.parameters, operand.variable) || is_in(function.results, operand.variable) ||
        is_in(function.variables, operand.variable) || is_in(module.variables, operand.variable));
    LS_CHECK(operand.variable->name == operand.symbol);
  }
  switch (operand.kind) {
    case Operand::Kind::Register:
      LS_CHECK(operand.index < function.registers.size());
      break;
    case Operand::Kind::Label:
      LS_CHECK(operand.index <= function.instructions.size());
      LS_CHECK(function.is_label_target[operand.index]);
      break;
    case Operand::Kind::Vector:
    case Operand::Kind::Address:
      for (const Operand& element : operand.elements) check_operand(module, function, element);
      break;
    case Operand::Kind::Immediate:
    case Operand::Kind::Special:
    case Operand::Kind::Symbol:
    case Operand::Kind::Sink:
      break;
  }
}

void check_module(const Module& module) {
  for (const auto& [name, function] : module.functions) {
    LS_CHECK(function.name == name);
    LS_CHECK(!function.has_body ||
             function.is_label_target.size() == function.instructions.size() + 1);
    for (const Instruction& instruction : function.instructions) {
      LS_CHECK(!instruction.guard || *instruction.guard < function.registers.size());
      for (const Operand& operand : instruction.operands) {
        check_operand(module, function, operand);
      }
    }
  }
  for (const Variable& variable : module.variables) {
    LS_CHECK(variable.initial.size() <= variable.size_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  base::Limits limits;
  limits.ptx_registers = 4096;
  limits.ptx_instructions = 4096;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto module = parse(text, "fuzz.ptx", limits);
  if (module.ok()) {
    check_module(*module);
  } else {
    LS_CHECK(module.error().where.starts_with("line ") && !module.error().rule.empty());
  }
  return 0;
}
