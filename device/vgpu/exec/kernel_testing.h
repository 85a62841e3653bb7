// For tests: a small kernel run with every host instruction set, numbers of host threads and
// schedules; the results must be the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"

namespace lockstep::device::vgpu::exec::testing {

struct KernelRun {
  std::string ptx;  // body of the module: variables, functions, one entry "k"
  LaunchConfig config = {};
  std::vector<std::uint32_t> input = {};  // in the first parameter's buffer
  std::size_t output_words = 0;           // of the second parameter's buffer, zero before
  std::string generation = "sm_90";
};
struct KernelResult {
  std::vector<std::uint32_t> output;
  std::vector<Diagnostic> diagnostics;
};

// "module" with a header; entry: `.visible .entry k(.param .u64 in, .param .u64 out)`, registers
// %r, %rd, %f, %fd, %h, %p declared, %rd1 = in, %rd2 = out, %r1 = tid.x, %r2 = ctaid.x.
std::string with_entry(const std::string& before, const std::string& body);

KernelResult run_everywhere(const KernelRun& run);

}  // namespace lockstep::device::vgpu::exec::testing
