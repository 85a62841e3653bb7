// DeviceInfo: what a contract's bound must know of the device. The harness copies it from the
// device's GenerationSpec; the reference reads it here and needs no device.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::trace {

// mma.sync with 16-bit operands and f32 accumulator: blocks of `products` terms are aligned to
// the largest exponent, cut below `fraction_bits`, summed, and cut to 24 bits.
struct TensorCoreInfo {
  std::uint32_t products = 16;       // L
  std::uint32_t fraction_bits = 25;  // F
  std::int32_t exponent_floor = -133;
};

struct DeviceInfo {
  std::string name = "vgpu:sm_90";
  std::uint32_t sm = 90;
  TensorCoreInfo f16;  // f16 and bf16 operands alike
};

}  // namespace lockstep::trace
