// mov, setp, set, cvt, lop3, shfl and other instructions whose operands need a hand.
#include "base/check.h"
#include "device/vgpu/exec/lower_state.h"
#include "device/vgpu/exec/registers.h"

namespace lockstep::device::vgpu::exec {

using ptx::Instruction;
using ptx::Operand;

namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += "." + part;
  return text;
}
// Register letter of a type in its natural width.
char natural_letter(const std::string& type) {
  if (type == "e4m3x2" || type == "e5m2x2") return 'h';
  if (type == "f16x2" || type == "bf16x2" || type == "tf32") return 'w';
  if (type.ends_with("64")) return 'x';
  if (type.ends_with("32")) return 'w';
  return 'h';
}

}  // namespace

// mov.b64 {a, b}, c and its like.
Lowering::Status Lowering::lower_unpack(Scope& scope, const Instruction& in) {
  const std::vector<Operand>& parts = in.operands[0].elements;
  const std::string& type = in.modifiers.back();
  const char whole = natural_letter(type);
  const std::size_t bits = whole == 'x' ? 64 : 32;
  const char part = bits / parts.size() == 32 ? 'w' : 'h';
  if (bits / parts.size() != 32 && bits / parts.size() != 16) return error("no such opcode");
  LS_ASSIGN(const std::uint32_t a, source(scope, in.operands[1], whole));
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].kind == Operand::Kind::Sink) continue;
    LS_ASSIGN(const std::uint32_t d, destination(scope, parts[k], part));
    LS_TRY(emit_key("part." + std::to_string(k) + "." + part + "." + whole, d, a));
  }
  return base::Ok{};
}

// Whether register `to`, written by the current instruction only, is read nowhere but in the
// straight line of code behind it, and before `from` is written again.
bool Lowering::is_local_copy(const Scope& scope, std::uint32_t to, std::uint32_t from) const {
  const ptx::Function& function = *scope.function;
  std::uint32_t left = scope.occurrences[to] - 1;
  for (std::uint32_t k = current_index_ + 1; left != 0; ++k) {
    if (k >= function.instructions.size() || function.is_label_target[k]) return false;
    bool overwritten = false;
    for_each_register(function.instructions[k], [&](std::uint32_t index, bool is_written) {
      if (index == to) --left;
      overwritten = overwritten || (is_written && index == from);
    });
    if (overwritten) return false;
    if (left != 0 && ends_straight_line(function.instructions[k])) return false;
  }
  return true;
}

// Whether the register that `in` writes may become another name of a register that keeps its value.
bool Lowering::can_rename(const Scope& scope, const Instruction& in, const Operand& to) const {
  return !in.guard && to.kind == Operand::Kind::Register && !to.second_register &&
         scope.writes[to.index] == 1 && scope.registers[to.index] == 0 &&
         !scope.unwritten[to.index];
}

// A move that needs no instruction: its destination becomes another name of what it copies, because
// it is written nowhere else and the source keeps its value as long as it is read.
bool Lowering::alias_move(Scope& scope, const Instruction& in) {
  const Operand& to = in.operands[0];
  const Operand& from = in.operands[1];
  if (!can_rename(scope, in, to)) return false;
  const char letter = letter_of(scope, to);
  if (letter == 'p') return false;
  if (from.kind == Operand::Kind::Register) {
    if (letter_of(scope, from) != letter || from.index == to.index) return false;
    if (!scope.is_entry_value[from.index] && !is_local_copy(scope, to.index, from.index)) {
      return false;
    }
    scope.registers[to.index] = register_offset(scope, from.index);
    return true;
  }
  const bool is_word =
      from.kind == Operand::Kind::Special && letter == 'w' && !is_clock(from.special);
  if (from.kind != Operand::Kind::Immediate && from.kind != Operand::Kind::Symbol && !is_word) {
    return false;
  }
  const auto place = source(scope, from, letter);
  if (!place) return false;
  scope.registers[to.index] = place.value();
  return true;
}

