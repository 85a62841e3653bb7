// Operands of an instruction: registers, constants, special registers, addresses of symbols.
#include <bit>

#include "base/check.h"
#include "device/vgpu/exec/lower_state.h"

namespace lockstep::device::vgpu::exec {

using ptx::Operand;
using ptx::SpecialRegister;

// h, w, x: 16, 32, 64 bits; p: predicate; 0: none of these.
char Lowering::letter_of(ptx::Type type) {
  if (type == ptx::Type::Pred) return 'p';
  switch (ptx::size_bytes(type)) {
    case 1:
    case 2:
      return 'h';
    case 4:
      return 'w';
    case 8:
      return 'x';
    default:
      return 0;
  }
}
char Lowering::letter_of(const Scope& scope, const Operand& operand) const {
  if (operand.kind != Operand::Kind::Register) return 0;
  return letter_of(scope.function->registers[operand.index].type);
}

std::uint32_t register_bytes(char letter) {
  return letter == 'h' ? 64 : letter == 'w' ? 128 : letter == 'x' ? 256 : 4;
}

std::uint32_t Lowering::allocate(char letter) {
  const std::uint32_t size = register_bytes(letter);
  // Vectors of registers are whole cache lines; predicates fill lines of their own.
  if (letter == 'p') {
    if (next_predicate_ % 64 == 0) {
      next_predicate_ = next_register_;
      next_register_ += 64;
    }
    next_predicate_ += 4;
    return next_predicate_ - 4;
  }
  const std::uint32_t offset = next_register_;
  next_register_ += size;
  return offset;
}

std::uint32_t Lowering::constant(char letter, std::uint64_t bits) {
  if (letter == 'h') bits &= 0xffff;
  if (letter == 'w') bits &= 0xffffffff;
  if (letter == 'p') bits = bits != 0 ? 1 : 0;
  const auto [place, is_new] = constants_.try_emplace({letter, bits}, 0);
  if (is_new) {
    place->second = allocate(letter);
    const std::uint32_t size = letter == 'h' ? 2 : letter == 'w' ? 4 : letter == 'x' ? 8 : 0;
    program_->constants.push_back({place->second, size, bits});
  }
  return place->second;
}

std::uint32_t Lowering::special(SpecialRegister which, char letter) {
  const auto [place, is_new] = specials_.try_emplace(which, 0);
  if (is_new) {
    place->second = allocate(letter);
    program_->specials.push_back({place->second, which});
  }
  return place->second;
}

std::uint32_t Lowering::register_offset(Scope& scope, std::uint32_t index) {
  std::uint32_t& offset = scope.registers[index];
  if (offset == 0) offset = allocate(letter_of(scope.function->registers[index].type));
  return offset;
}

bool Lowering::is_clock(SpecialRegister which) {
  return which == SpecialRegister::Clock || which == SpecialRegister::Clock64 ||
         which == SpecialRegister::ClockHi || which == SpecialRegister::GlobalTimer ||
         which == SpecialRegister::GlobalTimerLo || which == SpecialRegister::GlobalTimerHi ||
         which == SpecialRegister::GridId;
}

Lowering::Offset Lowering::special_source(Scope&, const Operand& operand, char letter) {
  switch (operand.special) {
    case SpecialRegister::Clock:
    case SpecialRegister::GlobalTimerLo: {
      if (letter != 'w') return error("a clock register of the wrong width");
      const std::uint32_t temporary = allocate('w');
      LS_TRY(emit_key("#clock.w", temporary));
      return temporary;
    }
    case SpecialRegister::Clock64:
    case SpecialRegister::GlobalTimer: {
      if (letter != 'x') return error("a clock register of the wrong width");
      const std::uint32_t temporary = allocate('x');
      LS_TRY(emit_key("#clock.x", temporary));
      return temporary;
    }
    case SpecialRegister::ClockHi:
    case SpecialRegister::GlobalTimerHi:
      return constant(letter, 0);
    case SpecialRegister::GridId:
      return constant(letter, 1);
    default:
      break;
  }
  const std::uint32_t word = special(operand.special, 'w');
  if (letter == 'w') return word;
  if (letter != 'x' && letter != 'h') return error("a special register of the wrong width");
  const std::uint32_t temporary = allocate(letter);
  LS_TRY(emit_key(letter == 'x' ? "cvt.u64.u32" : "cvt.u16.u32", temporary, word));
  return temporary;
}

Lowering::Offset Lowering::source(Scope& scope, const Operand& operand, char letter) {
  switch (operand.kind) {
    case Operand::Kind::Register: {
      const char actual = letter_of(scope, operand);
      if (actual != letter) {
        return error("register " + scope.function->registers[operand.index].name +
                     " has the wrong width");
      }
      const std::uint32_t offset = register_offset(scope, operand.index);
      if (!operand.negated) return offset;
      const std::uint32_t temporary = allocate('p');
      LS_TRY(emit_key("not.pred", temporary, offset));
      return temporary;
    }
    case Operand::Kind::Immediate: {
      std::uint64_t bits = operand.bits;
      if (operand.is_double_immediate && letter == 'w') {
        bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
      } else if (operand.is_float_immediate && !operand.is_double_immediate && letter == 'x') {
        const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
      }
      return constant(letter, bits);
    }
    case Operand::Kind::Special:
      return special_source(scope, operand, letter);
    case Operand::Kind::Symbol: {
      LS_ASSIGN(const std::uint64_t value, symbol_value(scope, operand));
      return constant(letter, value);
    }
    case Operand::Kind::Address:
    case Operand::Kind::Vector:
    case Operand::Kind::Label:
    case Operand::Kind::Sink:
      break;
  }
  return error("an operand of this kind cannot stand here");
}

Lowering::Offset Lowering::destination(Scope& scope, const Operand& operand, char letter) {
  if (operand.kind == Operand::Kind::Sink) return allocate(letter);
  if (operand.kind != Operand::Kind::Register) return error("the destination is no register");
  if (letter_of(scope, operand) != letter) {
    return error("register " + scope.function->registers[operand.index].name +
                 " has the wrong width");
  }
  return register_offset(scope, operand.index);
}
std::uint32_t Lowering::second_destination(Scope& scope, const Operand& operand) {
  if (!operand.second_register) return 0;
  return register_offset(scope, *operand.second_register);
}

std::optional<std::uint64_t> Lowering::frame_offset(const Scope& scope,
                                                    const ptx::Variable* variable) const {
  const auto place = scope.frame.find(variable);
  if (place == scope.frame.end()) return std::nullopt;
  return place->second;
}

// The value of a symbol as `mov` gives it: an address in the variable's own space; parameters have
// generic addresses, for they are read through ld.param or generic loads.
base::Result<std::uint64_t> Lowering::symbol_value(const Scope& scope,
                                                   const Operand& operand) const {
  const ptx::Variable* variable = operand.variable;
  if (variable == nullptr) return error("the address of \"" + operand.symbol + "\" is not known");
  const auto offset = static_cast<std::uint64_t>(operand.offset);
  if (const auto place = shared_.find(variable); place != shared_.end()) {
    return place->second + offset;
  }
  if (const auto place = params_.find(variable); place != params_.end()) {
    return kParamWindow + place->second + offset;
  }
  if (const auto place = frame_offset(scope, variable)) {
    return (variable->space == ptx::Space::Param ? kLocalWindow : 0) + *place + offset;
  }
  if (variable->space == ptx::Space::Global || variable->space == ptx::Space::Const) {
    return options_.global_address(variable) + offset;
  }
  return error("the address of \"" + variable->name + "\" is not known");
}

base::Result<Lowering::Address> Lowering::address(Scope& scope, const Operand& operand,
                                                  const std::string& space) {
  if (operand.kind != Operand::Kind::Address && operand.kind != Operand::Kind::Symbol) {
    return error("an address is expected here");
  }
  const char letter = space == "shared" ? 'w' : 'x';
  if (operand.has_register) {
    Operand base;
    base.kind = Operand::Kind::Register;
    base.index = operand.index;
    const char actual = letter_of(scope, base);
    if (actual == letter) return Address{register_offset(scope, operand.index), operand.offset};
    if (actual != 'w' && actual != 'x') return error("an address register of the wrong width");
    const std::uint32_t temporary = allocate(letter);
    LS_TRY(emit_key(letter == 'w' ? "cvt.u32.u64" : "cvt.u64.u32", temporary,
                    register_offset(scope, operand.index)));
    return Address{temporary, operand.offset};
  }
  if (operand.variable == nullptr) {
    return Address{constant(letter, 0), static_cast<std::int64_t>(operand.bits) + operand.offset};
  }
  LS_ASSIGN(std::uint64_t value, symbol_value(scope, operand));
  if (space == "generic") {
    if (operand.variable->space == ptx::Space::Shared) value += kSharedWindow;
    if (operand.variable->space == ptx::Space::Local) value += kLocalWindow;
  }
  if (space == "local" && operand.variable->space == ptx::Space::Param) value -= kLocalWindow;
  return Address{constant(letter, 0), static_cast<std::int64_t>(value)};
}

}  // namespace lockstep::device::vgpu::exec
