// One source, compiled for three vector widths, chosen at run time; the bits are the same for all.
//
// A file `<name>.inc` of plain loops is included three times, each in its own namespace:
//   LS_TARGET_BEGIN_AVX512
//   namespace lockstep::reference::avx512 {
//   #include "<name>.inc"
//   }
//   LS_TARGET_END
// Nothing is contracted or reordered, so the width shows in speed only.
#pragma once

#include <cstdint>

namespace lockstep::reference {

enum class HostVectors : std::uint8_t { Baseline, Avx2, Avx512 };
// The widest that this processor has.
HostVectors host_vectors();

}  // namespace lockstep::reference

#define LS_TARGET_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define LS_TARGET_BEGIN(features) \
  LS_TARGET_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define LS_TARGET_END LS_TARGET_PRAGMA(clang attribute pop)
#else
#define LS_TARGET_BEGIN(features)    \
  LS_TARGET_PRAGMA(GCC push_options) \
  LS_TARGET_PRAGMA(GCC target(features))
#define LS_TARGET_END LS_TARGET_PRAGMA(GCC pop_options)
#endif
#define LS_TARGET_BEGIN_AVX2 LS_TARGET_BEGIN("avx2")
#if defined(__clang__)
#define LS_TARGET_BEGIN_AVX512 LS_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl")
#else
#define LS_TARGET_BEGIN_AVX512 \
  LS_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
