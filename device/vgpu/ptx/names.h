// The names that one function's text may use: nested scopes of registers, variables and labels,
// where an inner name hides an outer one; and the fixed names of PTX (types, special registers).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/vgpu/ptx/ir.h"

namespace lockstep::device::vgpu::ptx {

std::optional<Type> find_type(std::string_view name);                         // "f32"
std::optional<SpecialRegister> find_special_register(std::string_view name);  // "%tid.x", "%laneid"
std::optional<std::uint32_t> find_environment_register(std::string_view name);  // "%envreg2"

// Where a variable is kept while the vectors that hold it still grow.
struct VariableReference {
  enum class Owner : std::uint8_t { Parameters, Results, Function, Module };
  Owner owner = Owner::Module;
  std::uint32_t index = 0;
};

struct Name {
  enum class Kind : std::uint8_t { Register, Variable };
  Kind kind = Kind::Register;
  std::uint32_t register_index = 0;
  VariableReference variable = {};
};

// A label that a branch named before it was seen.
struct PendingLabel {
  std::string_view name;
  std::uint32_t instruction = 0, operand = 0;
  std::int32_t element = -1;  // of a Vector operand; -1: the operand itself
  std::uint32_t line = 0;
};

// One { } block. Names are views into the text.
class Scope {
 public:
  // False where this scope has the name already.
  bool add(std::string_view text, const Name& name);
  // %r<count>: registers %r0 .. of consecutive indices from `first`.
  bool add_range(std::string_view prefix, std::uint32_t first, std::uint32_t count);
  std::optional<Name> find(std::string_view text) const;

  std::unordered_map<std::string_view, std::uint32_t> labels = {};
  std::vector<PendingLabel> pending = {};

 private:
  struct Range {
    std::uint32_t first = 0, count = 0;
  };
  std::optional<std::uint32_t> find_in_ranges(std::string_view text) const;
  std::unordered_map<std::string_view, Name> names_ = {};
  std::unordered_map<std::string_view, Range> ranges_ = {};
  // Names that end in a number, by what stands before it: the smallest number. A later range with
  // that prefix must not reach it.
  std::unordered_map<std::string_view, std::uint64_t> numbered_ = {};
};

}  // namespace lockstep::device::vgpu::ptx
