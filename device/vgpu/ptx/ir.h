// Typed form of one PTX module: what the text says, names resolved. No meaning of opcodes here;
// exec/lower gives each spelled opcode (name + modifiers) its handler, or an Error with its line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::device::vgpu::ptx {

// Fundamental types as PTX spells them, without the dot.
enum class Type : std::uint8_t {
  Pred, B8, B16, B32, B64, B128, U8, U16, U32, U64, S8, S16, S32, S64, F16, F16x2, BF16, BF16x2,
  F32, F32x2, F64,
};
std::uint32_t size_bytes(Type type);  // Pred: 1

enum class Space : std::uint8_t { Register, Param, Shared, Global, Local, Const };

enum class SpecialRegister : std::uint8_t {
  TidX, TidY, TidZ, NtidX, NtidY, NtidZ, CtaidX, CtaidY, CtaidZ, NctaidX, NctaidY, NctaidZ,
  LaneId, WarpId, NwarpId, SmId, NsmId, LanemaskEq, LanemaskLe, LanemaskLt, LanemaskGe, LanemaskGt,
  Clock, Clock64, GlobalTimer, DynamicSmemSize, TotalSmemSize,
};

// A declared virtual register; index into Function::registers.
struct Register {
  std::string name;
  Type type = Type::B32;
};

// A named region: .shared, .global, .const, .local, or a .param of the function.
struct Variable {
  std::string name;
  Space space = Space::Global;
  Type type = Type::B8;
  std::uint32_t alignment = 1;
  std::uint64_t size_bytes = 0;              // 0: .extern .shared x[]
  std::vector<std::uint8_t> initial = {};    // bytes; empty: none
  bool is_extern = false;
};

struct Operand {
  enum class Kind : std::uint8_t {
    Register,    // index: register; negated for predicates ("!%p1")
    Immediate,   // bits: integer sign-extended to 64 bits, or a float's bits (0f/0d notation)
    Special,     // special
    Address,     // [register + offset], [variable + offset] or [immediate]
    Symbol,      // a variable's or function's address as a value (mov.u64 %rd, name): variable, offset
    Vector,      // {a, b, ...}: elements
    Label,       // index: instruction of the label (branch target)
    Sink,        // "_"
  };
  Kind kind = Kind::Register;
  std::uint32_t index = 0;
  bool negated = false;
  bool is_float_immediate = false;           // bits are of a float32 (0f) or float64 (0d)
  bool is_double_immediate = false;
  std::uint64_t bits = 0;
  SpecialRegister special = SpecialRegister::TidX;
  // Address and Symbol: the base is a register (has_register, index) or a variable (name looked up
  // in the function first, then in the module) or neither.
  bool has_register = false;
  const Variable* variable = nullptr;
  std::string symbol = {};                   // callee of a `call`, or the variable's name
  std::int64_t offset = 0;
  std::vector<Operand> elements = {};
  // "%p1|%p2" (setp with two results, shfl's predicate): the second destination.
  std::optional<std::uint32_t> second_register = {};
};

struct Instruction {
  std::string name;                          // "ld", "mma", "cp", ...
  std::vector<std::string> modifiers;        // "global", "v4", "f32", ... in order, without dots
  std::vector<Operand> operands;             // in the order of the text, destination first
  std::optional<std::uint32_t> guard = {};   // predicate register
  bool guard_negated = false;
  std::uint32_t line = 0;                    // of the PTX text, 1-based
  std::uint32_t source_file = 0, source_line = 0;  // from the last .loc; 0: none
  std::string spelled() const;               // "ld.global.v4.f32"
};

struct Function {
  std::string name;
  bool is_entry = false;
  std::vector<Variable> parameters;
  std::vector<Variable> results;             // of a .func
  std::vector<Variable> variables;           // .shared, .local (and .param of calls) declared inside
  std::vector<Register> registers;
  std::vector<Instruction> instructions;     // labels resolved to indices into this
  std::vector<bool> is_label_target;         // per instruction (and one past the end)
  std::optional<std::uint32_t> max_threads, required_threads, min_blocks_per_sm, max_registers;
  std::uint32_t line = 0;
};

struct Module {
  std::string name;                          // file name for messages
  std::string version, target;               // "9.0", "sm_80"
  std::vector<Variable> variables;           // module scope
  std::map<std::string, Function> functions;
  std::map<std::uint32_t, std::string> source_files;  // .file
};

}  // namespace lockstep::device::vgpu::ptx
