#include "device/vgpu/exec/kernel_testing.h"

#include <gtest/gtest.h>

#include <span>

namespace lockstep::device::vgpu::exec::testing {

std::string with_entry(const std::string& before, const std::string& body) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n" + before +
         "\n.visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
         ".reg .pred %p<32>;\n.reg .b16 %h<32>;\n.reg .b32 %r<64>;\n.reg .f32 %f<32>;\n"
         ".reg .b64 %rd<32>;\n.reg .f64 %fd<8>;\n"
         "ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\n"
         "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n" +
         body + "\nret;\n}\n";
}

namespace {

KernelResult run_once(const KernelRun& run, const DeviceOptions& options) {
  auto device = open("vgpu:" + run.generation, options).value();
  const auto kernel = device->load(run.ptx, "test.ptx", "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message();
  if (!kernel.ok()) return {};
  const Buffer in = device->allocate(std::max<std::size_t>(4, run.input.size() * 4), "in").value();
  const Buffer out = device->allocate(run.output_words * 4, "out").value();
  EXPECT_TRUE(device->copy_to_device(in.address(), std::as_bytes(std::span(run.input))).ok());
  EXPECT_TRUE(device->fill(out.address(), 0, out.size_bytes()).ok());
  const auto parameters = Parameters().add(in.address()).add(out.address());
  const auto status = device->launch(kernel.value(), run.config, parameters.bytes());
  EXPECT_TRUE(status.ok()) << status.error().message();
  KernelResult result;
  result.output.resize(run.output_words);
  EXPECT_TRUE(
      device->copy_from_device(std::as_writable_bytes(std::span(result.output)), out.address())
          .ok());
  result.diagnostics = device->take_diagnostics();
  return result;
}

}  // namespace

KernelResult run_everywhere(const KernelRun& run) {
  KernelResult first;
  bool is_first = true;
  for (const char* set : {"scalar", "avx2", "avx512"}) {
    for (const bool checked : {false, true}) {
      for (const std::uint32_t threads : {1u, 2u}) {
        for (const std::uint64_t seed : {0u, 1u, 99u}) {
          DeviceOptions options;
          options.instruction_set = set;
          options.memory_bytes = 1 << 24;
          options.memcheck = options.initcheck = options.racecheck = options.synccheck = checked;
          options.host_threads = threads;
          options.schedule_seed = seed;
          if (!open("vgpu:" + run.generation, options)) continue;  // a host without it
          KernelResult result = run_once(run, options);
          if (is_first) first = result;
          is_first = false;
          EXPECT_EQ(result.output, first.output)
              << set << ", " << threads << " threads, seed " << seed;
        }
      }
    }
  }
  return first;
}

}  // namespace lockstep::device::vgpu::exec::testing
