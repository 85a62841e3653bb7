// Instructions and their operands.
#include <bit>
#include <utility>

#include "device/vgpu/ptx/parser_state.h"

namespace lockstep::device::vgpu::ptx {

bool Parser::parse_guarded() {
  advance();
  const bool negated = accept('!');
  std::string_view name;
  if (!expect_identifier(name, "a predicate")) return false;
  const std::optional<Name> predicate = find_name(name);
  if (!predicate || predicate->kind != Name::Kind::Register ||
      function_->registers[predicate->register_index].type != Type::Pred) {
    return fail("a guard must be a predicate register, found " + std::string(name));
  }
  const std::uint32_t line = token_.line;
  if (!expect_identifier(name, "an instruction")) return false;
  const std::size_t index = function_->instructions.size();
  if (!parse_instruction(name, line)) return false;
  function_->instructions[index].guard = predicate->register_index;
  function_->instructions[index].guard_negated = negated;
  return true;
}

bool Parser::parse_instruction(std::string_view name, std::uint32_t line) {
  if (++instruction_count_ > limits_.ptx_instructions) {
    return fail(line, "a module must have at most " + std::to_string(limits_.ptx_instructions) +
                          " instructions (ptx_instructions)");
  }
  if (name[0] < 'a' || name[0] > 'z') {
    return fail(line, "an instruction must come here, found " + std::string(name));
  }
  Instruction& instruction = function_->instructions.emplace_back();
  function_->is_label_target.push_back(false);
  instruction.name = name;
  instruction.line = line;
  instruction.source_file = location_.file;
  instruction.source_line = location_.line;
  instruction.outer_file = location_.outer_file;
  instruction.outer_line = location_.outer_line;
  while (token_.kind == Token::Kind::Dotted) {
    instruction.modifiers.emplace_back(token_.text);
    advance();
  }
  if (name == "call") return parse_call();
  if (name == "brx") return parse_branch_index();
  return parse_operands();
}

bool Parser::parse_operands() {
  if (accept(';')) return true;
  Instruction& instruction = function_->instructions.back();
  do {
    // A branch's only operand is a label; no register or variable can stand there.
    if (instruction.name == "bra" && token_.kind == Token::Kind::Identifier) {
      const std::string_view label = token_.text;
      const std::uint32_t line = token_.line;
      advance();
      Operand& operand = instruction.operands.emplace_back();
      if (!parse_label_operand(label, line, -1, operand)) return false;
    } else {
      Operand operand;
      if (!parse_operand(operand, 0)) return false;
      instruction.operands.push_back(std::move(operand));
    }
  } while (accept(','));
  return expect(';');
}

// `operand` is element `element` of the instruction's last operand, or (-1) that operand itself.
bool Parser::parse_label_operand(std::string_view name, std::uint32_t line, std::int32_t element,
                                 Operand& operand) {
  const auto instruction = static_cast<std::uint32_t>(function_->instructions.size() - 1);
  const auto last = static_cast<std::uint32_t>(function_->instructions.back().operands.size() - 1);
  operand.kind = Operand::Kind::Label;
  scopes_.back().pending.push_back({name, instruction, last, element, line});
  return true;
}

// brx.idx INDEX, LIST; the list was named by .branchtargets
bool Parser::parse_branch_index() {
  Instruction& instruction = function_->instructions.back();
  Operand index;
  if (!parse_operand(index, 0) || !expect(',')) return false;
  const std::uint32_t line = token_.line;
  std::string_view list;
  if (!expect_identifier(list, "a list of labels")) return false;
  const auto targets = branch_targets_.find(list);
  if (targets == branch_targets_.end()) {
    return fail(line, "brx.idx must name a .branchtargets list, found " + std::string(list));
  }
  instruction.operands.push_back(std::move(index));
  Operand& labels = instruction.operands.emplace_back();
  labels.kind = Operand::Kind::Vector;
  if (targets->second.size() > 4096) return fail(line, "brx.idx must have at most 4096 targets");
  for (const std::string_view label : targets->second) {
    const auto element = static_cast<std::int32_t>(labels.elements.size());
    if (!parse_label_operand(label, line, element, labels.elements.emplace_back())) return false;
  }
  return expect(';');
}

bool Parser::parse_call_list(Operand& list) {
  list.kind = Operand::Kind::Vector;
  if (!expect('(')) return false;
  if (accept(')')) return true;
  do {
    Operand element;
    if (!parse_operand(element, 1)) return false;
    list.elements.push_back(std::move(element));
  } while (accept(','));
  return expect(')');
}

// call[.uni] [(results),] callee [, (arguments)] [, prototype];
bool Parser::parse_call() {
  Operand results, callee, arguments;
  results.kind = arguments.kind = Operand::Kind::Vector;
  if (token_.is('(') && (!parse_call_list(results) || !expect(','))) return false;
  std::string_view name;
  if (!expect_identifier(name, "a function's name")) return false;
  const std::optional<Name> known = find_name(name);
  if (known && known->kind == Name::Kind::Register) {
    callee.kind = Operand::Kind::Register;
    callee.index = known->register_index;
  } else if (module_.functions.contains(std::string(name))) {
    callee.kind = Operand::Kind::Symbol;
    callee.symbol = name;
  } else {
    return fail("a call must name a declared function, found " + std::string(name));
  }
  std::vector<Operand>& operands = function_->instructions.back().operands;
  Operand prototype;
  bool has_prototype = false;
  if (accept(',')) {
    if (token_.is('(')) {
      if (!parse_call_list(arguments)) return false;
      has_prototype = accept(',');
    } else {
      has_prototype = true;
    }
    if (has_prototype) {
      if (!expect_identifier(name, "a prototype")) return false;
      prototype.kind = Operand::Kind::Symbol;
      prototype.symbol = name;
    }
  }
  operands.push_back(std::move(results));
  operands.push_back(std::move(callee));
  operands.push_back(std::move(arguments));
  if (has_prototype) operands.push_back(std::move(prototype));
  return expect(';');
}

bool Parser::parse_operand(Operand& operand, int depth) {
  if (token_.is('{')) return parse_vector(operand, depth);
  if (token_.is('[')) return parse_address(operand, depth);
  if (accept('!')) {
    operand.negated = true;
    if (token_.kind != Token::Kind::Identifier) return unexpected("a predicate");
    if (!parse_named(operand)) return false;
    return operand.kind == Operand::Kind::Register || fail("'!' must stand before a predicate");
  }
  if (token_.kind == Token::Kind::Identifier && token_.text != "WARP_SZ") {
    return parse_named(operand) && parse_second(operand);
  }
  return parse_number(operand);
}

bool Parser::parse_vector(Operand& operand, int depth) {
  operand.kind = Operand::Kind::Vector;
  if (depth > 0) return fail("a vector must not hold vectors");
  advance();
  do {
    Operand element;
    if (!parse_operand(element, depth + 1)) return false;
    operand.elements.push_back(std::move(element));
  } while (accept(','));
  return expect('}');
}

// [register + 4], [variable + 4], [16], [map, {x, y}]
bool Parser::parse_address(Operand& operand, int depth) {
  operand.kind = Operand::Kind::Address;
  if (depth > 0) return fail("an address must not stand in a vector or list");
  advance();
  if (token_.kind == Token::Kind::Identifier) {
    Operand base;
    if (!parse_named(base)) return false;
    if (base.kind == Operand::Kind::Register) {
      operand.has_register = true;
      operand.index = base.index;
    } else if (base.kind == Operand::Kind::Symbol && base.bits != 0) {
      operand.index = base.index;
      operand.bits = base.bits;
      operand.symbol = std::move(base.symbol);
      operand.offset = base.offset;
    } else {
      return fail("an address must start with a register, a variable or a number");
    }
    if (operand.has_register && !parse_offset(operand.offset)) return false;
  } else {
    std::uint64_t value = 0;
    if (!parse_expression(value, 0)) return false;
    operand.offset = static_cast<std::int64_t>(value);
  }
  if (accept(',')) {
    if (!token_.is('{')) return unexpected("'{' of a tensor's coordinates");
    Operand coordinates;
    if (!parse_vector(coordinates, 0)) return false;
    operand.elements = std::move(coordinates.elements);
  }
  return expect(']');
}

// + 4 or - 4, or nothing
bool Parser::parse_offset(std::int64_t& offset) {
  std::uint64_t value = 0;
  if (accept('+') || token_.is('-')) {
    if (!parse_expression(value, 0)) return false;
  }
  offset = static_cast<std::int64_t>(value);
  return true;
}

// "%p1|%p2": the second destination.
bool Parser::parse_second(Operand& operand) {
  if (!accept('|')) return true;
  if (operand.kind != Operand::Kind::Register && operand.kind != Operand::Kind::Sink) {
    return fail("'|' must stand between two registers");
  }
  std::string_view name;
  if (!expect_identifier(name, "a register")) return false;
  if (name == "_") return true;
  const std::optional<Name> known = find_name(name);
  if (!known || known->kind != Name::Kind::Register) {
    return fail("a register must be declared, found " + std::string(name.substr(0, 200)));
  }
  operand.second_register = known->register_index;
  return true;
}

// A register, variable, function, special register or "_".
bool Parser::parse_named(Operand& operand) {
  const std::string_view name = token_.text;
  const std::uint32_t line = token_.line;
  advance();
  if (const std::optional<Name> known = find_name(name)) {
    if (token_.kind == Token::Kind::Dotted) {
      return unsupported("parts of a register (." + std::string(token_.text) +
                         ") are not supported");
    }
    if (known->kind == Name::Kind::Register) {
      operand.kind = Operand::Kind::Register;
      operand.index = known->register_index;
      return true;
    }
    operand.kind = Operand::Kind::Symbol;
    operand.symbol = name;
    operand.index = known->variable.index;
    operand.bits = static_cast<std::uint64_t>(known->variable.owner) + 1;  // resolve_variables()
    return parse_offset(operand.offset);
  }
  if (name == "_") {
    operand.kind = Operand::Kind::Sink;
    return true;
  }
  if (name[0] == '%') {
    std::string full(name);
    if (token_.kind == Token::Kind::Dotted) {
      full += '.';
      full += token_.text;
      advance();
    }
    operand.kind = Operand::Kind::Special;
    if (const auto index = find_environment_register(full)) {
      operand.special = SpecialRegister::EnvReg;
      operand.index = *index;
      return true;
    }
    const std::optional<SpecialRegister> special = find_special_register(full);
    if (!special) return fail(line, "a register must be declared, found " + full.substr(0, 200));
    operand.special = *special;
    return true;
  }
  if (module_.functions.contains(std::string(name))) {
    operand.kind = Operand::Kind::Symbol;
    operand.symbol = name;
    return true;
  }
  return fail(line, "a name must be declared, found " + std::string(name.substr(0, 200)));
}

// An immediate: an integer expression, or a float with at most a minus sign.
bool Parser::parse_number(Operand& operand) {
  operand.kind = Operand::Kind::Immediate;
  Token number = token_;
  if (token_.is('-')) {
    Lexer ahead = lexer_;
    number = ahead.next();
  }
  if (number.kind != Token::Kind::Float32 && number.kind != Token::Kind::Float64) {
    return parse_expression(operand.bits, 0);
  }
  const bool is_negative = accept('-');
  operand.is_float_immediate = true;
  operand.is_double_immediate = token_.kind == Token::Kind::Float64;
  const std::uint64_t sign = std::uint64_t{1} << (operand.is_double_immediate ? 63 : 31);
  operand.bits = token_.bits ^ (is_negative ? sign : 0);
  advance();
  return true;
}

bool Parser::parse_term(std::uint64_t& value, int depth) {
  if (depth > kMaxNesting) return fail("an expression must nest at most 64 deep");
  if (token_.kind == Token::Kind::Integer) {
    value = token_.bits;
    advance();
    return true;
  }
  if (token_.kind == Token::Kind::Identifier && token_.text == "WARP_SZ") {
    value = 32;
    advance();
    return true;
  }
  if (accept('-')) {
    if (!parse_term(value, depth + 1)) return false;
    value = 0 - value;
    return true;
  }
  if (accept('~')) {
    if (!parse_term(value, depth + 1)) return false;
    value = ~value;
    return true;
  }
  if (accept('(')) return parse_expression(value, depth + 1) && expect(')');
  return unexpected("an operand");
}

// Precedence as in C: | ^ & << >> + - * /
bool Parser::parse_expression(std::uint64_t& value, int depth, int precedence) {
  if (!parse_term(value, depth)) return false;
  static constexpr std::string_view kOperators = "|^&<>+-*/";
  static constexpr int kPrecedence[] = {0, 1, 2, 3, 3, 4, 4, 5, 5};
  while (token_.kind == Token::Kind::Punctuation) {
    const char symbol = token_.text[0];
    const std::size_t which = kOperators.find(symbol);
    if (which == std::string_view::npos || kPrecedence[which] < precedence) return true;
    advance();
    if ((symbol == '<' || symbol == '>') && !expect(symbol)) return false;
    std::uint64_t right = 0;
    if (!parse_expression(right, depth + 1, kPrecedence[which] + 1)) return false;
    const auto left_signed = static_cast<std::int64_t>(value);
    const auto right_signed = static_cast<std::int64_t>(right);
    if (symbol == '|') value |= right;
    if (symbol == '^') value ^= right;
    if (symbol == '&') value &= right;
    if (symbol == '+') value += right;
    if (symbol == '-') value -= right;
    if (symbol == '*') value *= right;
    if (symbol == '/') {
      if (right == 0) return fail("a constant must not be divided by zero");
      value =
          right_signed == -1 ? 0 - value : static_cast<std::uint64_t>(left_signed / right_signed);
    }
    if (symbol == '<' || symbol == '>') {
      if (right > 63) return fail("a constant must be shifted by 0 to 63 bits");
      value = symbol == '<' ? value << right : static_cast<std::uint64_t>(left_signed >> right);
    }
  }
  return true;
}

}  // namespace lockstep::device::vgpu::ptx
