#include "device/vgpu/exec/lower.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "device/vgpu/exec/lower_state.h"
#include "device/vgpu/exec/registers.h"

namespace lockstep::device::vgpu::exec {

using ptx::Instruction;
using ptx::Operand;

OpcodeTable::OpcodeTable(InstructionSet set) {
  std::span<const std::span<const Row>> parts;
  switch (set) {
    case InstructionSet::Scalar:
      parts = scalar::rows();
      break;
    case InstructionSet::Avx2:
      parts = avx2::rows();
      break;
    case InstructionSet::Avx512:
      parts = avx512::rows();
      break;
  }
  for (const auto& table : {parts, common::rows()}) {
    for (const std::span<const Row>& part : table) {
      for (const Row& row : part) add(row);
    }
  }
}
void OpcodeTable::add(const Row& row) {
  rows_.emplace(row.key, &row);
  // Rounding to nearest is what add, sub and mul do if nothing is spelled.
  for (const std::string_view name : {"add.rn.", "sub.rn.", "mul.rn."}) {
    const std::string_view key = row.key;
    if (key.starts_with(name))
      rows_.emplace(std::string(name.substr(0, 4)) + std::string(key.substr(7)), &row);
  }
}
const Row* OpcodeTable::find(const std::string& key) const {
  const auto found = rows_.find(key);
  return found == rows_.end() ? nullptr : found->second;
}
const OpcodeTable& opcode_table(InstructionSet set) {
  static const OpcodeTable tables[] = {OpcodeTable(InstructionSet::Scalar),
                                       OpcodeTable(InstructionSet::Avx2),
                                       OpcodeTable(InstructionSet::Avx512)};
  return tables[static_cast<std::size_t>(set)];
}

bool has_modifier(const Instruction& in, std::string_view modifier) {
  return std::find(in.modifiers.begin(), in.modifiers.end(), modifier) != in.modifiers.end();
}

Lowering::Lowering(const ptx::Module& module, const LowerOptions& options)
    : module_(module),
      options_(options),
      table_(opcode_table(options.instruction_set)),
      program_(std::make_unique<Program>()),
      next_register_(static_cast<std::uint32_t>(sizeof(Warp))) {}

base::Error Lowering::error(const std::string& rule) const {
  base::Error error;
  error.kind = base::ErrorKind::Unsupported;
  error.file = module_.name;
  if (current_ != nullptr) {
    error.where = "line " + std::to_string(current_->line) + ": " + current_->spelled();
  }
  error.rule = rule;
  return error;
}

base::Result<const Row*> Lowering::row(const std::string& key) const {
  const Row* found = table_.find(key);
  if (found == nullptr) return error("no such opcode (" + key + ")");
  return found;
}

Instr& Lowering::emit(const Row& row) {
  Instr instr;
  instr.run[0] = row.full;
  instr.run[1] = row.partial;
  instr.index = static_cast<std::uint32_t>(program_->origins.size()) - 1;
  instr.ordinal = ordinal_;
  program_->code.push_back(instr);
  return program_->code.back();
}
Lowering::Status Lowering::emit_key(const std::string& key, std::uint32_t d, std::uint32_t a,
                                    std::uint32_t b, std::uint32_t c, std::uint32_t e) {
  LS_ASSIGN(const Row* found, row(key));
  Instr& instr = emit(*found);
  instr.d = d;
  instr.a = a;
  instr.b = b;
  instr.c = c;
  instr.e = e;
  return base::Ok{};
}
const std::uint32_t* Lowering::keep_list(std::vector<std::uint32_t> list) {
  program_->lists.push_back(std::move(list));
  return program_->lists.back().data();
}
void Lowering::set_target(std::uint32_t from, std::uint32_t code_index) {
  targets_.emplace_back(from, code_index);
}

// An opcode whose row says all: operands in the order of the signature.
Lowering::Status Lowering::lower_plain(Scope& scope, const Instruction& in,
                                       const std::string& key) {
  LS_ASSIGN(const Row* found, row(key));
  const std::string_view signature = found->signature;
  if (signature.size() != in.operands.size()) return error("wrong number of operands");
  LS_ASSIGN(const std::uint32_t d, destination(scope, in.operands[0], signature[0]));
  std::uint32_t offsets[4] = {0, 0, 0, 0};
  for (std::size_t k = 1; k < signature.size(); ++k) {
    LS_ASSIGN(offsets[k - 1], source(scope, in.operands[k], signature[k]));
  }
  Instr& instr = emit(*found);
  instr.d = d;
  instr.a = offsets[0];
  instr.b = offsets[1];
  instr.c = offsets[2];
  instr.e = offsets[3];
  return base::Ok{};
}

namespace {

// The type of a move: only its width matters.
std::string untyped(char letter) {
  return letter == 'h' ? ".b16" : letter == 'w' ? ".b32" : letter == 'x' ? ".b64" : ".pred";
}
const char* approximation_suffix(ApproximationMode mode) {
  switch (mode) {
    case ApproximationMode::Nominal:
      return "#nominal";
    case ApproximationMode::Low:
      return "#low";
    case ApproximationMode::High:
      return "#high";
    case ApproximationMode::Hashed:
      return "#hashed";
  }
  return "";
}
// A fence that orders more than the threads of a block: what its checkers want to know.
bool is_fence(const Instruction& in) {
  if (in.name != "membar" && in.name != "fence") return false;
  return has_modifier(in, "gl") || has_modifier(in, "gpu") || has_modifier(in, "sys") ||
         has_modifier(in, "cluster");
}
// Ordering and hints: lanes' accesses happen in program order here, so nothing is left to do.
bool is_hint(const std::string& name) {
  for (const char* known :
       {"membar", "fence", "nanosleep", "prefetch", "prefetchu", "griddepcontrol", "discard",
        "applypriority", "pmevent", "setmaxnreg"}) {
    if (name == known) return true;
  }
  return false;
}
// Instructions that may stop a warp or need lanes outside the guard: a branch goes around them.
bool needs_branch_around(const Instruction& in) {
  for (const char* known : {"bar", "barrier", "shfl", "vote", "match", "redux", "elect", "call",
                            "ret", "exit", "trap", "brkpt", "brx"}) {
    if (in.name == known) return true;
  }
  return false;
}

}  // namespace

Lowering::Status Lowering::dispatch(Scope& scope, const Instruction& in) {
  using Lower = Status (Lowering::*)(Scope&, const Instruction&);
  struct Special {
    const char* name;
    Lower lower;
  };
  static constexpr Special kSpecial[] = {
      {"ld", &Lowering::lower_load},
      {"ldu", &Lowering::lower_load},
      {"st", &Lowering::lower_store},
      {"atom", &Lowering::lower_atomic},
      {"red", &Lowering::lower_atomic},
      {"cp", &Lowering::lower_cp},
      {"ldmatrix", &Lowering::lower_ldmatrix},
      {"stmatrix", &Lowering::lower_ldmatrix},
      {"cvta", &Lowering::lower_cvta},
      {"isspacep", &Lowering::lower_isspacep},
      {"mov", &Lowering::lower_mov},
      {"setp", &Lowering::lower_setp},
      {"set", &Lowering::lower_set},
      {"cvt", &Lowering::lower_cvt},
      {"lop3", &Lowering::lower_lop3},
      {"shfl", &Lowering::lower_shfl},
      {"elect", &Lowering::lower_with_predicate},
      {"bra", &Lowering::lower_branch},
      {"brx", &Lowering::lower_indexed_branch},
      {"ret", &Lowering::lower_return},
      {"exit", &Lowering::lower_return},
      {"trap", &Lowering::lower_return},
      {"brkpt", &Lowering::lower_return},
      {"bar", &Lowering::lower_barrier},
      {"barrier", &Lowering::lower_barrier},
      {"call", &Lowering::lower_call},
      {"mma", &Lowering::lower_mma},
  };
  for (const Special& special : kSpecial) {
    if (in.name == special.name) return (this->*special.lower)(scope, in);
  }
  if (in.name == "match" && has_modifier(in, "all")) return lower_with_predicate(scope, in);
  if (is_fence(in)) return emit_key("#fence", 0);
  if (is_hint(in.name)) return emit_key("#nothing", 0);
  if (in.name == "selp" && !in.operands.empty()) {
    return lower_plain(scope, in, "selp" + untyped(letter_of(scope, in.operands[0])));
  }
  if (has_modifier(in, "approx") || has_modifier(in, "full")) {
    return lower_plain(scope, in, in.spelled() + approximation_suffix(options_.approximation));
  }
  return lower_plain(scope, in, in.spelled());
}

Lowering::Status Lowering::lower_instruction(Scope& scope, std::uint32_t index) {
  const Instruction& in = scope.function->instructions[index];
  current_ = &in;
  current_index_ = index;
  program_->origins.push_back({in.line, in.source_file, in.source_line});
  if (scope.function->is_label_target[index]) LS_TRY(emit_key("#label", 0));
  if (!in.guard || in.name == "bra") {
    LS_TRY(dispatch(scope, in));
    ++ordinal_;
    return base::Ok{};
  }
  const std::uint32_t guard = register_offset(scope, *in.guard);
  const std::uint32_t flip = in.guard_negated ? kAllLanes : 0;
  const std::uint32_t begin = next_code();
  if (needs_branch_around(in)) {
    // Lanes whose guard is off branch to the label behind.
    LS_TRY(emit_key("#branch_if", 0, guard, 0, 0, ~flip));
    LS_TRY(dispatch(scope, in));
    ++ordinal_;
    set_target(begin, next_code());
    return emit_key("#label", 0);
  }
  LS_TRY(emit_key("#guard_begin", 0, guard, 0, 0, flip));
  LS_TRY(dispatch(scope, in));
  LS_TRY(emit_key("#guard_end", 0));
  ++ordinal_;
  set_target(begin, next_code());
  return base::Ok{};
}

void Lowering::count_registers(Scope& scope) {
  const ptx::Function& function = *scope.function;
  scope.occurrences.assign(function.registers.size(), 0);
  scope.writes.assign(function.registers.size(), 0);
  scope.is_entry_value.assign(function.registers.size(), false);
  bool at_entry = scope.depth == 0;
  for (std::size_t k = 0; k < function.instructions.size(); ++k) {
    const Instruction& in = function.instructions[k];
    if (function.is_label_target[k]) at_entry = false;
    for_each_register(in, [&](std::uint32_t index, bool is_written) {
      ++scope.occurrences[index];
      if (!is_written) return;
      ++scope.writes[index];
      scope.is_entry_value[index] = at_entry && !in.guard && scope.writes[index] == 1;
    });
    if (ends_straight_line(in)) at_entry = false;
  }
}

Lowering::Status Lowering::lower_body(Scope& scope) {
  const ptx::Function& function = *scope.function;
  scope.registers.assign(function.registers.size(), 0);
  for (const ptx::Register& reg : function.registers) {
    if (letter_of(reg.type) == 0) return error("registers of 128 bits are not supported");
  }
  count_registers(scope);
  scope.unwritten = maybe_read_unwritten(function);
  for (const ptx::Variable& variable : function.variables) {
    if (variable.space == ptx::Space::Local || variable.space == ptx::Space::Param) {
      const std::uint64_t alignment = std::max<std::uint64_t>(variable.alignment, 8);
      next_local_ = (next_local_ + alignment - 1) / alignment * alignment;
      scope.frame[&variable] = next_local_;
      next_local_ += variable.size_bytes;
    } else if (variable.space == ptx::Space::Shared && shared_.count(&variable) == 0) {
      return error("shared variables inside a called function are not supported");
    }
  }
  scope.labels.assign(function.instructions.size() + 1, 0);
  for (std::uint32_t index = 0; index < function.instructions.size(); ++index) {
    scope.labels[index] = next_code();
    LS_TRY(lower_instruction(scope, index));
  }
  scope.labels.back() = next_code();
  // The end of the body: a label, then an exit in the entry.
  program_->origins.push_back(program_->origins.empty() ? Origin{} : program_->origins.back());
  LS_TRY(emit_key("#label", 0));
  if (scope.depth == 0) LS_TRY(emit_key("#exit", 0));
  resolve_jumps(scope);
  for (std::uint32_t index = 0; index < function.registers.size(); ++index) {
    if (!scope.unwritten[index] || scope.registers[index] == 0) continue;
    const char letter = letter_of(function.registers[index].type);
    program_->cleared.push_back({scope.registers[index], register_bytes(letter)});
  }
  return base::Ok{};
}

void Lowering::resolve_jumps(Scope& scope) {
  for (const auto& [from, index] : scope.jumps) set_target(from, scope.labels[index]);
  for (const std::uint32_t from : scope.returns) set_target(from, scope.labels.back());
  for (const auto& [from, list] : scope.indexed_jumps) {
    for (std::uint32_t& entry : program_->lists[list]) entry = scope.labels[entry] - from;
  }
}

// Shared variables in the order of their declaration: the module's, then the entry's; those that
// are .extern share the start of dynamic shared memory.
Lowering::Status Lowering::layout_entry(const ptx::Function& entry) {
  std::uint64_t offset = 0, dynamic_alignment = 16;
  std::vector<const ptx::Variable*> dynamic;
  const auto place = [&](const std::vector<ptx::Variable>& variables) {
    for (const ptx::Variable& variable : variables) {
      if (variable.space != ptx::Space::Shared) continue;
      const std::uint64_t alignment = std::max<std::uint64_t>(variable.alignment, 1);
      if (variable.is_extern || variable.size_bytes == 0) {
        dynamic.push_back(&variable);
        dynamic_alignment = std::max(dynamic_alignment, alignment);
        continue;
      }
      offset = (offset + alignment - 1) / alignment * alignment;
      shared_[&variable] = offset;
      offset += variable.size_bytes;
    }
  };
  place(module_.variables);
  place(entry.variables);
  for (const auto& [name, function] : module_.functions) {
    if (!function.is_entry) place(function.variables);
  }
  if (!dynamic.empty())
    offset = (offset + dynamic_alignment - 1) / dynamic_alignment * dynamic_alignment;
  for (const ptx::Variable* variable : dynamic) shared_[variable] = offset;
  if (offset > 0x7fffffff) return error("too much shared memory");
  program_->static_shared_bytes = static_cast<std::uint32_t>(offset);

  std::uint64_t param = 0;
  for (const ptx::Variable& variable : entry.parameters) {
    const std::uint64_t alignment = std::max<std::uint64_t>(variable.alignment, 1);
    param = (param + alignment - 1) / alignment * alignment;
    params_[&variable] = param;
    param += variable.size_bytes;
  }
  if (param > 65536) return error("too many parameter bytes");
  program_->param_bytes = static_cast<std::uint32_t>(param);
  return base::Ok{};
}

void Lowering::finish_targets() {
  for (const auto& [from, to] : targets_) {
    program_->code[from].target = program_->code.data() + to;
  }
}

base::Result<std::unique_ptr<Program>> Lowering::run(const ptx::Function& entry) {
  entry_ = &entry;
  program_->kernel = entry.name;
  program_->module = module_.name;
  for (const auto& [number, name] : module_.source_files) {
    if (number < 65536) {
      if (program_->source_files.size() <= number) program_->source_files.resize(number + 1);
      program_->source_files[number] = name;
    }
  }
  program_->max_threads = entry.max_threads.value_or(0);
  program_->max_registers = entry.max_registers.value_or(0);
  for (std::size_t k = 0; k < 3; ++k) program_->required_block[k] = entry.required_block[k];
  LS_TRY(layout_entry(entry));
  Scope scope;
  scope.function = &entry;
  LS_TRY(lower_body(scope));
  finish_targets();
  program_->warp_bytes = next_register_;
  if (next_local_ > (1u << 24)) return error("too much local memory");
  program_->local_bytes = static_cast<std::uint32_t>((next_local_ + 15) / 16 * 16);
  return std::move(program_);
}

base::Result<std::unique_ptr<Program>> lower(const ptx::Module& module, const ptx::Function& entry,
                                             const LowerOptions& options) {
  return Lowering(module, options).run(entry);
}

}  // namespace lockstep::device::vgpu::exec
