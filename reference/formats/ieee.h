// IEEE binary32 and binary16, and bfloat16: bits <-> double, in integer arithmetic of our own.
//
// Decoding is exact. Encoding rounds once, from the double, to the nearest value, ties to even
// (IEEE 754, 4.3.1), subnormals kept, overflow from the midpoint above the largest finite value on
// to infinity. A NaN becomes the format's quiet NaN with an empty payload and no sign.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/dtype.h"

namespace lockstep::reference {

double f32_value(std::uint32_t bits);
double f16_value(std::uint16_t bits);
double bf16_value(std::uint16_t bits);

std::uint32_t f32_bits(double value);
std::uint16_t f16_bits(double value);
std::uint16_t bf16_bits(double value);

// The same by format: F32, F16 or BF16 (anything else is our bug). Bits lie in the low end.
double value_of_bits(model::DType format, std::uint32_t bits);
std::uint32_t bits_of_value(model::DType format, double value);
// value_of_bits(format, bits_of_value(format, value)), with a zero's sign kept.
double round_to(model::DType format, double value);

// Exact values of numbers in memory (little endian), F32, F16 or BF16: bytes.size() is
// out.size() times the number's size.
void decode_values(model::DType format, std::span<const std::byte> bytes, std::span<double> out);
// round_to of each, in place; vectorised: use it for whole rows.
void round_values(model::DType format, std::span<double> values);

// The exponent e of a positive finite value: 2^e <= value < 2^(e+1).
int exponent_of(double value);

}  // namespace lockstep::reference