Lowering::Status Lowering::lower_mov(Scope& scope, const Instruction& in) {
  if (in.operands.size() != 2 || in.modifiers.size() != 1) return error("no such opcode");
  const Operand& to = in.operands[0];
  const Operand& from = in.operands[1];
  if (to.kind == Operand::Kind::Vector) return lower_unpack(scope, in);
  if (from.kind != Operand::Kind::Vector) {
    const char letter = letter_of(scope, to);
    if (letter == 0 || (letter == 'p') != (in.modifiers[0] == "pred")) {
      return error("mov to a register of the wrong width");
    }
    if (alias_move(scope, in)) return base::Ok{};
    const char* width = letter == 'h'   ? "b16"
                        : letter == 'w' ? "b32"
                        : letter == 'x' ? "b64"
                                        : "pred";
    return lower_plain(scope, in, std::string("mov.") + width);
  }
  const char whole = natural_letter(in.modifiers[0]);
  LS_ASSIGN(const std::uint32_t d, destination(scope, to, whole));
  std::vector<std::uint32_t> parts;
  const std::size_t bits = (whole == 'x' ? 64 : whole == 'w' ? 32 : 16) / from.elements.size();
  if (bits != 32 && bits != 16) return error("no such opcode");
  for (const Operand& element : from.elements) {
    LS_ASSIGN(const std::uint32_t offset, source(scope, element, bits == 32 ? 'w' : 'h'));
    parts.push_back(offset);
  }
  if (whole == 'x' && bits == 16) {
    const std::uint32_t low = allocate('w'), high = allocate('w');
    LS_TRY(emit_key("join.w.h", low, parts[0], parts[1]));
    LS_TRY(emit_key("join.w.h", high, parts[2], parts[3]));
    parts = {low, high};
  }
  return emit_key(whole == 'x' ? "join.x.w" : "join.w.h", d, parts[0], parts[1]);
}

// setp.CMP{.BOOL}{.ftz}.type p{|q}, a, b{, {!}c}: p = (a CMP b) BOOL c, q = !(a CMP b) BOOL c.
Lowering::Status Lowering::lower_setp(Scope& scope, const Instruction& in) {
  std::string boolean;
  std::vector<std::string> kept;
  for (const std::string& modifier : in.modifiers) {
    if (modifier == "and" || modifier == "or" || modifier == "xor") {
      boolean = modifier;
    } else {
      kept.push_back(modifier);
    }
  }
  if (in.operands.size() != (boolean.empty() ? 3u : 4u)) return error("wrong number of operands");
  LS_ASSIGN(const Row* found, row("setp" + joined(kept)));
  const char letter = found->signature[1];
  LS_ASSIGN(const std::uint32_t p, destination(scope, in.operands[0], 'p'));
  const std::uint32_t q = second_destination(scope, in.operands[0]);
  LS_ASSIGN(const std::uint32_t a, source(scope, in.operands[1], letter));
  LS_ASSIGN(const std::uint32_t b, source(scope, in.operands[2], letter));
  const bool is_packed = kept.back().ends_with("x2");
  const bool plain = boolean.empty() && (q == 0 || is_packed);
  const std::uint32_t first = plain ? p : allocate('p');
  const std::uint32_t second = is_packed ? (plain && q != 0 ? q : allocate('p')) : 0;
  Instr& instr = emit(*found);
  instr.d = first;
  instr.a = a;
  instr.b = b;
  instr.e = second;
  if (plain) return base::Ok{};
  std::uint32_t inverse = second;
  if (!is_packed && q != 0) {
    inverse = allocate('p');
    LS_TRY(emit_key("not.pred", inverse, first));
  }
  if (boolean.empty()) {
    LS_TRY(emit_key("mov.pred", p, first));
    return emit_key("mov.pred", q, inverse);
  }
  LS_ASSIGN(const std::uint32_t c, source(scope, in.operands[3], 'p'));
  // c may be p itself: q first.
  if (q != 0) {
    const std::uint32_t combined = allocate('p');
    LS_TRY(emit_key(boolean + ".pred", combined, inverse, c));
    LS_TRY(emit_key(boolean + ".pred", p, first, c));
    return emit_key("mov.pred", q, combined);
  }
  return emit_key(boolean + ".pred", p, first, c);
}

