// ld, st, atom, red, cp.async, ldmatrix, cvta, isspacep.
#include "base/check.h"
#include "device/vgpu/check/access.h"
#include "device/vgpu/exec/lower_state.h"

namespace lockstep::device::vgpu::exec {

using ptx::Instruction;
using ptx::Operand;

namespace {

// What a memory instruction's modifiers say; those that change nothing here (caching, ordering: the
// lanes' accesses are in order, always) are known and dropped.
struct Spelling {
  std::string space = "generic";
  std::uint32_t count = 1;
  std::string type;               // the last modifier
  std::vector<std::string> rest;  // operation of an atomic, ...
  bool has_cache_hint = false;
  bool is_strong = false;     // volatile, relaxed, ...: no race with others of its kind
  bool is_read_only = false;  // nobody writes it during the kernel
  std::string unknown;
};

bool is_ignored(std::string_view modifier) {
  for (const char* known :
       {"volatile", "relaxed", "acquire", "release", "acq_rel", "weak",   "mmio",
        "cta",      "gpu",     "sys",     "cluster", "ca",      "cg",     "cs",
        "lu",       "cv",      "wb",      "wt",      "nc",      "unified"}) {
    if (modifier == known) return true;
  }
  return modifier.starts_with("L1::") || modifier.starts_with("L2::");
}

// `is_atomic`: modifiers that are not known are the operation.
Spelling read_modifiers(const Instruction& in, bool is_atomic) {
  Spelling spelling;
  for (std::size_t k = 0; k < in.modifiers.size(); ++k) {
    const std::string& modifier = in.modifiers[k];
    if (modifier == "L2::cache_hint") spelling.has_cache_hint = true;
    for (const char* strong : {"volatile", "relaxed", "acquire", "release", "mmio"}) {
      spelling.is_strong = spelling.is_strong || modifier == strong;
    }
    spelling.is_read_only = spelling.is_read_only || modifier == "nc" || modifier == "const";
    if (k + 1 == in.modifiers.size()) {
      spelling.type = modifier;
    } else if (modifier == "global" || modifier == "shared" || modifier == "local" ||
               modifier == "param" || modifier == "const") {
      spelling.space = modifier == "const" ? "global" : modifier;
    } else if (modifier == "shared::cta") {
      spelling.space = "shared";
    } else if (modifier == "param::entry" || modifier == "param::func") {
      spelling.space = "param";
    } else if (modifier == "v2" || modifier == "v4" || modifier == "v8") {
      spelling.count = static_cast<std::uint32_t>(modifier[1] - '0');
    } else if (!is_ignored(modifier)) {
      if (is_atomic) {
        spelling.rest.push_back(modifier);
      } else {
        spelling.unknown = modifier;
      }
    }
  }
  return spelling;
}

std::uint32_t type_bits(const std::string& type) {
  if (type == "f16x2" || type == "bf16x2") return 32;
  std::uint32_t bits = 0;
  for (const char c : type) {
    if (c >= '0' && c <= '9') bits = bits * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return bits;
}
// What the checkers are told of an access, in Instr::f.
std::uint32_t kind_bits(check::AccessKind kind) {
  return static_cast<std::uint32_t>(kind) << kAccessKindShift;
}
std::uint32_t kind_bits(const Spelling& spelling, bool is_load) {
  using check::AccessKind;
  if (!is_load) return kind_bits(spelling.is_strong ? AccessKind::StrongStore : AccessKind::Store);
  return kind_bits(spelling.is_read_only ? AccessKind::ReadOnlyLoad
                   : spelling.is_strong  ? AccessKind::StrongLoad
                                         : AccessKind::Load);
}
// "u8", "s8", ...: how memory of `type` reads into a register of `letter`.
std::string memory_type(const std::string& type, char letter) {
  const std::uint32_t bits = type_bits(type);
  const std::uint32_t slot = letter == 'h' ? 16 : letter == 'w' ? 32 : 64;
  if (bits < 8 || bits > slot) return "";
  const bool is_signed = type[0] == 's' && bits < slot;
  return (is_signed ? "s" : "u") + std::to_string(bits);
}

}  // namespace

std::uint32_t Lowering::access_code(const std::string& space) const {
  const AccessSpace code = space == "global"   ? AccessSpace::Global
                           : space == "shared" ? AccessSpace::Shared
                           : space == "local"  ? AccessSpace::Local
                                               : AccessSpace::Generic;
  return static_cast<std::uint32_t>(code) + (options_.checked ? kAccessChecked : 0);
}

Lowering::Status Lowering::lower_param_load(Scope& scope, const Instruction& in,
                                            const std::string& type) {
  const Operand& from = in.operands[1];
  std::vector<Operand> results = in.operands[0].kind == Operand::Kind::Vector
                                     ? in.operands[0].elements
                                     : std::vector<Operand>{in.operands[0]};
  const std::uint64_t size = type_bits(type) / 8;
  const auto base = static_cast<std::uint64_t>(
      static_cast<std::int64_t>(params_.at(from.variable)) + from.offset);
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (results[k].kind == Operand::Kind::Sink) continue;
    const char letter = letter_of(scope, results[k]);
    const std::string memory = memory_type(type, letter);
    if (memory.empty()) return error("a parameter of this type does not fit the register");
    if (base > program_->param_bytes || size * (k + 1) > program_->param_bytes - base) {
      return error("reads beyond the parameters");
    }
    const auto place = static_cast<std::uint32_t>(base + size * k);
    if (size == (letter == 'h'   ? 2u
                 : letter == 'w' ? 4u
                                 : 8u) &&
        can_rename(scope, in, results[k])) {
      // Read once for all when the kernel is launched.
      const std::uint32_t offset = allocate(letter);
      scope.registers[results[k].index] = offset;
      program_->parameters.push_back({offset, static_cast<std::uint32_t>(size), place});
      continue;
    }
    LS_ASSIGN(const Row* found, row("ld.param." + memory + ":" + letter));
    LS_ASSIGN(const std::uint32_t d, destination(scope, results[k], letter));
    Instr& instr = emit(*found);
    instr.d = d;
    instr.immediate = place;
  }
  return base::Ok{};
}

Lowering::Status Lowering::lower_access(Scope& scope, const Instruction& in, bool is_load) {
  Spelling spelling = read_modifiers(in, false);
  if (!spelling.unknown.empty()) return error("modifier ." + spelling.unknown + " is not known");
  const std::size_t wanted = spelling.has_cache_hint ? 3 : 2;
  if (in.operands.size() != wanted) return error("wrong number of operands");
  const Operand& data = in.operands[is_load ? 0 : 1];
  const Operand& where = in.operands[is_load ? 1 : 0];
  if (spelling.space == "param") {
    const bool entry = where.variable != nullptr && params_.count(where.variable) != 0;
    if (entry && is_load) return lower_param_load(scope, in, spelling.type);
    spelling.space = where.has_register ? "generic" : "local";
  }
  const std::vector<Operand> elements =
      data.kind == Operand::Kind::Vector ? data.elements : std::vector<Operand>{data};
  if (elements.size() != spelling.count) return error("wrong number of vector elements");
  char letter = 0;
  for (const Operand& element : elements) {
    if (element.kind == Operand::Kind::Register) letter = letter_of(scope, element);
  }
  const std::uint32_t bits = type_bits(spelling.type);
  if (letter == 0) letter = bits <= 16 ? 'h' : bits == 32 ? 'w' : 'x';
  const std::string memory =
      memory_type(is_load ? spelling.type : "u" + std::to_string(bits), letter);
  if (memory.empty()) return error("the type does not fit the register");
  const std::string count = spelling.count == 1 ? "" : ".v" + std::to_string(spelling.count);
  const std::string key = (is_load ? "ld" : "st") + count + "." + memory + ":" + letter;
  LS_ASSIGN(const Row* found, row(key));
  LS_ASSIGN(const Address place, address(scope, where, spelling.space));
  std::vector<std::uint32_t> registers;
  for (const Operand& element : elements) {
    if (is_load && element.kind == Operand::Kind::Sink) {
      registers.push_back(spelling.count == 1 ? allocate(letter) : 0);
    } else if (is_load) {
      LS_ASSIGN(const std::uint32_t offset, destination(scope, element, letter));
      registers.push_back(offset);
    } else {
      LS_ASSIGN(const std::uint32_t offset, source(scope, element, letter));
      registers.push_back(offset);
    }
  }
  const std::uint32_t* list = spelling.count > 1 ? keep_list(registers) : nullptr;
  Instr& instr = emit(*found);
  instr.d = registers[0];
  instr.registers = list;
  instr.a = place.base;
  instr.immediate = static_cast<std::uint64_t>(place.offset);
  instr.e = program_->interval_slots++;
  instr.f = access_code(spelling.space) | kind_bits(spelling, is_load);
  return base::Ok{};
}
Lowering::Status Lowering::lower_load(Scope& scope, const Instruction& in) {
  return lower_access(scope, in, true);
}
Lowering::Status Lowering::lower_store(Scope& scope, const Instruction& in) {
  return lower_access(scope, in, false);
}

Lowering::Status Lowering::lower_atomic(Scope& scope, const Instruction& in) {
  const Spelling spelling = read_modifiers(in, true);
  const bool returns = in.name == "atom";
  std::string operation;
  for (const std::string& part : spelling.rest) operation += part + ".";
  const std::uint32_t bits = type_bits(spelling.type);
  const char letter = bits == 16 ? 'h' : bits == 32 ? 'w' : 'x';
  std::string type = spelling.type;
  const bool is_bits = operation == "exch." || operation == "cas." || operation == "and." ||
                       operation == "or." || operation == "xor.";
  if (is_bits) type = "b" + std::to_string(bits);
  LS_ASSIGN(const Row* found, row("atom." + operation + type));
  std::size_t next = 0;
  const std::size_t operands = in.operands.size() - (spelling.has_cache_hint ? 1 : 0);
  const std::size_t wanted = (returns ? 1u : 0u) + 2 + (operation == "cas." ? 1 : 0);
  if (operands != wanted) return error("wrong number of operands");
  const Operand* result = returns ? &in.operands[next++] : nullptr;
  const Operand& where = in.operands[next++];
  const Operand& value = in.operands[next++];
  LS_ASSIGN(const Address place, address(scope, where, spelling.space));
  const bool is_float = type[0] == 'f' || type.starts_with("bf");
  for (std::uint32_t k = 0; k < spelling.count; ++k) {
    const auto element = [&](const Operand& operand) -> const Operand& {
      return operand.kind == Operand::Kind::Vector ? operand.elements.at(k) : operand;
    };
    if (value.kind == Operand::Kind::Vector && value.elements.size() != spelling.count) {
      return error("wrong number of vector elements");
    }
    std::uint32_t d = 0;
    if (result != nullptr && element(*result).kind == Operand::Kind::Register &&
        scope.occurrences[element(*result).index] > 1) {
      LS_ASSIGN(d, destination(scope, element(*result), letter));
    }
    LS_ASSIGN(const std::uint32_t b, source(scope, element(value), letter));
    std::uint32_t c = 0;
    if (operation == "cas.") {
      LS_ASSIGN(c, source(scope, in.operands[next], letter));
    }
    if (spelling.space != "shared" &&
        (d != 0 || is_float || operation == "exch." || operation == "cas.")) {
      program_->ordered = true;
    }
    Instr& instr = emit(*found);
    instr.d = d;
    instr.a = place.base;
    instr.b = b;
    instr.c = c;
    instr.immediate = static_cast<std::uint64_t>(place.offset) + k * (bits / 8);
    instr.e = program_->interval_slots++;
    instr.f = access_code(spelling.space) | kind_bits(check::AccessKind::Atomic);
  }
  return base::Ok{};
}

Lowering::Status Lowering::lower_cp(Scope& scope, const Instruction& in) {
  if (in.modifiers.empty() || in.modifiers[0] != "async" || has_modifier(in, "bulk") ||
      has_modifier(in, "mbarrier")) {
    return error("no such opcode");
  }
  if (has_modifier(in, "commit_group")) return emit_key("cp.async.commit_group", 0);
  if (has_modifier(in, "wait_group") || has_modifier(in, "wait_all")) {
    std::uint64_t left = ~std::uint64_t{0};
    if (has_modifier(in, "wait_group")) {
      if (in.operands.size() != 1 || in.operands[0].kind != Operand::Kind::Immediate) {
        return error("wait_group takes a number");
      }
      left = in.operands[0].bits;
    }
    LS_ASSIGN(const Row* found, row("#cp.async.wait"));
    emit(*found).immediate = left;
    return base::Ok{};
  }
  return lower_cp_async(scope, in);
}

Lowering::Status Lowering::lower_cp_async(Scope& scope, const Instruction& in) {
  std::size_t count = in.operands.size();
  if (has_modifier(in, "L2::cache_hint") && count > 0) --count;
  if (count < 3 || count > 4 || in.operands[2].kind != Operand::Kind::Immediate) {
    return error("cp.async takes a destination, a source and a size");
  }
  const std::uint64_t size = in.operands[2].bits;
  LS_ASSIGN(const Row* found, row("cp.async." + std::to_string(size)));
  std::uint32_t reads = constant('w', size);
  if (count == 4) {
    const Operand& extra = in.operands[3];
    if (letter_of(scope, extra) == 'p') {
      // The ignore-src predicate: where it holds, nothing is read.
      LS_ASSIGN(const std::uint32_t ignore, source(scope, extra, 'p'));
      const std::uint32_t chosen = allocate('w');
      LS_TRY(emit_key("selp.b32", chosen, constant('w', 0), reads, ignore));
      reads = chosen;
    } else {
      LS_ASSIGN(reads, source(scope, extra, 'w'));
    }
  }
  LS_ASSIGN(const Address to, address(scope, in.operands[0], "shared"));
  LS_ASSIGN(const Address from, address(scope, in.operands[1], "global"));
  Instr& instr = emit(*found);
  instr.a = from.base;
  instr.immediate = static_cast<std::uint64_t>(from.offset);
  instr.b = to.base;
  instr.d = static_cast<std::uint32_t>(to.offset);
  instr.c = reads;
  instr.e = program_->interval_slots++;
  // copy_async tells what each lane reads: it may be less than the size.
  instr.f = access_code("global") | (kAccessUntold << kAccessKindShift);
  return base::Ok{};
}

// ldmatrix and stmatrix; an address without .shared is generic.
Lowering::Status Lowering::lower_ldmatrix(Scope& scope, const Instruction& in) {
  const bool is_load = in.name == "ldmatrix";
  if (!has_modifier(in, "m8n8") || !has_modifier(in, "b16") || in.operands.size() != 2) {
    return error("no such opcode");
  }
  std::string key = in.name;
  std::uint32_t tiles = 0;
  for (const std::string& modifier : in.modifiers) {
    if (modifier == "x1" || modifier == "x2" || modifier == "x4") {
      tiles = static_cast<std::uint32_t>(modifier[1] - '0');
      key += "." + modifier;
    }
  }
  if (has_modifier(in, "trans")) key += ".trans";
  LS_ASSIGN(const Row* found, row(key));
  const Operand& data = in.operands[is_load ? 0 : 1];
  const Operand& where = in.operands[is_load ? 1 : 0];
  std::vector<std::uint32_t> registers;
  const std::vector<Operand> elements =
      data.kind == Operand::Kind::Vector ? data.elements : std::vector<Operand>{data};
  if (elements.size() != tiles) return error("wrong number of registers");
  for (const Operand& element : elements) {
    LS_ASSIGN(const std::uint32_t offset,
              is_load ? destination(scope, element, 'w') : source(scope, element, 'w'));
    registers.push_back(offset);
  }
  const bool is_shared = has_modifier(in, "shared") || has_modifier(in, "shared::cta");
  LS_ASSIGN(Address place, address(scope, where, is_shared ? "shared" : "generic"));
  if (!is_shared) {
    // The low word of a generic shared address is the address in shared memory.
    const std::uint32_t low = allocate('w');
    LS_TRY(emit_key("cvt.u32.u64", low, place.base));
    place.base = low;
  }
  const std::uint32_t* list = keep_list(registers);
  Instr& instr = emit(*found);
  instr.registers = list;
  instr.a = place.base;
  instr.immediate = static_cast<std::uint64_t>(place.offset);
  return base::Ok{};
}

// Windows are added and taken away; global and parameter addresses are generic ones.
Lowering::Status Lowering::lower_cvta(Scope& scope, const Instruction& in) {
  if (in.operands.size() != 2) return error("wrong number of operands");
  const bool to = has_modifier(in, "to");
  std::uint64_t window = 0;
  if (has_modifier(in, "shared") || has_modifier(in, "shared::cta")) window = kSharedWindow;
  if (has_modifier(in, "local")) window = kLocalWindow;
  LS_ASSIGN(const std::uint32_t d, destination(scope, in.operands[0], 'x'));
  LS_ASSIGN(const std::uint32_t a, source(scope, in.operands[1], 'x'));
  if (window == 0) return emit_key("mov.b64", d, a);
  return emit_key(to ? "sub.u64" : "add.u64", d, a, constant('x', window));
}

Lowering::Status Lowering::lower_isspacep(Scope& scope, const Instruction& in) {
  if (in.operands.size() != 2 || in.modifiers.size() != 1) return error("no such opcode");
  std::string space = in.modifiers[0];
  std::uint64_t window = 0;
  if (space == "shared" || space == "shared::cta") window = kSharedWindow;
  if (space == "local") window = kLocalWindow;
  if (space == "param" || space == "param::entry") window = kParamWindow;
  if (window == 0 && space != "global") return error("no such opcode");
  LS_ASSIGN(const std::uint32_t d, destination(scope, in.operands[0], 'p'));
  LS_ASSIGN(const std::uint32_t a, source(scope, in.operands[1], 'x'));
  LS_ASSIGN(const Row* found, row(window == 0 ? "isspacep.global" : "isspacep.window"));
  Instr& instr = emit(*found);
  instr.d = d;
  instr.a = a;
  instr.immediate = window;
  return base::Ok{};
}

}  // namespace lockstep::device::vgpu::exec
