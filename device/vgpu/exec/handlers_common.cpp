// Handlers of all opcodes that the tables of the host instruction sets (handlers_all.inc) leave
// out.
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
#include "device/vgpu/numeric/mufu.h"

#define LS_COMMON_HANDLERS

namespace lockstep::device::vgpu::exec::common {
namespace {

#include "device/vgpu/exec/handlers_lanes.inc"
//
#include "device/vgpu/exec/handlers_integer.inc"
//
#include "device/vgpu/exec/handlers_float.inc"
//
#include "device/vgpu/exec/handlers_half.inc"
//
#include "device/vgpu/exec/handlers_compare.inc"
//
#include "device/vgpu/exec/handlers_convert.inc"
//
#include "device/vgpu/exec/handlers_vector.inc"
//
#include "device/vgpu/exec/handlers_memory.inc"
//
#include "device/vgpu/exec/handlers_control.inc"
//
#include "device/vgpu/exec/handlers_warp.inc"
//
#include "device/vgpu/exec/handlers_atomic.inc"
//
#include "device/vgpu/exec/handlers_matrix.inc"
//
#include "device/vgpu/exec/handlers_macros.inc"
//
#include "device/vgpu/exec/handlers_table_common.inc"
//
#include "device/vgpu/exec/handlers_table_convert.inc"
//
#include "device/vgpu/exec/handlers_table_approximate.inc"
//
#include "device/vgpu/exec/handlers_table_warp.inc"

constexpr std::span<const Row> kAllRows[] = {
    kIntegerRows,      kMoveRows,           kFloatRows,          kHalfRows,
    kCompareRows,      kConvertIntegerRows, kConvertToFloatRows, kConvertFromFloatRows,
    kConvertFloatRows, kApproximateRows,    kControlRows,        kWarpRows,
    kAtomicRows,       kMatrixRows,
};

}  // namespace

std::span<const std::span<const Row>> rows() { return kAllRows; }

}  // namespace lockstep::device::vgpu::exec::common
