// Typed form of one PTX module: what the text says, names resolved. No meaning of opcodes here;
// exec/lower gives each spelled opcode (name + modifiers) its handler, or an Error with its line.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::device::vgpu::ptx {

// Fundamental types as PTX spells them, without the dot.
enum class Type : std::uint8_t {
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16x2,
  BF16,
  BF16x2,
  F32,
  F32x2,
  F64,
};
std::uint32_t size_bytes(Type type);  // Pred: 1

enum class Space : std::uint8_t { Register, Param, Shared, Global, Local, Const };

enum class SpecialRegister : std::uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  LanemaskEq,
  LanemaskLe,
  LanemaskLt,
  LanemaskGe,
  LanemaskGt,
  Clock,
  Clock64,
  GlobalTimer,
  DynamicSmemSize,
  TotalSmemSize,
  ClockHi,
  GlobalTimerLo,
  GlobalTimerHi,
  GridId,
  ClusterIdX,
  ClusterIdY,
  ClusterIdZ,
  NclusterIdX,
  NclusterIdY,
  NclusterIdZ,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusterCtarank,
  ClusterNctarank,
  IsExplicitCluster,
  EnvReg,  // %envreg0 .. 31: the operand's index
};

// A declared virtual register; index into Function::registers.
struct Register {
  std::string name;
  Type type = Type::B32;
};

// An address that an initialiser holds: `generic(symbol) + addend`, or a mask form 0xFF00(symbol).
struct Relocation {
  std::uint64_t offset_bytes = 0;  // where in the variable
  std::uint32_t size_bytes = 8;    // how many bytes of the address go there ...
  std::uint32_t shift_bytes = 0;   // ... from this byte of it on
  std::string symbol;              // a module variable or a function
  std::int64_t addend = 0;
  bool is_generic = false;  // else an address in the variable's own space
  std::uint32_t line = 0;   // of the PTX text
};

// A named region: .shared, .global, .const, .local, or a .param of the function.
struct Variable {
  std::string name;
  Space space = Space::Global;
  Type type = Type::B8;
  std::uint32_t alignment = 1;
  std::uint64_t size_bytes = 0;              // 0: .extern .shared x[]
  std::vector<std::uint8_t> initial = {};    // bytes; empty: none; may be shorter than size_bytes
                                             // (the rest is zero)
  std::vector<Relocation> relocations = {};  // to be added to `initial` at load
  bool is_extern = false;
};

struct Operand {
  enum class Kind : std::uint8_t {
    Register,   // index: register; negated for predicates ("!%p1")
    Immediate,  // bits: integer sign-extended to 64 bits, or a float's bits (0f/0d notation)
    Special,    // special
    Address,    // [register + offset], [variable + offset] or [immediate]; elements: coordinates
                // of a tensor address [map, {x, y}]
    Symbol,  // a variable's or function's address as a value (mov.u64 %rd, name): variable, offset
    Vector,  // {a, b, ...}: elements
    Label,   // index: instruction of the label (branch target); may be one past the last
    Sink,    // "_"
  };
  Kind kind = Kind::Register;
  std::uint32_t index = 0;
  bool negated = false;
  bool is_float_immediate = false;   // bits are of a float32 (0f), or of a float64 where ...
  bool is_double_immediate = false;  // ... this is set too (0d, or 1.5 in decimal)
  std::uint64_t bits = 0;
  SpecialRegister special = SpecialRegister::TidX;
  // Address and Symbol: the base is a register (has_register, index) or a variable (name looked up
  // in the innermost scope first, then in the module) or neither. Variables of one name may stand
  // in sibling scopes (param0 of each call): go by the pointer, which lives as long as the Module.
  bool has_register = false;
  const Variable* variable = nullptr;
  std::string symbol = {};  // callee of a `call`, or the variable's name
  std::int64_t offset = 0;
  std::vector<Operand> elements = {};
  // "%p1|%p2" (setp with two results, shfl's predicate): the second destination.
  std::optional<std::uint32_t> second_register = {};
};

// A `call` always has the operands {results} (Vector, maybe empty), callee (Symbol, or Register of
// an indirect call), {arguments} (Vector, maybe empty) and, if written, the prototype (Symbol).
// `brx.idx` has the index and a Vector of Labels. Labels inside { } are resolved in their scope.
struct Instruction {
  std::string name;                         // "ld", "mma", "cp", ...
  std::vector<std::string> modifiers;       // "global", "v4", "f32", ... in order, without dots
  std::vector<Operand> operands;            // in the order of the text, destination first
  std::optional<std::uint32_t> guard = {};  // predicate register
  bool guard_negated = false;
  std::uint32_t line = 0;                          // of the PTX text, 1-based
  std::uint32_t source_file = 0, source_line = 0;  // from the last .loc; 0: none
  // Where that line was inlined, outermost call first found; equal to the above if not inlined.
  std::uint32_t outer_file = 0, outer_line = 0;
  std::string spelled() const;  // "ld.global.v4.f32"
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool has_body = false;  // false: declared only (vprintf, __assertfail)
  std::vector<Variable> parameters;
  std::vector<Variable> results;    // of a .func
  std::vector<Variable> variables;  // .shared, .local (and .param of calls) declared inside
  std::vector<Register> registers;
  std::vector<Instruction> instructions;  // labels resolved to indices into this
  std::vector<bool> is_label_target;      // per instruction (and one past the end)
  // Products of the three dimensions of .maxntid and .reqntid, and those dimensions.
  std::optional<std::uint32_t> max_threads, required_threads, min_blocks_per_sm, max_registers;
  std::array<std::uint32_t, 3> required_block = {0, 0, 0};  // 0: not given
  std::array<std::uint32_t, 3> required_cluster = {0, 0, 0};
  std::uint32_t line = 0;

  // Operands point to variables: a function and its module move, but are not copied.
  Function() = default;
  Function(Function&&) = default;
  Function& operator=(Function&&) = default;
};

struct Module {
  std::string name;                 // file name for messages
  std::string version, target;      // "9.0", "sm_80"
  std::vector<Variable> variables;  // module scope
  std::map<std::string, Function> functions;
  std::map<std::uint32_t, std::string> source_files;  // .file

  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
};

}  // namespace lockstep::device::vgpu::ptx
