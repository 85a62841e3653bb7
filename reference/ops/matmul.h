// y = x W^T in double: y[r, o] = sum over i of x[r, i] w[o, i].
//
// The sum's structure is fixed: 8 partial sums by i mod 8, each in increasing i, each product
// rounded on its own, then combined as ((s0+s4)+(s2+s6)) + ((s1+s5)+(s3+s7)). So the bits depend on
// neither the host's vector width, nor the number of threads, nor the other rows and outputs.
// Work is split over outputs (TBB); weights stay as stored and are widened panel by panel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reference/weights.h"

namespace lockstep::reference {

// x: [rows, w.inputs()], y: [rows, w.outputs()], row-major.
void matmul(std::span<const double> x, std::size_t rows, const Weight& w, std::span<double> y);

// In the same pass the sum of magnitudes that error bounds need:
// magnitude[r, o] = sum over i of |x[r, i] w[o, i]|, same shape as y, itself rounded:
// at most matmul_relative_error(inputs) * magnitude off.
void matmul(std::span<const double> x, std::size_t rows, const Weight& w, std::span<double> y,
            std::span<double> magnitude);

// |computed y - exact y| <= matmul_relative_error(inputs) * exact magnitude: n u / (1 - n u) with
// u = 2^-53 and n roundings on the longest path: the product, ceil(inputs / 8) adds of one partial
// sum, 3 of their combination (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
// The value is enlarged so that it also holds for the computed magnitude.
double matmul_relative_error(std::size_t inputs);

}  // namespace lockstep::reference
