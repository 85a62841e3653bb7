// The interpreter's handlers for AVX2, FMA, F16C (flags: cmake/vgpu.cmake).
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 warns of its own headers' undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "device/device.h"
#include "device/vgpu/check/hook.h"
#include "device/vgpu/exec/handlers.h"
#include "device/vgpu/exec/machine.h"
#include "device/vgpu/exec/runtime.h"
#include "device/vgpu/numeric/formats.h"
#include "device/vgpu/numeric/mma_tile.h"
#include "device/vgpu/numeric/mufu.h"

#define LS_ISA avx2
#include "device/vgpu/exec/handlers_all.inc"
