// Opening a device and running a kernel. `add_one` shows all that a caller needs.
#include "device/device.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::device {
namespace {

const char kAddOne[] = R"(.version 9.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 x, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .f32 %f<3>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [x];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.ge.s32 %p1, %r5, %r1;
	@%p1 bra $done;
	cvta.to.global.u64 %rd2, %rd1;
	mul.wide.s32 %rd3, %r5, 4;
	add.s64 %rd2, %rd2, %rd3;
	ld.global.f32 %f1, [%rd2];
	add.rn.f32 %f2, %f1, 0f3F800000;
	st.global.f32 [%rd2], %f2;
$done:
	ret;
}
)";

TEST(Device, RunsAKernelOverABuffer) {
  auto device = open("vgpu:sm_80").value();
  const Kernel kernel = device->load(kAddOne, "add_one.ptx", "add_one").value();
  std::vector<float> values(1000);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k);
  const Buffer buffer = device->allocate(values.size() * sizeof(float), "values").value();
  ASSERT_TRUE(device->copy_to_device(buffer.address(), std::as_bytes(std::span(values))).ok());
  const LaunchConfig config = {.grid = {4}, .block = {256}};
  const Parameters parameters = Parameters().add(buffer.address()).add(std::uint32_t{1000});
  ASSERT_TRUE(device->launch(kernel, config, parameters.bytes()).ok());
  EXPECT_TRUE(device->take_diagnostics().empty());
  ASSERT_TRUE(
      device->copy_from_device(std::as_writable_bytes(std::span(values)), buffer.address()).ok());
  for (std::size_t k = 0; k < values.size(); ++k) EXPECT_EQ(values[k], static_cast<float>(k + 1));
}

TEST(Device, AWriteBehindTheBufferIsADiagnosticWithItsPlace) {
  auto device = open("vgpu:sm_80").value();
  const Kernel kernel = device->load(kAddOne, "add_one.ptx", "add_one").value();
  const Buffer buffer = device->allocate(400, "values").value();
  ASSERT_TRUE(device->fill(buffer.address(), 0, 400).ok());
  const LaunchConfig config = {.grid = {1}, .block = {128}};
  const Parameters parameters = Parameters().add(buffer.address()).add(std::uint32_t{101});
  ASSERT_TRUE(device->launch(kernel, config, parameters.bytes()).ok());
  const std::vector<Diagnostic> diagnostics = device->take_diagnostics();
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(diagnostics[0].checker, "memcheck");
  EXPECT_EQ(diagnostics[0].kind, "out_of_bounds");
  EXPECT_EQ(diagnostics[0].source, "line 21 of the PTX");
  EXPECT_NE(
      diagnostics[0].message.find("0 bytes after \"values\" of 400 bytes; thread (100, 0, 0)"),
      std::string::npos)
      << diagnostics[0].message;
}

TEST(Device, RunsPtxOfItsGenerationAndOfOlderOnes) {
  std::string text = kAddOne;
  const auto loads = [&](const char* device, const char* target) {
    const std::string module = std::string(text).replace(text.find("sm_80"), 5, target);
    return open(device).value()->load(module, "add_one.ptx", "add_one").ok();
  };
  EXPECT_TRUE(loads("vgpu:sm_90", "sm_80"));
  EXPECT_TRUE(loads("vgpu:sm_90", "sm_90a"));
  EXPECT_FALSE(loads("vgpu:sm_80", "sm_90"));
  EXPECT_FALSE(loads("vgpu:sm_100", "sm_90a"));
  EXPECT_TRUE(loads("vgpu:sm_100", "sm_100f"));
  EXPECT_FALSE(loads("vgpu:sm_120", "sm_100f"));
  EXPECT_FALSE(loads("vgpu:sm_90", "sm_"));
  EXPECT_FALSE(loads("vgpu:sm_90", "sm_4294967296"));
}

TEST(Device, RefusesLaunchesBeyondTheGenerationsLimits) {
  auto device = open("vgpu:sm_80").value();
  const Kernel kernel = device->load(kAddOne, "add_one.ptx", "add_one").value();
  const Parameters parameters = Parameters().add(DevicePointer{0}).add(std::uint32_t{0});
  const auto launches = [&](const LaunchConfig& config) {
    return device->launch(kernel, config, parameters.bytes()).ok();
  };
  const std::uint32_t shared = device->properties().shared_bytes_per_block_optin;
  EXPECT_TRUE(launches({.grid = {1}, .block = {1024}, .dynamic_shared_bytes = shared}));
  EXPECT_FALSE(launches({.grid = {1}, .block = {1024}, .dynamic_shared_bytes = shared + 1}));
  EXPECT_FALSE(launches({.grid = {1}, .block = {1025}}));
  EXPECT_FALSE(launches({.grid = {1}, .block = {1, 1, 65}}));
  EXPECT_FALSE(launches({.grid = {0}, .block = {32}}));
  EXPECT_FALSE(launches({.grid = {1, 65536}, .block = {32}}));
  EXPECT_FALSE(device->launch(kernel, {}, parameters.bytes().first(8)).ok());
  EXPECT_TRUE(device->take_diagnostics().empty());
}

TEST(Device, MemoryIsFiniteAndGivenBack) {
  DeviceOptions options;
  options.memory_bytes = 1 << 20;
  auto device = open("vgpu:sm_80", options).value();
  const std::uint64_t all = device->memory().free_bytes;
  EXPECT_EQ(all, device->memory().total_bytes);
  {
    const Buffer first = device->allocate(600000, "first").value();
    EXPECT_EQ(first.address() % 256, 0u);
    const auto second = device->allocate(600000, "second");
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().exit_status(), 4);
    EXPECT_FALSE(device->fill(first.address() + 1, 0, 600000).ok());
  }
  EXPECT_EQ(device->memory().free_bytes, all);
  EXPECT_TRUE(device->allocate(600000, "second").ok());
}

TEST(Device, AnUnknownOpcodeIsAnErrorWithItsLine) {
  auto device = open("vgpu:sm_90").value();
  const auto kernel = device->load(
      ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<3>;\n"
      "frobnicate.b32 %r1, %r2;\nret;\n}\n",
      "k.ptx", "k");
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message().find("line 6: frobnicate.b32"), std::string::npos)
      << kernel.error().message();
}

}  // namespace
}  // namespace lockstep::device