// set.CMP{.BOOL}.dtype.stype d, a, b{, c}: all ones or 1.0 where setp holds, else zero.
Lowering::Status Lowering::lower_set(Scope& scope, const Instruction& in) {
  std::string boolean;
  std::vector<std::string> kept;
  for (const std::string& modifier : in.modifiers) {
    if (modifier == "and" || modifier == "or" || modifier == "xor") {
      boolean = modifier;
    } else {
      kept.push_back(modifier);
    }
  }
  if (kept.size() < 3 || in.operands.size() != (boolean.empty() ? 3u : 4u)) {
    return error("no such opcode");
  }
  const std::string result = kept[kept.size() - 2];
  kept.erase(kept.end() - 2);
  const bool is_packed = kept.back().ends_with("x2");
  LS_ASSIGN(const Row* found, row("setp" + joined(kept)));
  const char letter = found->signature[1];
  LS_ASSIGN(const std::uint32_t a, source(scope, in.operands[1], letter));
  LS_ASSIGN(const std::uint32_t b, source(scope, in.operands[2], letter));
  const std::uint32_t low = allocate('p'), high = is_packed ? allocate('p') : 0;
  Instr& instr = emit(*found);
  instr.d = low;
  instr.a = a;
  instr.b = b;
  instr.e = high;
  if (!boolean.empty()) {
    LS_ASSIGN(const std::uint32_t c, source(scope, in.operands[3], 'p'));
    LS_TRY(emit_key(boolean + ".pred", low, low, c));
    if (is_packed) LS_TRY(emit_key(boolean + ".pred", high, high, c));
  }
  std::uint64_t one = 0xffffffff;
  if (result == "f32") one = 0x3f800000;
  if (result.starts_with("f16")) one = 0x3c00;
  if (result.starts_with("bf16")) one = 0x3f80;
  if (!is_packed) {
    const char to = natural_letter(result);
    LS_ASSIGN(const std::uint32_t d, destination(scope, in.operands[0], to));
    return emit_key(to == 'h' ? "selp.b16" : "selp.b32", d, constant(to, one), constant(to, 0),
                    low);
  }
  LS_ASSIGN(const std::uint32_t d, destination(scope, in.operands[0], 'w'));
  const std::uint32_t halves[2] = {allocate('h'), allocate('h')};
  for (std::uint32_t k = 0; k < 2; ++k) {
    LS_TRY(
        emit_key("selp.b16", halves[k], constant('h', one), constant('h', 0), k == 0 ? low : high));
  }
  return emit_key("join.w.h", d, halves[0], halves[1]);
}

Lowering::Status Lowering::lower_cvt(Scope& scope, const Instruction& in) {
  if (in.modifiers.size() < 2) return error("no such opcode");
  LS_ASSIGN(const Row* found, row(in.spelled()));
  const std::size_t sources = std::string_view(found->signature).size() - 1;
  if (in.operands.size() != sources + 1) return error("wrong number of operands");
  const std::string& from = in.modifiers.back();
  const std::string& to = in.modifiers[in.modifiers.size() - 2];
  std::uint32_t offsets[2] = {0, 0};
  for (std::size_t k = 0; k < sources; ++k) {
    const Operand& operand = in.operands[k + 1];
    const char want = found->signature[k + 1], actual = letter_of(scope, operand);
    if (actual == 0 || actual == want || sources > 1) {
      LS_ASSIGN(offsets[k], source(scope, operand, want));
      continue;
    }
    // A register wider than the type: its low bits.
    if (!(actual == 'x' || (actual == 'w' && want == 'h'))) {
      return error("cvt from a register narrower than ." + from);
    }
    offsets[k] = allocate(want);
    LS_TRY(emit_key(std::string("part.0.") + want + "." + actual, offsets[k],
                    register_offset(scope, operand.index)));
  }
  const char natural = found->signature[0];
  const char actual = letter_of(scope, in.operands[0]);
  if (actual == natural || actual == 0) {
    LS_ASSIGN(const std::uint32_t d, destination(scope, in.operands[0], natural));
    return emit_key(in.spelled(), d, offsets[0], offsets[1]);
  }
  // A destination wider than the type: extended by the type's sign.
  if (!(actual == 'x' || (actual == 'w' && natural == 'h'))) {
    return error("cvt to a register narrower than ." + to);
  }
  const std::uint32_t narrow = allocate(natural);
  LS_TRY(emit_key(in.spelled(), narrow, offsets[0], offsets[1]));
  const std::string sign = to[0] == 's' ? "s" : "u";
  return emit_key(
      "cvt." + sign + (actual == 'x' ? "64." : "32.") + sign + (natural == 'w' ? "32" : "16"),
      register_offset(scope, in.operands[0].index), narrow);
}

