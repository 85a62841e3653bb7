// Variables of any state space, and what they start with.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/checked.h"
#include "device/vgpu/ptx/parser_state.h"

namespace lockstep::device::vgpu::ptx {
namespace {

bool is_float(Type type) { return type == Type::F32 || type == Type::F64; }

}  // namespace

bool Parser::parse_attribute() {
  if (!expect('(') || !skip_to(')')) return false;  // .attribute(.managed): global memory here
  return true;
}

// Everything between the state space and the name: .align 8, .ptr .global .align 4, .v4, the type.
bool Parser::parse_declaration_prefix(Variable& variable) {
  std::uint32_t elements = 1;
  bool is_pointer = false;
  bool is_aligned = false;
  for (;;) {
    if (accept_dotted("align")) {
      std::uint32_t alignment = 0;
      if (!expect_u32(alignment, "an alignment")) return false;
      if (!std::has_single_bit(alignment)) return fail("an alignment must be a power of two");
      if (is_pointer) continue;  // of what the parameter points to
      variable.alignment = alignment;
      is_aligned = true;
    } else if (accept_dotted("attribute")) {
      if (!parse_attribute()) return false;
    } else if (accept_dotted("ptr")) {
      is_pointer = true;
    } else if (is_pointer && (accept_dotted("global") || accept_dotted("shared") ||
                              accept_dotted("const") || accept_dotted("local"))) {
      continue;
    } else if (accept_dotted("v2")) {
      elements = 2;
    } else if (accept_dotted("v4")) {
      elements = 4;
    } else if (token_.kind == Token::Kind::Dotted) {
      const std::optional<Type> type = find_type(token_.text);
      if (!type || *type == Type::Pred) {
        return unsupported("." + std::string(token_.text) + " is no supported type of a variable");
      }
      variable.type = *type;
      variable.size_bytes = std::uint64_t{vgpu::ptx::size_bytes(*type)} * elements;
      if (!is_aligned) variable.alignment = static_cast<std::uint32_t>(variable.size_bytes);
      advance();
    } else {
      break;
    }
  }
  return variable.size_bytes > 0 || unexpected("a type");
}

// [4][8]; [] (the first only) is 0.
bool Parser::parse_dimensions(Variable& variable, std::vector<std::uint64_t>& dimensions) {
  while (accept('[')) {
    std::uint64_t count = 0;
    if (!token_.is(']')) {
      if (!parse_expression(count, 0)) return false;
      if (count == 0) return fail("an array must have elements");
    } else if (!dimensions.empty()) {
      return fail("only the first dimension of an array may be left out");
    }
    if (!expect(']')) return false;
    dimensions.push_back(count);
    if (dimensions.size() > kMaxNesting) return fail("an array must have at most 64 dimensions");
    const auto bytes = base::checked_mul(variable.size_bytes, std::max<std::uint64_t>(count, 1));
    if (!bytes || *bytes >> 48 != 0) return fail("an array must be smaller than 2^48 bytes");
    variable.size_bytes = *bytes;
  }
  return true;
}

bool Parser::parse_declarator(Variable& variable, std::string_view& name, bool may_initialise) {
  if (!expect_identifier(name, "a variable's name")) return false;
  variable.name = name;
  const std::uint64_t element_bytes = variable.size_bytes;
  std::vector<std::uint64_t> dimensions;
  if (token_.is('<')) return unsupported("a range of variables is not supported");
  if (!parse_dimensions(variable, dimensions)) return false;
  const bool is_open = !dimensions.empty() && dimensions[0] == 0;
  if (is_open && !token_.is('=')) variable.size_bytes = 0;
  if (!token_.is('=')) return true;
  advance();
  if (!may_initialise) return fail("only .global and .const variables may have an initial value");
  // A vector's elements are one more dimension.
  const std::uint64_t scalar_bytes = vgpu::ptx::size_bytes(variable.type);
  if (element_bytes != scalar_bytes) dimensions.push_back(element_bytes / scalar_bytes);
  if (!dimensions.empty() && !token_.is('{')) return unexpected("'{'");
  if (!parse_initialiser(variable, dimensions, 0, 0)) return false;
  if (is_open) {
    std::uint64_t row = scalar_bytes;
    for (std::size_t level = 1; level < dimensions.size(); ++level) row *= dimensions[level];
    const std::uint64_t rows = (variable.initial.size() + row - 1) / row;
    variable.size_bytes = rows * row;
  }
  return true;
}

// One level of a list; `first`: the index of its first element.
bool Parser::parse_initialiser(Variable& variable, const std::vector<std::uint64_t>& dimensions,
                               std::size_t level, std::uint64_t first) {
  const std::uint64_t scalar_bytes = vgpu::ptx::size_bytes(variable.type);
  if (level == dimensions.size()) return parse_initial_value(variable, first * scalar_bytes);
  if (!expect('{')) return false;
  std::uint64_t stride = 1;
  for (std::size_t i = level + 1; i < dimensions.size(); ++i) stride *= dimensions[i];
  std::uint64_t count = 0;
  do {
    if (dimensions[level] != 0 && count == dimensions[level]) {
      return fail("an initialiser must have at most " + std::to_string(dimensions[level]) +
                  " elements here");
    }
    if (!parse_initialiser(variable, dimensions, level + 1, first + count * stride)) return false;
    ++count;
  } while (accept(','));
  return expect('}');
}

bool Parser::put_initial(Variable& variable, std::uint64_t offset, std::uint64_t bits,
                         std::uint32_t size) {
  const std::uint64_t had = variable.initial.size();
  if (had < offset + size) {
    // What nested lists leave out is zero; a short text must not make a large one.
    const std::uint64_t growth = offset + size - had;
    if (growth > initial_budget_) return fail("an initialiser must not leave out so many elements");
    initial_budget_ -= growth;
    variable.initial.resize(offset + size);
  }
  for (std::uint32_t i = 0; i < size; ++i) {
    variable.initial[offset + i] = i < 8 ? static_cast<std::uint8_t>(bits >> (8 * i)) : 0;
  }
  return true;
}

// symbol, generic(symbol), either with "+ 8"; the token in hand is the name.
bool Parser::parse_initial_address(Variable& variable, std::uint64_t offset, std::uint32_t shift,
                                   std::uint32_t size) {
  std::string_view symbol;
  if (!expect_identifier(symbol, "a variable's name")) return false;
  Relocation relocation{.offset_bytes = offset,
                        .size_bytes = size,
                        .shift_bytes = shift,
                        .symbol = {},
                        .line = token_.line};
  if (symbol == "generic" && accept('(')) {
    relocation.is_generic = true;
    if (!expect_identifier(symbol, "a variable's name") || !expect(')')) return false;
  }
  relocation.symbol = symbol;
  if (!parse_offset(relocation.addend)) return false;
  variable.relocations.push_back(std::move(relocation));
  return put_initial(variable, offset, 0, size);
}

bool Parser::parse_initial_value(Variable& variable, std::uint64_t offset) {
  const std::uint32_t size = vgpu::ptx::size_bytes(variable.type);
  if (token_.kind == Token::Kind::Identifier) {
    if (size != 8 && size != 4) return fail("an address must have 4 or 8 bytes");
    return parse_initial_address(variable, offset, 0, size);
  }
  const std::uint32_t line = token_.line;
  Operand number;
  if (!parse_number(number)) return false;
  if (number.is_float_immediate != is_float(variable.type)) {
    return fail(line, "an initial value must have its variable's type");
  }
  if (token_.is('(')) {  // 0xFF00(address): one byte of it
    advance();
    const int shift = number.bits == 0 ? 0 : std::countr_zero(number.bits);
    if (shift % 8 != 0 || number.bits != std::uint64_t{0xff} << shift || size != 1) {
      return fail(line, "an address's mask must select one byte of it");
    }
    return parse_initial_address(variable, offset, static_cast<std::uint32_t>(shift / 8), 1) &&
           expect(')');
  }
  if (variable.type == Type::F32 && number.is_double_immediate) {
    const double value = std::bit_cast<double>(number.bits);
    number.bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  } else if (variable.type == Type::F64 && !number.is_double_immediate) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(number.bits));
    number.bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
  }
  return put_initial(variable, offset, number.bits, size);
}

