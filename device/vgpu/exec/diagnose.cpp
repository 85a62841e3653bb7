#include "device/vgpu/exec/diagnose.h"

#include <bit>
#include <cstdio>

namespace lockstep::device::vgpu::exec {

namespace {

std::string hex(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}
std::string triple(std::uint64_t linear, const Dim3& size) {
  return "(" + std::to_string(linear % size.x) + ", " + std::to_string(linear / size.x % size.y) +
         ", " + std::to_string(linear / size.x / size.y) + ")";
}

const char* space_name(Space space) {
  switch (space) {
    case Space::Global:
      return "global";
    case Space::Shared:
      return "shared";
    case Space::Local:
      return "local";
    case Space::Param:
      return "parameter";
  }
  return "";
}

std::string access_message(const GlobalMemory& memory, const Fault& fault) {
  std::string text = std::string(space_name(fault.space)) + (fault.is_write ? " write" : " read") +
                     " of " + std::to_string(fault.size_bytes) + " bytes at " + hex(fault.address);
  if (fault.kind == FaultKind::Misaligned) return text + " is not aligned";
  if (fault.space == Space::Global)
    return text + ": " + memory.table().describe(fault.address, fault.size_bytes);
  return text + " is outside";
}

}  // namespace

std::string source_of(const Program& program, std::uint32_t instruction) {
  if (instruction >= program.origins.size()) return "";
  const Origin& origin = program.origins[instruction];
  if (origin.source_line != 0 && origin.source_file < program.source_files.size()) {
    return program.source_files[origin.source_file] + ":" + std::to_string(origin.source_line);
  }
  return "line " + std::to_string(origin.line) + " of the PTX";
}

Diagnostic diagnose(const Program& program, const GlobalMemory& memory,
                    const LaunchOptions& options, std::uint64_t linear_block, const Fault& fault) {
  Diagnostic diagnostic;
  diagnostic.kernel = program.kernel;
  diagnostic.source = source_of(program, fault.instruction);
  diagnostic.count = static_cast<std::uint64_t>(std::popcount(fault.lanes));
  std::string what;
  switch (fault.kind) {
    case FaultKind::OutOfBounds:
      diagnostic.checker = "memcheck";
      diagnostic.kind = "out_of_bounds";
      what = access_message(memory, fault);
      break;
    case FaultKind::Misaligned:
      diagnostic.checker = "memcheck";
      diagnostic.kind = "misaligned";
      what = access_message(memory, fault);
      break;
    case FaultKind::Trap:
      diagnostic.checker = "driver";
      diagnostic.kind = "trap";
      what = "the kernel stops itself (trap or a failed assertion)";
      break;
    case FaultKind::SyncMembers:
      diagnostic.checker = "synccheck";
      diagnostic.kind = "not_a_member";
      what = "a .sync instruction whose member mask leaves out a thread that executes it";
      break;
    case FaultKind::BadBarrier:
      diagnostic.checker = "synccheck";
      diagnostic.kind = "bad_barrier";
      what = "barrier " + std::to_string(fault.address) + ": no such barrier or thread count";
      break;
    case FaultKind::Deadlock:
      diagnostic.checker = "synccheck";
      diagnostic.kind = "deadlock";
      what = "every thread of the block that has not exited waits";
      break;
    case FaultKind::NoProgress:
      diagnostic.checker = "synccheck";
      diagnostic.kind = "no_progress";
      what = "the block ran for its whole budget of instructions";
      break;
  }
  const std::uint32_t lane =
      fault.lanes == 0 ? 0 : static_cast<std::uint32_t>(std::countr_zero(fault.lanes));
  const std::uint64_t thread = std::uint64_t{fault.warp} * kLanes + lane;
  diagnostic.message = what + "; thread " + triple(thread, options.block) + " of block " +
                       triple(linear_block, options.grid) + ", line " +
                       std::to_string(program.origins[fault.instruction].line) + " of the PTX";
  return diagnostic;
}

Diagnostic diagnose(const Program& program, const check::Finding& finding) {
  Diagnostic diagnostic;
  diagnostic.checker = finding.checker;
  diagnostic.kind = finding.kind;
  diagnostic.kernel = program.kernel;
  diagnostic.message = finding.message;
  diagnostic.source = source_of(program, finding.instruction);
  diagnostic.source_second = source_of(program, finding.second_instruction);
  diagnostic.count = finding.count;
  return diagnostic;
}

}  // namespace lockstep::device::vgpu::exec
