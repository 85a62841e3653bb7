// Tensor-core facts have one owner, the generation's spec; the harness copies them for the judges.
#include "device/vgpu/generation/generation.h"
#include "harness/subjects/engine_subject.h"

namespace lockstep::harness {

base::Result<trace::DeviceInfo> device_info(const std::string& device) {
  constexpr std::string_view kPrefix = "vgpu:";
  const device::vgpu::generation::GenerationSpec* spec = nullptr;
  if (device.starts_with(kPrefix)) {
    spec = device::vgpu::generation::find(std::string_view(device).substr(kPrefix.size()));
  }
  if (!spec) return base::environment_error(device, "no such device");
  const device::vgpu::numeric::MmaBlock& block = spec->f16_block();
  return trace::DeviceInfo{
      device, spec->sm, {block.products, block.fraction_bits, block.exponent_floor}};
}

}  // namespace lockstep::harness
