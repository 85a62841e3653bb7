// Branches, barriers, returns; calls are inlined.
#include "base/check.h"
#include "device/vgpu/exec/lower_state.h"

namespace lockstep::device::vgpu::exec {

using ptx::Instruction;
using ptx::Operand;

Lowering::Status Lowering::lower_branch(Scope& scope, const Instruction& in) {
  if (in.operands.size() != 1 || in.operands[0].kind != Operand::Kind::Label) {
    return error("a branch needs a label");
  }
  scope.jumps.emplace_back(next_code(), in.operands[0].index);
  if (!in.guard) return emit_key("#branch", 0);
  return emit_key("#branch_if", 0, register_offset(scope, *in.guard), 0, 0,
                  in.guard_negated ? kAllLanes : 0);
}

Lowering::Status Lowering::lower_indexed_branch(Scope& scope, const Instruction& in) {
  if (in.operands.size() != 2 || in.operands[1].kind != Operand::Kind::Vector) {
    return error("brx.idx needs an index and a list of labels");
  }
  LS_ASSIGN(const std::uint32_t a, source(scope, in.operands[0], 'w'));
  std::vector<std::uint32_t> labels;
  for (const Operand& label : in.operands[1].elements) labels.push_back(label.index);
  const auto count = static_cast<std::uint32_t>(labels.size());
  scope.indexed_jumps.emplace_back(next_code(), static_cast<std::uint32_t>(program_->lists.size()));
  LS_ASSIGN(const Row* found, row("#branch_indexed"));
  const std::uint32_t* list = keep_list(std::move(labels));
  Instr& instr = emit(*found);
  instr.a = a;
  instr.e = count;
  instr.list = list;
  return base::Ok{};
}

Lowering::Status Lowering::lower_return(Scope& scope, const Instruction& in) {
  if (in.name == "trap" || in.name == "brkpt") return emit_key("#trap", 0);
  if (in.name == "exit" || scope.depth == 0) return emit_key("#exit", 0);
  scope.returns.push_back(next_code());
  return emit_key("#branch", 0);
}

// bar{.cta}.sync a{, b}; bar.arrive a, b; bar.red.op d, a{, b}, {!}c; barrier the same.
Lowering::Status Lowering::lower_barrier(Scope& scope, const Instruction& in) {
  if (has_modifier(in, "warp")) {
    LS_ASSIGN(const std::uint32_t members, source(scope, in.operands.at(0), 'w'));
    return emit_key("bar.warp.sync", 0, members);
  }
  if (has_modifier(in, "cluster")) return error("no such opcode");
  const bool is_reduction = has_modifier(in, "red"), arrives = has_modifier(in, "arrive");
  std::vector<Operand> operands = in.operands;
  std::uint32_t d = 0, c = 0, reduction = 0;
  if (is_reduction) {
    if (operands.size() < 3) return error("wrong number of operands");
    reduction = has_modifier(in, "popc") ? 1 : has_modifier(in, "and") ? 2 : 3;
    LS_ASSIGN(d, destination(scope, operands.front(), reduction == 1 ? 'w' : 'p'));
    LS_ASSIGN(c, source(scope, operands.back(), 'p'));
    operands.erase(operands.begin());
    operands.pop_back();
  } else if (!arrives && !has_modifier(in, "sync")) {
    return error("no such opcode");
  }
  if (operands.empty() || operands.size() > 2) return error("wrong number of operands");
  LS_ASSIGN(const std::uint32_t a, source(scope, operands[0], 'w'));
  std::uint32_t b = constant('w', 0);
  if (operands.size() == 2) {
    LS_ASSIGN(b, source(scope, operands[1], 'w'));
  }
  LS_ASSIGN(const Row* found, row("#barrier"));
  Instr& instr = emit(*found);
  instr.d = d;
  instr.a = a;
  instr.b = b;
  instr.c = c;
  instr.e = arrives ? 0 : 1;
  instr.immediate = in.name == "bar" || has_modifier(in, "aligned") ? 0 : 1;
  instr.f = reduction;
  return base::Ok{};
}

// The callee's body in place: its registers are new ones, its parameters lie where the caller's
// .param variables do.
Lowering::Status Lowering::lower_call(Scope& scope, const Instruction& in) {
  if (in.operands.size() < 3 || in.operands[1].kind != Operand::Kind::Symbol) {
    return error("indirect calls are not supported");
  }
  const std::string& name = in.operands[1].symbol;
  if (name == "__assertfail" || name == "__assert_fail") return emit_key("#trap", 0);
  if (name == "vprintf") return emit_key("#nothing", 0);
  const auto found = module_.functions.find(name);
  if (found == module_.functions.end() || !found->second.has_body) {
    return error("function \"" + name + "\" has no body");
  }
  const ptx::Function& callee = found->second;
  if (scope.depth >= 32) return error("calls of \"" + name + "\" are nested too deeply");
  Scope inner;
  inner.function = &callee;
  inner.depth = scope.depth + 1;
  const auto bind = [&](const std::vector<ptx::Variable>& formal,
                        const std::vector<Operand>& actual) -> Status {
    if (formal.size() != actual.size()) return error("wrong number of arguments");
    for (std::size_t k = 0; k < formal.size(); ++k) {
      const auto place =
          actual[k].variable == nullptr ? std::nullopt : frame_offset(scope, actual[k].variable);
      if (!place) return error("an argument is no .param variable");
      inner.frame[&formal[k]] = *place;
    }
    return base::Ok{};
  };
  LS_TRY(bind(callee.results, in.operands[0].elements));
  LS_TRY(bind(callee.parameters, in.operands[2].elements));
  const ptx::Instruction* here = current_;
  LS_TRY(lower_body(inner));
  current_ = here;
  return base::Ok{};
}

}  // namespace lockstep::device::vgpu::exec
