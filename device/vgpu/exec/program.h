// Program: an entry of a module, decoded for one host instruction set and one level of checks.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "device/vgpu/exec/machine.h"
#include "device/vgpu/numeric/mma.h"
#include "device/vgpu/ptx/ir.h"

namespace lockstep::device::vgpu::exec {

// Where an instruction comes from.
struct Origin {
  std::uint32_t line = 0;                          // of the PTX text
  std::uint32_t source_file = 0, source_line = 0;  // 0: none
};

// A register that holds the same `bits` in all lanes, always.
struct Constant {
  std::uint32_t offset = 0;      // from the Warp
  std::uint32_t size_bytes = 4;  // 2, 4, 8: of a lane; 0: a predicate
  std::uint64_t bits = 0;
};
// A register that holds the entry's parameter at `place`, always.
struct ParameterUse {
  std::uint32_t offset = 0;      // from the Warp
  std::uint32_t size_bytes = 4;  // 2, 4, 8
  std::uint32_t place = 0;       // in the parameter buffer
};
struct Region {
  std::uint32_t offset = 0, size_bytes = 0;
};
struct SpecialUse {
  std::uint32_t offset = 0;
  ptx::SpecialRegister special = ptx::SpecialRegister::TidX;
};

struct Program {
  std::string kernel, module;
  std::vector<Instr> code;  // code[0] is the entry
  std::vector<Origin> origins;
  std::deque<std::vector<std::uint32_t>> lists;  // what Instr::list and Instr::registers point to
  std::deque<numeric::MmaForm> forms;            // what Instr::object points to
  std::vector<Constant> constants;
  std::vector<ParameterUse> parameters;
  std::vector<SpecialUse> specials;
  std::vector<std::string> source_files;  // by number; may have holes
  std::uint32_t warp_bytes = 0;           // header and register file, a multiple of 64
  // Registers that an execution might read before it writes them: zero when a block starts.
  std::vector<Region> cleared;
  std::uint32_t static_shared_bytes = 0;  // dynamic shared memory starts here
  std::uint32_t local_bytes = 0;          // of a thread
  std::uint32_t param_bytes = 0;
  std::uint32_t interval_slots = 1;  // global accesses that remember an allocation
  std::uint32_t max_threads = 0;     // 0: not given
  std::uint32_t required_block[3] = {0, 0, 0};
  std::uint32_t max_registers = 0;
  // The result depends on the order of blocks (old values of global atomics are read, or their sums
  // round): they run one after another.
  bool ordered = false;
};

}  // namespace lockstep::device::vgpu::exec
