// What the kernels' tests share: devices of both generations with all checks on, uploads, poisoned
// memory, 16-bit formats in double, and the bounds' u and gamma. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/prng.h"
#include "device/device.h"
#include "kernels/kernel_set.h"
#include "kernels/launch.h"
#include "model/dtype.h"

namespace lockstep::kernels {

inline constexpr double kU = 0x1p-24;
inline double gamma(double depth) { return depth * kU / (1 - depth * kU); }

// Fraction bits and smallest exponent of a normal number of F32, F16, BF16.
struct FloatFormat {
  int fraction_bits, exponent_min, exponent_max;
};
inline FloatFormat float_format(model::DType dtype) {
  if (dtype == model::DType::F16) return {10, -14, 15};
  if (dtype == model::DType::BF16) return {7, -126, 127};
  return {23, -126, 127};
}
// x rounded to nearest even in the format (subnormals kept, Inf beyond the range).
inline double round_to(model::DType dtype, double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  if (dtype == model::DType::F32) return static_cast<float>(x);
  const FloatFormat format = float_format(dtype);
  int exponent = 0;
  std::frexp(x, &exponent);
  const int quantum = std::max(exponent - 1, format.exponent_min) - format.fraction_bits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -quantum)), quantum);
  const double limit = std::ldexp(2 - std::ldexp(1, -format.fraction_bits), format.exponent_max);
  return std::abs(rounded) > limit ? std::copysign(HUGE_VAL, x) : rounded;
}
// Bits of a value that the format holds exactly.
inline std::uint32_t encode(model::DType dtype, double x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  if (dtype == model::DType::F32) return bits;
  if (dtype == model::DType::BF16) return bits >> 16;
  const std::uint32_t sign = bits >> 31 << 15;
  if (std::isnan(x)) return 0x7fff;
  if (std::isinf(x)) return sign | 0x7c00;
  const double magnitude = std::abs(x);
  if (magnitude < 0x1p-14) return sign | static_cast<std::uint32_t>(magnitude * 0x1p24);
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [1/2, 1)
  return sign | static_cast<std::uint32_t>(exponent + 14) << 10 |
         (static_cast<std::uint32_t>(fraction * 2048) & 0x3ff);
}
inline double decode(model::DType dtype, std::uint32_t bits) {
  if (dtype == model::DType::F32) return std::bit_cast<float>(bits);
  if (dtype == model::DType::BF16) return std::bit_cast<float>(bits << 16);
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return exponent == 0 ? sign * fraction * 0x1p-24
                       : sign * std::ldexp(1 + fraction / 1024, exponent - 15);
}
inline std::uint32_t bytes_of(model::DType dtype) { return dtype == model::DType::F32 ? 4 : 2; }

// Values that the format holds, as memory.
inline std::vector<std::byte> to_bytes(model::DType dtype, std::span<const double> values) {
  std::vector<std::byte> bytes(values.size() * bytes_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = encode(dtype, values[i]);
    std::memcpy(bytes.data() + i * bytes_of(dtype), &bits, bytes_of(dtype));
  }
  return bytes;
}
inline std::vector<double> from_bytes(model::DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / bytes_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * bytes_of(dtype), bytes_of(dtype));
    values[i] = decode(dtype, bits);
  }
  return values;
}

// Random values that the format holds.
inline std::vector<double> random_values(base::Prng& prng, model::DType dtype, std::size_t count,
                                         double scale = 1) {
  std::vector<double> values(count);
  for (double& value : values) value = round_to(dtype, scale * prng.normal());
  return values;
}

class TestDevice {
 public:
  explicit TestDevice(const std::string& name, device::DeviceOptions options = {}) {
    options.host_threads = 1;
    auto opened = device::open(name, options);
    LS_CHECK(opened.ok(), opened.ok() ? "" : opened.error().message());
    device_ = std::move(opened).value();
    kernels_ = std::make_unique<KernelSet>(*device_);
  }
  device::Device& device() { return *device_; }
  LaunchContext context() { return {*kernels_}; }

  device::Buffer upload(std::span<const std::byte> bytes) {
    device::Buffer buffer = allocate(std::max<std::size_t>(bytes.size(), 1));
    if (!bytes.empty()) check(device_->copy_to_device(buffer.address(), bytes));
    return buffer;
  }
  device::Buffer upload(model::DType dtype, std::span<const double> values) {
    return upload(to_bytes(dtype, values));
  }
  template <class T>
  device::Buffer upload_integers(const std::vector<T>& values) {
    return upload(std::as_bytes(std::span(values)));
  }
  // Undefined contents: reading them is a diagnostic.
  device::Buffer allocate(std::size_t bytes) {
    auto buffer = device_->allocate(bytes, "test");
    LS_CHECK(buffer.ok(), buffer.ok() ? "" : buffer.error().message());
    return std::move(buffer).value();
  }
  std::vector<std::byte> download(const device::Buffer& buffer) {
    std::vector<std::byte> bytes(buffer.size_bytes());
    check(device_->copy_from_device(bytes, buffer.address()));
    return bytes;
  }
  std::vector<double> download(model::DType dtype, const device::Buffer& buffer) {
    return from_bytes(dtype, download(buffer));
  }
  // A launch that must be accepted and leave no diagnostic.
  void expect_clean(const base::Status& launched) {
    check(launched);
    check(device_->synchronize());
    for (const device::Diagnostic& each : device_->take_diagnostics()) {
      ADD_FAILURE() << each.checker << " " << each.kind << " in " << each.kernel << " at "
                    << each.source << " " << each.source_second << ": " << each.message;
    }
  }
  // Warp instructions since the last call.
  std::uint64_t instructions() {
    const std::uint64_t now = device_->counters().warp_instructions;
    return now - std::exchange(counted_, now);
  }

 private:
  static void check(const base::Status& status) {
    LS_CHECK(status.ok(), status.ok() ? "" : status.error().message());
  }
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<KernelSet> kernels_;
  std::uint64_t counted_ = 0;
};

// Tests that run on every generation.
class EachGeneration : public testing::TestWithParam<const char*> {};
inline auto generations() { return testing::Values("vgpu:sm_80", "vgpu:sm_90"); }
inline std::string generation_name(const testing::TestParamInfo<const char*>& info) {
  return std::string(info.param).substr(5);
}

// got within radius of want, element by element; returns the largest |got - want| / radius.
inline double expect_within(std::span<const double> got, std::span<const double> want,
                            std::span<const double> radius, const std::string& what) {
  EXPECT_EQ(got.size(), want.size());
  double worst = 0;
  int shown = 0;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const double error = std::abs(got[i] - want[i]);
    if (!(error <= radius[i]) && shown++ < 3) {
      ADD_FAILURE() << what << " [" << i << "]: got " << got[i] << ", want " << want[i]
                    << " within " << radius[i] << ", off by " << error;
    }
    if (radius[i] > 0) worst = std::max(worst, error / radius[i]);
  }
  return worst;
}

}  // namespace lockstep::kernels