Lowering::Status Lowering::lower_lop3(Scope& scope, const Instruction& in) {
  if (in.spelled() != "lop3.b32" || in.operands.size() != 5 ||
      in.operands[4].kind != Operand::Kind::Immediate) {
    return error("no such opcode");
  }
  LS_ASSIGN(const Row* found, row("lop3.b32"));
  LS_ASSIGN(const std::uint32_t d, destination(scope, in.operands[0], 'w'));
  LS_ASSIGN(const std::uint32_t a, source(scope, in.operands[1], 'w'));
  LS_ASSIGN(const std::uint32_t b, source(scope, in.operands[2], 'w'));
  LS_ASSIGN(const std::uint32_t c, source(scope, in.operands[3], 'w'));
  Instr& instr = emit(*found);
  instr.d = d;
  instr.a = a;
  instr.b = b;
  instr.c = c;
  instr.immediate = in.operands[4].bits & 0xff;
  return base::Ok{};
}

Lowering::Status Lowering::lower_shfl(Scope& scope, const Instruction& in) {
  if (in.operands.size() != 5) return error("wrong number of operands");
  LS_ASSIGN(const Row* found, row(in.spelled()));
  LS_ASSIGN(const std::uint32_t d, destination(scope, in.operands[0], 'w'));
  const std::uint32_t second = second_destination(scope, in.operands[0]);
  std::uint32_t sources[4];
  for (std::size_t k = 0; k < 4; ++k) {
    LS_ASSIGN(sources[k], source(scope, in.operands[k + 1], 'w'));
  }
  Instr& instr = emit(*found);
  instr.d = d;
  instr.a = sources[0];
  instr.b = sources[1];
  instr.c = sources[2];
  instr.e = sources[3];
  instr.f = second;
  return base::Ok{};
}

// match.all d|p, a, mask; elect.sync d|p, mask.
Lowering::Status Lowering::lower_with_predicate(Scope& scope, const Instruction& in) {
  const bool is_elect = in.name == "elect";
  LS_ASSIGN(const Row* found, row(in.spelled()));
  if (in.operands.size() != (is_elect ? 2u : 3u)) return error("wrong number of operands");
  const Operand& result = in.operands[0];
  const std::uint32_t p = second_destination(scope, result);
  if (is_elect && p == 0) return error("elect.sync needs a predicate");
  LS_ASSIGN(const std::uint32_t d, destination(scope, result, 'w'));
  LS_ASSIGN(const std::uint32_t a,
            source(scope, in.operands[1], is_elect ? 'w' : found->signature[1]));
  std::uint32_t b = 0;
  if (!is_elect) {
    LS_ASSIGN(b, source(scope, in.operands[2], 'w'));
  }
  Instr& instr = emit(*found);
  instr.d = d;
  instr.a = a;
  instr.b = b;
  instr.f = p;
  return base::Ok{};
}

}  // namespace lockstep::device::vgpu::exec
