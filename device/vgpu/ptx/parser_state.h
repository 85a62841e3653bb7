// The recursive-descent parser behind parse(). Each parse_ function returns false after fail(),
// which keeps the first Error; the token in hand is `token_`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "device/vgpu/ptx/ir.h"
#include "device/vgpu/ptx/lexer.h"
#include "device/vgpu/ptx/names.h"

namespace lockstep::device::vgpu::ptx {

// Depth of { } scopes, parentheses and nested lists; nvcc needs 3.
inline constexpr int kMaxNesting = 64;

class Parser {
 public:
  Parser(std::string_view text, const std::string& name, const base::Limits& limits)
      : lexer_(text),
        limits_(limits),
        register_budget_(limits.ptx_registers + text.size()),
        initial_budget_((std::uint64_t{1} << 20) + 16 * text.size()) {
    module_.name = name;
  }
  base::Result<Module> run();

 private:
  struct Linkage {
    bool is_extern = false;
  };
  struct Location {
    std::uint32_t file = 0, line = 0, outer_file = 0, outer_line = 0;
  };

  // parser.cpp: tokens, module scope
  bool fail(std::uint32_t line, std::string rule);
  bool fail(std::string rule) { return fail(last_line_, std::move(rule)); }  // what was just read
  bool unsupported(std::string rule);          // fail(), of kind Unsupported
  bool unexpected(const std::string& wanted);  // fail(): "WANTED must come here, found ..."
  void advance() {
    last_line_ = token_.line;
    token_ = lexer_.next();
  }
  bool at_dotted(std::string_view word) const {
    return token_.kind == Token::Kind::Dotted && token_.text == word;
  }
  bool accept(char punctuation);
  bool accept_dotted(std::string_view word);
  bool expect(char punctuation);
  bool expect_identifier(std::string_view& text, const char* wanted);
  bool expect_u32(std::uint32_t& value, const char* wanted);
  bool skip_to(char punctuation);
  bool parse_module();
  bool parse_module_directive();
  bool parse_version();
  bool parse_target();
  bool parse_address_size();
  bool parse_file();
  bool parse_pragma();
  bool skip_section();
  Linkage parse_linkage();
  bool resolve_variables();

  // parser_variable.cpp: variables and their initialisers
  bool parse_variables(Space space, const Linkage& linkage);
  bool parse_parameters(std::vector<Variable>& list, VariableReference::Owner owner);
  bool parse_declaration_prefix(Variable& variable);
  bool parse_declarator(Variable& variable, std::string_view& name, bool may_initialise);
  bool parse_dimensions(Variable& variable, std::vector<std::uint64_t>& dimensions);
  bool parse_attribute();
  bool keep_variable(Variable variable, std::string_view name);
  bool parse_initialiser(Variable& variable, const std::vector<std::uint64_t>& dimensions,
                         std::size_t level, std::uint64_t first);
  bool parse_initial_value(Variable& variable, std::uint64_t offset);
  bool parse_initial_address(Variable& variable, std::uint64_t offset, std::uint32_t shift,
                             std::uint32_t size);
  bool put_initial(Variable& variable, std::uint64_t offset, std::uint64_t bits,
                   std::uint32_t size);

  // parser_function.cpp: functions, scopes, statements
  bool parse_function(bool is_entry);
  bool parse_function_directives();
  bool parse_dimensions3(std::array<std::uint32_t, 3>& dimensions, std::uint32_t& product);
  bool keep_prototype();
  bool parse_body();
  bool parse_statement();
  bool parse_body_directive();
  bool parse_registers();
  bool parse_location();
  bool parse_label_or_instruction();
  bool parse_label(std::string_view name, std::uint32_t line);
  bool parse_branch_targets(std::string_view name);
  bool open_scope();
  bool close_scope();
  bool resolve_labels(Scope& scope);
  std::optional<Name> find_name(std::string_view text) const;

  // parser_operand.cpp: instructions and operands
  bool parse_guarded();
  bool parse_instruction(std::string_view name, std::uint32_t line);
  bool parse_operands();
  bool parse_call();
  bool parse_call_list(Operand& list);
  bool parse_operand(Operand& operand, int depth);
  bool parse_vector(Operand& operand, int depth);
  bool parse_address(Operand& operand, int depth);
  bool parse_named(Operand& operand);
  bool parse_second(Operand& operand);
  bool parse_offset(std::int64_t& offset);
  bool parse_number(Operand& operand);
  bool parse_label_operand(std::string_view name, std::uint32_t line, std::int32_t element,
                           Operand& operand);
  bool parse_branch_index();
  // Integer expressions of constants: + - * / % << >> & ^ |, unary - ~ and parentheses.
  bool parse_expression(std::uint64_t& value, int depth, int precedence = 0);
  bool parse_term(std::uint64_t& value, int depth);

  Lexer lexer_;
  const base::Limits& limits_;
  Token token_ = {};
  std::uint32_t last_line_ = 1;
  std::optional<base::Error> error_ = {};
  Module module_ = {};
  std::uint64_t instruction_count_ = 0;
  // Of the whole module, so that a short text cannot ask for much memory.
  std::uint64_t register_budget_, initial_budget_;
  std::unordered_map<std::string, std::uint32_t> module_names_ = {};  // variables

  // Of the function being parsed.
  Function* function_ = nullptr;
  Function current_ = {};
  std::vector<Scope> scopes_ = {};
  std::unordered_map<std::string_view, std::vector<std::string_view>> branch_targets_ = {};
  Location location_ = {};
  // (file, line, column) of a .loc -> the outermost place it was inlined into.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, Location> locations_ = {};
};

}  // namespace lockstep::device::vgpu::ptx
