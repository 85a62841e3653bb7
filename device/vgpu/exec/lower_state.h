// The state of one lowering; internal to lower*.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/vgpu/exec/lower.h"

namespace lockstep::device::vgpu::exec {

// One function body in the entry: the entry's own, or that of a call, inlined.
struct Scope {
  const ptx::Function* function = nullptr;
  std::vector<std::uint32_t> registers;                 // offsets, 0: none yet
  std::map<const ptx::Variable*, std::uint64_t> frame;  // .local and .param: offset in local memory
  std::vector<std::uint32_t> labels;                    // PTX index -> code index
  std::vector<std::pair<std::uint32_t, std::uint32_t>> jumps;          // code index -> PTX index
  std::vector<std::pair<std::uint32_t, std::uint32_t>> indexed_jumps;  // code index -> list number
  std::vector<std::uint32_t> occurrences;  // of each register in the text
  std::vector<std::uint32_t> writes;       // how many of them write it
  std::vector<bool> unwritten;             // may be read before it is written
  std::vector<bool> is_entry_value;        // written once, before any branch or label
  std::vector<std::uint32_t> returns;      // code indices that jump to the end
  std::uint32_t depth = 0;
};

class Lowering {
 public:
  Lowering(const ptx::Module& module, const LowerOptions& options);
  base::Result<std::unique_ptr<Program>> run(const ptx::Function& entry);

 private:
  using Status = base::Status;
  using Offset = base::Result<std::uint32_t>;

  // lower.cpp: bodies
  Status layout_entry(const ptx::Function& entry);
  void count_registers(Scope& scope);
  Status lower_body(Scope& scope);
  Status lower_instruction(Scope& scope, std::uint32_t index);
  Status dispatch(Scope& scope, const ptx::Instruction& in);
  Status lower_plain(Scope& scope, const ptx::Instruction& in, const std::string& key);
  void resolve_jumps(Scope& scope);
  void finish_targets();
  base::Error error(const std::string& rule) const;

  // Emission. The instruction stays valid until the next emit.
  Instr& emit(const Row& row);
  base::Result<const Row*> row(const std::string& key) const;
  Status emit_key(const std::string& key, std::uint32_t d, std::uint32_t a = 0, std::uint32_t b = 0,
                  std::uint32_t c = 0, std::uint32_t e = 0);
  const std::uint32_t* keep_list(std::vector<std::uint32_t> list);
  void set_target(std::uint32_t from, std::uint32_t code_index);
  std::uint32_t next_code() const { return static_cast<std::uint32_t>(program_->code.size()); }

  // lower_operands.cpp
  std::uint32_t allocate(char letter);
  std::uint32_t constant(char letter, std::uint64_t bits);
  std::uint32_t special(ptx::SpecialRegister which, char letter);
  static bool is_clock(ptx::SpecialRegister which);
  static char letter_of(ptx::Type type);
  char letter_of(const Scope& scope, const ptx::Operand& operand) const;
  std::uint32_t register_offset(Scope& scope, std::uint32_t index);
  Offset source(Scope& scope, const ptx::Operand& operand, char letter);
  Offset destination(Scope& scope, const ptx::Operand& operand, char letter);
  std::uint32_t second_destination(Scope& scope, const ptx::Operand& operand);
  Offset special_source(Scope& scope, const ptx::Operand& operand, char letter);
  base::Result<std::uint64_t> symbol_value(const Scope& scope, const ptx::Operand& operand) const;
  std::optional<std::uint64_t> frame_offset(const Scope& scope,
                                            const ptx::Variable* variable) const;
  struct Address {
    std::uint32_t base = 0;
    std::int64_t offset = 0;
  };
  // For accesses through `space`: "global", "shared", "local", "generic".
  base::Result<Address> address(Scope& scope, const ptx::Operand& operand,
                                const std::string& space);

  // lower_memory.cpp
  std::uint32_t access_code(const std::string& space) const;
  Status lower_load(Scope& scope, const ptx::Instruction& in);
  Status lower_store(Scope& scope, const ptx::Instruction& in);
  Status lower_access(Scope& scope, const ptx::Instruction& in, bool is_load);
  Status lower_param_load(Scope& scope, const ptx::Instruction& in, const std::string& mem);
  Status lower_atomic(Scope& scope, const ptx::Instruction& in);
  Status lower_cp(Scope& scope, const ptx::Instruction& in);
  Status lower_cp_async(Scope& scope, const ptx::Instruction& in);
  Status lower_ldmatrix(Scope& scope, const ptx::Instruction& in);
  Status lower_cvta(Scope& scope, const ptx::Instruction& in);
  Status lower_isspacep(Scope& scope, const ptx::Instruction& in);

  // lower_data.cpp
  Status lower_mov(Scope& scope, const ptx::Instruction& in);
  bool can_rename(const Scope& scope, const ptx::Instruction& in, const ptx::Operand& to) const;
  bool alias_move(Scope& scope, const ptx::Instruction& in);
  bool is_local_copy(const Scope& scope, std::uint32_t to, std::uint32_t from) const;
  Status lower_unpack(Scope& scope, const ptx::Instruction& in);
  Status lower_setp(Scope& scope, const ptx::Instruction& in);
  Status lower_set(Scope& scope, const ptx::Instruction& in);
  Status lower_cvt(Scope& scope, const ptx::Instruction& in);
  Status lower_lop3(Scope& scope, const ptx::Instruction& in);
  Status lower_shfl(Scope& scope, const ptx::Instruction& in);
  Status lower_with_predicate(Scope& scope, const ptx::Instruction& in);

  // lower_mma.cpp
  Status lower_mma(Scope& scope, const ptx::Instruction& in);

  // lower_control.cpp
  Status lower_branch(Scope& scope, const ptx::Instruction& in);
  Status lower_indexed_branch(Scope& scope, const ptx::Instruction& in);
  Status lower_return(Scope& scope, const ptx::Instruction& in);
  Status lower_barrier(Scope& scope, const ptx::Instruction& in);
  Status lower_call(Scope& scope, const ptx::Instruction& in);

  const ptx::Module& module_;
  const LowerOptions& options_;
  const OpcodeTable& table_;
  std::unique_ptr<Program> program_;
  const ptx::Function* entry_ = nullptr;
  const ptx::Instruction* current_ = nullptr;
  std::uint32_t current_index_ = 0;  // in the function of the scope
  std::uint32_t ordinal_ = 0;
  std::uint32_t next_register_ = 0;  // offset
  std::uint32_t next_predicate_ = 0;
  std::uint64_t next_local_ = 0;
  std::map<std::pair<char, std::uint64_t>, std::uint32_t> constants_;
  std::map<ptx::SpecialRegister, std::uint32_t> specials_;
  std::map<const ptx::Variable*, std::uint64_t> shared_, params_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> targets_;  // code index -> code index
};

// Bytes that a register of a letter takes in the register file.
std::uint32_t register_bytes(char letter);
bool has_modifier(const ptx::Instruction& in, std::string_view modifier);

}  // namespace lockstep::device::vgpu::exec
