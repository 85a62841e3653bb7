// Functions: their heads, scopes, registers, labels and source lines.
#include <array>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "device/vgpu/ptx/parser_state.h"

namespace lockstep::device::vgpu::ptx {

bool Parser::parse_function(bool is_entry) {
  current_ = Function();
  function_ = &current_;
  function_->is_entry = is_entry;
  function_->line = token_.line;
  scopes_.assign(1, Scope());
  branch_targets_.clear();
  locations_.clear();
  location_ = {};
  if (token_.is('(') && !is_entry &&
      !parse_parameters(function_->results, VariableReference::Owner::Results)) {
    return false;
  }
  std::string_view name;
  if (!expect_identifier(name, "a function's name")) return false;
  function_->name = name;
  if (token_.is('(') &&
      !parse_parameters(function_->parameters, VariableReference::Owner::Parameters)) {
    return false;
  }
  if (!parse_function_directives() || !keep_prototype()) return false;
  if (token_.is('{')) {
    function_->has_body = true;
    if (!parse_body()) return false;
    module_.functions[function_->name] = std::move(current_);
  } else {
    if (!expect(';')) return false;
    Function& known = module_.functions[function_->name];
    if (!known.has_body) known = std::move(current_);
  }
  function_ = nullptr;
  return true;
}

// The name is known inside the body (recursion), and no body may come twice.
bool Parser::keep_prototype() {
  if (module_names_.contains(function_->name)) {
    return fail(function_->name + " is declared already");
  }
  const auto [at, is_new] = module_.functions.try_emplace(function_->name);
  if (is_new) {
    at->second.name = function_->name;
    at->second.is_entry = function_->is_entry;
    at->second.line = function_->line;
  }
  if (at->second.has_body && token_.is('{')) {
    return fail(function_->name + " has a body already, from line " +
                std::to_string(at->second.line) + " on");
  }
  return true;
}

bool Parser::parse_dimensions3(std::array<std::uint32_t, 3>& dimensions, std::uint32_t& product) {
  dimensions = {1, 1, 1};
  std::size_t count = 0;
  std::uint64_t total = 1;
  do {
    if (count == 3) return fail("at most three dimensions may stand here");
    if (!expect_u32(dimensions[count], "a dimension")) return false;
    const auto next = base::checked_mul(total, dimensions[count]);
    if (!next || *next == 0 || *next > 0xffffffffu) {
      return fail("the product of dimensions must be from 1 to 2^32 - 1");
    }
    total = *next;
    ++count;
  } while (accept(','));
  product = static_cast<std::uint32_t>(total);
  return true;
}

bool Parser::parse_function_directives() {
  std::array<std::uint32_t, 3> dimensions;
  std::uint32_t value = 0;
  for (;;) {
    if (accept_dotted("maxntid")) {
      if (!parse_dimensions3(dimensions, value)) return false;
      function_->max_threads = value;
    } else if (accept_dotted("reqntid")) {
      if (!parse_dimensions3(function_->required_block, value)) return false;
      function_->required_threads = value;
    } else if (accept_dotted("reqnctapercluster")) {
      if (!parse_dimensions3(function_->required_cluster, value)) return false;
    } else if (accept_dotted("minnctapersm")) {
      if (!expect_u32(value, "a number of blocks")) return false;
      function_->min_blocks_per_sm = value;
    } else if (accept_dotted("maxnreg")) {
      if (!expect_u32(value, "a number of registers")) return false;
      function_->max_registers = value;
    } else if (accept_dotted("maxnctapersm") || accept_dotted("maxclusterrank") ||
               accept_dotted("abi_preserve") || accept_dotted("abi_preserve_control")) {
      if (!expect_u32(value, "a number")) return false;
    } else if (accept_dotted("explicitcluster") || accept_dotted("noreturn") ||
               accept_dotted("blocksareclusters")) {
      continue;
    } else if (accept_dotted("attribute")) {
      if (!parse_attribute()) return false;
    } else if (accept_dotted("pragma")) {
      if (!parse_pragma()) return false;
    } else if (token_.kind == Token::Kind::Dotted) {
      return unexpected("a directive of a function");
    } else {
      return true;
    }
  }
}

bool Parser::open_scope() {
  advance();
  if (scopes_.size() > kMaxNesting) return fail("scopes must nest at most 64 deep");
  scopes_.emplace_back();
  return true;
}

bool Parser::close_scope() {
  advance();
  return resolve_labels(scopes_.back());
}

// Labels that this scope does not have are left to the one around it.
bool Parser::resolve_labels(Scope& scope) {
  std::vector<PendingLabel> left;
  for (const PendingLabel& pending : scope.pending) {
    const auto label = scope.labels.find(pending.name);
    if (label == scope.labels.end()) {
      left.push_back(pending);
      continue;
    }
    Operand& operand = function_->instructions[pending.instruction].operands[pending.operand];
    Operand& target =
        pending.element < 0 ? operand : operand.elements[std::size_t(pending.element)];
    target.index = label->second;
    function_->is_label_target[label->second] = true;
  }
  scopes_.pop_back();
  std::vector<PendingLabel>& outer = scopes_.back().pending;
  outer.insert(outer.end(), left.begin(), left.end());
  return true;
}

bool Parser::parse_body() {
  function_->is_label_target.assign(1, false);
  if (!open_scope()) return false;
  while (scopes_.size() > 1) {
    if (!parse_statement()) return false;
  }
  if (!scopes_[0].pending.empty()) {
    const PendingLabel& pending = scopes_[0].pending[0];
    return fail(pending.line, "a branch must name a label of its scope, found " +
                                  std::string(pending.name.substr(0, 200)));
  }
  return true;
}

bool Parser::parse_statement() {
  if (token_.is('{')) return open_scope();
  if (token_.is('}')) return close_scope();
  if (token_.is('@')) return parse_guarded();
  if (token_.kind == Token::Kind::Dotted) return parse_body_directive();
  if (token_.kind == Token::Kind::Identifier) return parse_label_or_instruction();
  return unexpected("a statement");
}

bool Parser::parse_body_directive() {
  if (accept_dotted("loc")) return parse_location();
  if (accept_dotted("reg")) return parse_registers();
  if (accept_dotted("param")) return parse_variables(Space::Param, {});
  if (accept_dotted("pragma")) return parse_pragma();
  if (accept_dotted("file")) return parse_file();
  if (accept_dotted("section")) return skip_section();
  const Linkage linkage = parse_linkage();
  if (accept_dotted("shared")) return parse_variables(Space::Shared, linkage);
  if (accept_dotted("local")) return parse_variables(Space::Local, linkage);
  if (accept_dotted("global")) return parse_variables(Space::Global, linkage);
  if (accept_dotted("const")) return parse_variables(Space::Const, linkage);
  return unexpected("a directive of a function's body");
}

// .reg .b32 %r<10>, a, b;
bool Parser::parse_registers() {
  if (token_.kind != Token::Kind::Dotted) return unexpected("a type");
  const std::optional<Type> type = find_type(token_.text);
  if (!type) {
    return unsupported("." + std::string(token_.text) + " is no supported type of a register");
  }
  advance();
  do {
    std::string_view name;
    if (!expect_identifier(name, "a register's name")) return false;
    std::uint32_t count = 1;
    const bool is_range = accept('<');
    if (is_range && (!expect_u32(count, "a number of registers") || !expect('>'))) return false;
    std::vector<Register>& registers = function_->registers;
    if (registers.size() + count > limits_.ptx_registers || count > register_budget_) {
      return fail("a function must have at most " + std::to_string(limits_.ptx_registers) +
                  " registers (ptx_registers)");
    }
    register_budget_ -= count;
    const auto first = static_cast<std::uint32_t>(registers.size());
    const bool is_new =
        is_range
            ? scopes_.back().add_range(name, first, count)
            : scopes_.back().add(name, {.kind = Name::Kind::Register, .register_index = first});
    if (!is_new) return fail(std::string(name) + " is declared already");
    for (std::uint32_t i = 0; i < count; ++i) {
      registers.push_back({std::string(name) + (is_range ? std::to_string(i) : ""), *type});
    }
  } while (accept(','));
  return expect(';');
}

// .loc FILE LINE COLUMN [, function_name LABEL [+ N]] [, inlined_at FILE LINE COLUMN]
bool Parser::parse_location() {
  std::uint32_t file = 0, line = 0, column = 0;
  if (!expect_u32(file, "a file's number") || !expect_u32(line, "a line") ||
      !expect_u32(column, "a column")) {
    return false;
  }
  Location location{file, line, file, line};
  while (accept(',')) {
    std::string_view word;
    if (!expect_identifier(word, "function_name or inlined_at")) return false;
    if (word == "function_name") {
      std::uint32_t offset = 0;
      if (!expect_identifier(word, "a label")) return false;
      if (accept('+') && !expect_u32(offset, "an offset")) return false;
    } else if (word == "inlined_at") {
      std::uint32_t at_file = 0, at_line = 0, at_column = 0;
      if (!expect_u32(at_file, "a file's number") || !expect_u32(at_line, "a line") ||
          !expect_u32(at_column, "a column")) {
        return false;
      }
      const auto outer = locations_.find({at_file, at_line, at_column});
      location.outer_file = outer == locations_.end() ? at_file : outer->second.outer_file;
      location.outer_line = outer == locations_.end() ? at_line : outer->second.outer_line;
    } else {
      return fail("function_name or inlined_at must come here, found " + std::string(word));
    }
  }
  locations_[{file, line, column}] = location;
  location_ = location;
  return true;
}

bool Parser::parse_label_or_instruction() {
  const std::string_view name = token_.text;
  const std::uint32_t line = token_.line;
  advance();
  if (!accept(':')) return parse_instruction(name, line);
  if (accept_dotted("branchtargets")) return parse_branch_targets(name);
  if (accept_dotted("callprototype") || accept_dotted("calltargets")) return skip_to(';');
  return parse_label(name, line);
}

bool Parser::parse_label(std::string_view name, std::uint32_t line) {
  const auto index = static_cast<std::uint32_t>(function_->instructions.size());
  if (!scopes_.back().labels.emplace(name, index).second) {
    return fail(line, "the label " + std::string(name) + " is set already");
  }
  return true;
}

bool Parser::parse_branch_targets(std::string_view name) {
  std::vector<std::string_view> labels;
  do {
    std::string_view label;
    if (!expect_identifier(label, "a label")) return false;
    labels.push_back(label);
  } while (accept(','));
  branch_targets_[name] = std::move(labels);
  return expect(';');
}

std::optional<Name> Parser::find_name(std::string_view text) const {
  for (std::size_t i = scopes_.size(); i-- > 0;) {
    if (auto name = scopes_[i].find(text)) return name;
  }
  if (text[0] == '%') return std::nullopt;
  const auto found = module_names_.find(std::string(text));
  if (found == module_names_.end()) return std::nullopt;
  return Name{.kind = Name::Kind::Variable,
              .variable = {VariableReference::Owner::Module, found->second}};
}

}  // namespace lockstep::device::vgpu::ptx
