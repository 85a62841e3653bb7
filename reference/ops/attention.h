// Attention of one query of one head over its keys: o = sum p_j v_j, p = softmax(scale q . k_j).
//
// Decode contract: q f32; scores, l and O in f32 chains; tiles of keys with a running maximum
// inside splits of a fixed length, merged by log-sum-exp, one division to nearest at the end.
// Lemma for both contracts: weights w_j (1 + eta_j) move o = sum w v / sum w by at most
// (1 + max eta) sum p_j eta_j |v_jd - o_d|: factors common to all keys cancel.
//   delta_j = gamma(d_qk + 1) scale sum |q k_j| + 3 u |s_j|
//   eta_j   = delta_j + u |s_j - m| + 2^-22 + N_r (2^-22 + u) + u (max s - min s)
//   radius_d = 1.02 sum p_j eta_j |v_jd - o_d| + gamma(d_O) sum p_j |v_jd|
//              + (gamma(d_l) + 3 u) |o_d| + 2^-126 sum |v_jd|
// N_r: rescales that a key can pass, merges included. d_O, d_l: adds and rescales on the longest
// chain, plus the splits that are merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/value.h"
#include "trace/contract.h"
#include "trace/device_info.h"

namespace lockstep::reference {

// Keys and values of one KV head at consecutive positions: row i is position first + i. A row's
// head_size elements lie at data + i * stride.
struct KeyRange {
  const double* keys = nullptr;
  const double* values = nullptr;
  std::size_t stride = 0;
  std::uint32_t first = 0, count = 0;
};
// Positions that a query sees: [first, position], cut by the window.
inline std::uint32_t first_visible(std::uint32_t position, std::uint32_t window) {
  return window == 0 || position < window ? 0 : position + 1 - window;
}

// Dot product, and the sum of magnitudes: 8 partial sums by i mod 8.
double dot(const double* a, const double* b, std::size_t n);
double dot_magnitude(const double* a, const double* b, std::size_t n);

struct DecodeRule {
  std::uint32_t depth_scores = 0, depth_output = 0, depth_sum = 0;
  std::uint32_t split_keys = 1, rescales = 0;
  double ex2_error = kEx2Error;
};
DecodeRule decode_rule(const trace::Contract& contract);

// q, out: [head_size]. `rule` serves Ball only.
template <class T>
void attend(std::span<const double> q, double scale, const KeyRange& range, const DecodeRule& rule,
            std::span<T> out);

// Prefill contract: 16-bit q, K, V and P, tensor cores; tiles of tile_keys from absolute key 0 with
// a running maximum; ops/attention_prefill.cpp has the bound.
struct PrefillRule {
  std::uint32_t tile_keys = 64;
  model::DType probability_format = model::DType::F16;
  bool sum_of_rounded = true;  // l sums P as rounded
  double ex2_error = kEx2Error;
  // One block of the tensor core cuts (L + 1) 2^-F + 2^-23 of the magnitudes; blocks in a tile.
  double block_error = 0;
  std::uint32_t tile_blocks = 1;
};
PrefillRule prefill_rule(const trace::Contract& contract, const trace::TensorCoreInfo& info);

// `scores`: q . k_j with their radii (of tensor-core sums), [range.count]; unscaled. For double the
// radii are ignored: the value is what rounding P as declared gives.
template <class T>
void attend_prefill(std::span<const double> scores, std::span<const double> score_radii,
                    double scale, const KeyRange& range, const PrefillRule& rule, std::span<T> out);

}  // namespace lockstep::reference