bool Parser::keep_variable(Variable variable, std::string_view name) {
  if (function_ != nullptr && variable.space != Space::Global && variable.space != Space::Const) {
    const auto index = static_cast<std::uint32_t>(function_->variables.size());
    const Name entry{.kind = Name::Kind::Variable,
                     .variable = {VariableReference::Owner::Function, index}};
    if (!scopes_.back().add(name, entry)) return fail(variable.name + " is declared already");
    function_->variables.push_back(std::move(variable));
    return true;
  }
  const auto index = static_cast<std::uint32_t>(module_.variables.size());
  if (function_ != nullptr) {  // lives as long as the module, but is visible in its scope only
    const Name entry{.kind = Name::Kind::Variable,
                     .variable = {VariableReference::Owner::Module, index}};
    if (!scopes_.back().add(name, entry)) return fail(variable.name + " is declared already");
    module_.variables.push_back(std::move(variable));
    return true;
  }
  const auto [at, is_new] = module_names_.emplace(variable.name, index);
  if (is_new) {
    module_.variables.push_back(std::move(variable));
    return true;
  }
  Variable& known = module_.variables[at->second];
  if (variable.is_extern && variable.space == known.space) return true;
  if (!known.is_extern || variable.space != known.space) {
    return fail(variable.name + " is declared already");
  }
  known = std::move(variable);
  return true;
}

bool Parser::parse_variables(Space space, const Linkage& linkage) {
  Variable prefix{.name = {}, .space = space, .is_extern = linkage.is_extern};
  if (!parse_declaration_prefix(prefix)) return false;
  const bool may_initialise = space == Space::Global || space == Space::Const;
  do {
    Variable variable = prefix;
    std::string_view name;
    if (!parse_declarator(variable, name, may_initialise)) return false;
    if (variable.size_bytes == 0 && !variable.is_extern) {
      return fail(variable.name + " must have a size");
    }
    if (!keep_variable(std::move(variable), name)) return false;
  } while (accept(','));
  return expect(';');
}

// ( .param .u64 .ptr .align 1 a, .param .align 8 .b8 b[16] )
bool Parser::parse_parameters(std::vector<Variable>& list, VariableReference::Owner owner) {
  if (!expect('(')) return false;
  if (accept(')')) return true;
  do {
    if (at_dotted("reg")) return unsupported("parameters in registers are not supported");
    if (!accept_dotted("param")) return unexpected(".param");
    Variable variable{.name = {}, .space = Space::Param};
    std::string_view name;
    if (!parse_declaration_prefix(variable)) return false;
    if (!parse_declarator(variable, name, false)) return false;
    if (variable.size_bytes == 0) return unsupported("variadic parameters are not supported");
    const auto index = static_cast<std::uint32_t>(list.size());
    const Name entry{.kind = Name::Kind::Variable, .variable = {owner, index}};
    if (!scopes_.back().add(name, entry)) return fail(variable.name + " is declared already");
    list.push_back(std::move(variable));
  } while (accept(','));
  return expect(')');
}

}  // namespace lockstep::device::vgpu::ptx
