// All decoders of weight tiles, and the list that names a kernel for each. Device only.
#pragma once

#include "kernels/lib/f16.cuh"
#include "kernels/lib/f32.cuh"
#include "kernels/lib/q4_0.cuh"
#include "kernels/lib/q4_1.cuh"
#include "kernels/lib/q4_k.cuh"
#include "kernels/lib/q5_0.cuh"
#include "kernels/lib/q6_k.cuh"
#include "kernels/lib/q8_0.cuh"

// entry(suffix, decoder) for each weight type; suffixes as kernels/weights.cpp has them.
#define LOCKSTEP_WEIGHT_TILES(entry)                                                          \
  entry(f32, TileF32) entry(f16, TileF16) entry(bf16, TileBF16) entry(q4_0, TileQ4_0)         \
      entry(q4_1, TileQ4_1) entry(q5_0, TileQ5_0) entry(q8_0, TileQ8_0) entry(q4_k, TileQ4_K) \
          entry(q6_k, TileQ6_K)
