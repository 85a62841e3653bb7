// What mma.sync with 16-bit operands and a float32 accumulator computes: replayed to the bit, and
// as a ball (exact sum, radius) that holds for the same block structure without replaying it.
//
// One block: up to L products and the accumulator c. Every product keeps its unnormalised
// significand; all terms are aligned to the largest exponent e_max (at least `exponent_floor`),
// cut toward zero below F fraction bits, summed exactly, and the sum is cut toward zero to 24 bits
// (float32 subnormals kept; 2^128 and above become infinity; zero is +0). NaN and infinities:
// any NaN, 0 * Inf or Inf - Inf gives 0x7fffffff. Chain: blocks of min(L, mma_k) products in
// increasing k, from c = 0; segments of K (contract) are added in float32, left to right.
// Source: the published models and measurements of NVIDIA's tensor cores (Khattak and Mikaitis,
// arXiv 2512.07004; Xie et al., arXiv 2511.10909).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/dtype.h"
#include "reference/weights.h"
#include "trace/contract.h"
#include "trace/device_info.h"

namespace lockstep::reference {

// One block, c and result as float32 bits. a.size() = b.size() <= info.products, operand bits of
// `format` (F16 or BF16).
std::uint32_t tensor_core_block(const trace::TensorCoreInfo& info, model::DType format,
                                std::span<const std::uint16_t> a, std::span<const std::uint16_t> b,
                                std::uint32_t c);

// Blocks of min(info.products, mma_k) from c on; the last may be short.
std::uint32_t tensor_core_chain(const trace::TensorCoreInfo& info, model::DType format,
                                std::uint32_t mma_k, std::span<const std::uint16_t> a,
                                std::span<const std::uint16_t> b, std::uint32_t c);

// One output as the contract says (mma_k, k_segments, segment_k; operands of input_format, which
// weight_format must equal): float32 bits.
std::uint32_t tensor_core_replay(const trace::Contract& contract, const trace::TensorCoreInfo& info,
                                 std::span<const std::uint16_t> a,
                                 std::span<const std::uint16_t> b);

// |device result - value| <= radius for every device that keeps the contract, its running sums cut
// at any place that the rules allow; the radius includes the reference's own rounding of `value`.
// Where nothing can be cut (small integers, one-hot rows, ...) the radius is 0: one right result.
// An infinite radius claims nothing: an operand is not finite, or a running sum may reach 2^128.
//
// With S_b the exact sum after block b, r_b its radius, e(x) = floor(log2 |x|) (of operands and of
// the accumulator: as stored, subnormals at the format's least exponent), and G the largest power
// of two that all products so far are multiples of:
//   E_b = max(floor, max e(a_k) + max e(b_k), e(|S_{b-1}| + r_{b-1}))     over the block's k
//   u_b = 2^(E_b - F): each of the L + 1 aligned terms loses less than u_b, or nothing if u_b <= G
//   r_b = r_{b-1} + (L + 1) u_b + max(0, 2^(e(|S_b| + r) - 23) - max(u_b, G))
// The last part is the cut to 24 bits: the sum and its cut are multiples of max(u_b, G). Every
// part is enlarged by 2^-20 for the reference's own sum in double: at most L adds a block, each
// within 2^-53 (4 L + 2) 2^E_b, and L (4 L + 2) 2^(F - 53) < 2^-20 (L + 1) for L <= 32, F <= 25.
struct TensorCoreBall {
  double value = 0, radius = 0;
};

// The ball of one chain from accumulator c (a float32's value): a, b are values of `format`. E_b
// takes the largest e(a_k) + e(b_k) of one k where both are not 0: the tightest form.
TensorCoreBall tensor_core_ball(const trace::TensorCoreInfo& info, model::DType format,
                                std::uint32_t mma_k, std::span<const double> a,
                                std::span<const double> b, double c);

// All outputs: value[r, o], radius[r, o] of sum over k of x[r, k] w[o, k], row-major; segments of K
// as the contract says. x, w: operand values (exactly representable in the contract's formats).
void tensor_core_products(const trace::Contract& contract, const trace::TensorCoreInfo& info,
                          std::span<const double> x, std::size_t rows, std::span<const double> w,
                          std::size_t outputs, std::size_t k, std::span<double> value,
                          std::span<double> radius);
// The same with a model's weight; w.precision() must be the contract's weight_format. Split over
// outputs (TBB); same bits for any number of threads.
void tensor_core_products(const trace::Contract& contract, const trace::TensorCoreInfo& info,
                          std::span<const double> x, std::size_t rows, const Weight& w,
                          std::span<double> value, std::span<double> radius);

}  // namespace lockstep::reference
