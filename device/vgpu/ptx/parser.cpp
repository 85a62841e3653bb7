// parse(): tokens, errors and the module's own directives. Functions, variables and operands have a
// file each.
#include "device/vgpu/ptx/parser.h"

#include <utility>

#include "base/check.h"
#include "device/vgpu/ptx/parser_state.h"

namespace lockstep::device::vgpu::ptx {
namespace {

constexpr std::size_t kShownBytes = 40;

std::string shown(const Token& token) {
  switch (token.kind) {
    case Token::Kind::End:
      return "the end of the text";
    case Token::Kind::Dotted:
      return "'." + std::string(token.text.substr(0, kShownBytes)) + "'";
    case Token::Kind::String:
      return "a string";
    case Token::Kind::Identifier:
    case Token::Kind::Integer:
    case Token::Kind::Float32:
    case Token::Kind::Float64:
    case Token::Kind::Punctuation:
    case Token::Kind::Bad:
      return "'" + std::string(token.text.substr(0, kShownBytes)) + "'";
  }
  LS_CHECK(false, "a token kind outside its enumerators");
}

}  // namespace

bool Parser::fail(std::uint32_t line, std::string rule) {
  if (!error_) {
    error_ = base::Error{.kind = base::ErrorKind::Input,
                         .file = module_.name,
                         .where = "line " + std::to_string(line),
                         .rule = std::move(rule)};
  }
  return false;
}

bool Parser::unsupported(std::string rule) {
  fail(token_.line, std::move(rule));
  error_->kind = base::ErrorKind::Unsupported;
  return false;
}

bool Parser::unexpected(const std::string& wanted) {
  if (token_.kind == Token::Kind::Bad) return fail(token_.line, lexer_.problem());
  return fail(token_.line, wanted + " must come here, found " + shown(token_));
}

bool Parser::accept(char punctuation) {
  if (!token_.is(punctuation)) return false;
  advance();
  return true;
}

bool Parser::accept_dotted(std::string_view word) {
  if (!at_dotted(word)) return false;
  advance();
  return true;
}

bool Parser::expect(char punctuation) {
  if (accept(punctuation)) return true;
  return unexpected(std::string("'") + punctuation + "'");
}

bool Parser::expect_identifier(std::string_view& text, const char* wanted) {
  if (token_.kind != Token::Kind::Identifier) return unexpected(wanted);
  text = token_.text;
  advance();
  return true;
}

bool Parser::expect_u32(std::uint32_t& value, const char* wanted) {
  if (token_.kind != Token::Kind::Integer) return unexpected(wanted);
  if (token_.bits > 0xffffffffu)
    return fail(token_.line, std::string(wanted) + " must fit 32 bits");
  value = static_cast<std::uint32_t>(token_.bits);
  advance();
  return true;
}

bool Parser::skip_to(char punctuation) {
  while (!token_.is(punctuation)) {
    if (token_.kind == Token::Kind::End || token_.kind == Token::Kind::Bad) {
      return unexpected(std::string("'") + punctuation + "'");
    }
    advance();
  }
  advance();
  return true;
}

bool Parser::parse_version() {
  if (token_.kind != Token::Kind::Float64) return unexpected("a version such as 9.0");
  module_.version = token_.text;
  advance();
  return true;
}

bool Parser::parse_target() {
  std::string_view name;
  if (!expect_identifier(name, "a target such as sm_90")) return false;
  module_.target = name;
  while (accept(',')) {
    if (!expect_identifier(name, "a target's option")) return false;
  }
  return true;
}

bool Parser::parse_address_size() {
  if (token_.kind == Token::Kind::Integer && token_.bits != 64) {
    return unsupported("addresses must have 64 bits, found " + std::to_string(token_.bits));
  }
  std::uint32_t bits = 0;
  return expect_u32(bits, "64");
}

// .file INDEX "path"[, time, size]
bool Parser::parse_file() {
  std::uint32_t index = 0;
  if (!expect_u32(index, "a file's number")) return false;
  if (token_.kind != Token::Kind::String) return unexpected("a file's path");
  module_.source_files[index] = token_.text;
  advance();
  while (accept(',')) {
    if (token_.kind != Token::Kind::Integer) return unexpected("a number");
    advance();
  }
  return true;
}

bool Parser::parse_pragma() {
  do {
    if (token_.kind != Token::Kind::String) return unexpected("a pragma's string");
    advance();
  } while (accept(','));
  return expect(';');
}

// .section .debug_x { ... }: DWARF as data; the braces inside it are none.
bool Parser::skip_section() {
  while (!token_.is('{')) {
    if (token_.kind == Token::Kind::End || token_.kind == Token::Kind::Bad) {
      return unexpected("'{'");
    }
    advance();
  }
  const bool is_closed = lexer_.skip_past('}');
  advance();
  return is_closed || unexpected("'}'");
}

Parser::Linkage Parser::parse_linkage() {
  Linkage linkage;
  for (;;) {
    if (accept_dotted("extern")) {
      linkage.is_extern = true;
    } else if (!accept_dotted("visible") && !accept_dotted("weak") && !accept_dotted("common")) {
      return linkage;
    }
  }
}

bool Parser::parse_module_directive() {
  if (accept_dotted("version")) return parse_version();
  if (module_.version.empty()) return fail(token_.line, "a module must start with .version");
  if (accept_dotted("target")) return parse_target();
  if (module_.target.empty()) return fail(token_.line, ".target must come before what needs it");
  if (accept_dotted("address_size")) return parse_address_size();
  if (accept_dotted("file")) return parse_file();
  if (accept_dotted("pragma")) return parse_pragma();
  if (accept_dotted("section")) return skip_section();
  const Linkage linkage = parse_linkage();
  if (accept_dotted("entry")) return parse_function(true);
  if (accept_dotted("func")) return parse_function(false);
  if (accept_dotted("global")) return parse_variables(Space::Global, linkage);
  if (accept_dotted("const")) return parse_variables(Space::Const, linkage);
  if (accept_dotted("shared")) return parse_variables(Space::Shared, linkage);
  if (at_dotted("alias") || at_dotted("tex") || at_dotted("local") || at_dotted("reg") ||
      at_dotted("param")) {
    return unsupported("." + std::string(token_.text) + " is not supported at module scope");
  }
  return unexpected("a directive of module scope");
}

bool Parser::parse_module() {
  advance();
  while (token_.kind != Token::Kind::End) {
    if (token_.kind == Token::Kind::Identifier) {  // $L__func_end0: between functions
      advance();
      if (!expect(':')) return false;
      continue;
    }
    if (!parse_module_directive()) return false;
  }
  if (module_.target.empty()) return fail("a module must have .version and .target");
  return resolve_variables();
}

// The vectors of variables have stopped growing: pointers into them hold from here on.
bool Parser::resolve_variables() {
  const auto resolve = [&](Function& function, Operand& operand) {
    if (operand.has_register || operand.bits == 0 ||
        (operand.kind != Operand::Kind::Symbol &&
         (operand.kind != Operand::Kind::Address || operand.symbol.empty()))) {
      return;
    }
    switch (static_cast<VariableReference::Owner>(operand.bits - 1)) {
      case VariableReference::Owner::Parameters:
        operand.variable = &function.parameters[operand.index];
        break;
      case VariableReference::Owner::Results:
        operand.variable = &function.results[operand.index];
        break;
      case VariableReference::Owner::Function:
        operand.variable = &function.variables[operand.index];
        break;
      case VariableReference::Owner::Module:
        operand.variable = &module_.variables[operand.index];
        break;
    }
    operand.bits = 0;
    operand.index = 0;
  };
  for (auto& [name, function] : module_.functions) {
    for (Instruction& instruction : function.instructions) {
      for (Operand& operand : instruction.operands) {
        resolve(function, operand);
        for (Operand& element : operand.elements) resolve(function, element);
      }
    }
  }
  for (const Variable& variable : module_.variables) {
    for (const Relocation& relocation : variable.relocations) {
      if (!module_names_.contains(relocation.symbol) &&
          !module_.functions.contains(relocation.symbol)) {
        return fail(relocation.line, "the initialiser of " + variable.name +
                                         " must name a variable or function, found " +
                                         relocation.symbol.substr(0, kShownBytes));
      }
    }
  }
  return true;
}

base::Result<Module> Parser::run() {
  if (!parse_module()) {
    LS_CHECK(error_.has_value());
    return *std::move(error_);
  }
  return std::move(module_);
}

base::Result<Module> parse(std::string_view text, const std::string& name,
                           const base::Limits& limits) {
  if (text.size() > limits.ptx_bytes) {
    return base::input_error(name, "PTX must have at most " + std::to_string(limits.ptx_bytes) +
                                       " bytes (ptx_bytes), found " + std::to_string(text.size()));
  }
  return Parser(text, name, limits).run();
}

}  // namespace lockstep::device::vgpu::ptx
