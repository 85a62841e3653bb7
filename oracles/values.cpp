#include "oracles/values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace lockstep::oracles {
namespace {

template <class T>
T load(const trace::TapTensor& tap, std::size_t index) {
  T value;
  std::memcpy(&value, tap.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

double half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 0x3ff;
  double value;
  if (exponent == 31) {
    value = fraction ? std::numeric_limits<double>::quiet_NaN()
                     : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024, exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

}  // namespace

std::size_t row_bytes(const trace::TapTensor& tap) {
  const auto bytes = model::storage_bytes(tap.dtype, tap.width);
  LS_CHECK(bytes.has_value());
  return *bytes;
}

std::vector<double> values_of(const trace::TapTensor& tap) {
  const std::size_t count = tap.rows.size() * tap.width;
  LS_CHECK(tap.bytes.size() == tap.rows.size() * row_bytes(tap));
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (tap.dtype == model::DType::F32) {
      values[i] = load<float>(tap, i);
    } else if (tap.dtype == model::DType::F16) {
      values[i] = half(load<std::uint16_t>(tap, i));
    } else if (tap.dtype == model::DType::BF16) {
      values[i] = std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(tap, i)} << 16);
    } else {
      LS_CHECK(tap.dtype == model::DType::I32);
      values[i] = load<std::uint32_t>(tap, i);
    }
  }
  return values;
}

}  // namespace lockstep::oracles
