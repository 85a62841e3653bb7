// The block decoders, compiled once per host vector width.
#include "reference/formats/block_functions.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "reference/formats/ieee.h"

namespace lockstep::reference::baseline {
namespace {
constexpr std::size_t kLanes = 2;
#include "reference/formats/blocks.inc"
}  // namespace
}  // namespace lockstep::reference::baseline

LS_TARGET_BEGIN_AVX2
namespace lockstep::reference::avx2 {
namespace {
constexpr std::size_t kLanes = 4;
#include "reference/formats/blocks.inc"
}  // namespace
}  // namespace lockstep::reference::avx2
LS_TARGET_END

LS_TARGET_BEGIN_AVX512
namespace lockstep::reference::avx512 {
namespace {
constexpr std::size_t kLanes = 8;
#include "reference/formats/blocks.inc"
}  // namespace
}  // namespace lockstep::reference::avx512
LS_TARGET_END

namespace lockstep::reference {

const BlockFunctions& block_functions(HostVectors vectors) {
  static constexpr BlockFunctions kBaseline{baseline::decode_function, baseline::round_function};
  static constexpr BlockFunctions kAvx2{avx2::decode_function, avx2::round_function};
  static constexpr BlockFunctions kAvx512{avx512::decode_function, avx512::round_function};
  switch (vectors) {
    case HostVectors::Baseline:
      return kBaseline;
    case HostVectors::Avx2:
      return kAvx2;
    case HostVectors::Avx512:
      return kAvx512;
  }
  LS_CHECK(false);
}

}  // namespace lockstep::reference
