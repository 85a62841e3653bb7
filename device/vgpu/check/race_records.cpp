// Records of accesses; race_records.h.
#include "device/vgpu/check/race_records.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace lockstep::device::vgpu::check {
namespace {

// Each granule becomes `copies` smaller ones with the same record.
template <class T>
std::vector<T> repeated(const std::vector<T>& old, std::size_t copies) {
  std::vector<T> result(old.size() * copies);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = old[i / copies];
  return result;
}

}  // namespace

void RaceRecords::grow(u64 size_bytes, u32 granule_bytes) {
  LS_CHECK(std::has_single_bit(granule_bytes));
  const u32 shift = static_cast<u32>(std::countr_zero(granule_bytes));
  if (shift < shift_) {
    const std::size_t copies = std::size_t{1} << (shift_ - shift);
    writers_ = repeated(writers_, copies);
    readers_ = repeated(readers_, copies);
    writer_instructions_ = repeated(writer_instructions_, copies);
    reader_instructions_ = repeated(reader_instructions_, copies);
    shift_ = shift;
  }
  const u64 count = std::max<u64>((size_bytes + (u64{1} << shift_) - 1) >> shift_, 1);
  if (count <= writers_.size()) return;
  writers_.resize(count);
  readers_.resize(count);
  writer_instructions_.resize(count);
  reader_instructions_.resize(count);
}

void RaceRecords::clear() {
  std::fill(writers_.begin(), writers_.end(), 0);
  std::fill(readers_.begin(), readers_.end(), 0);
}

}  // namespace lockstep::device::vgpu::check
