// Choices: where the generator's decisions come from: a seed, or a fuzzer's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/prng.h"

namespace lockstep::harness {

class Choices {
 public:
  virtual ~Choices() = default;
  // In [0, bound), bound > 0. 0 is always the plainest choice.
  virtual std::uint64_t below(std::uint64_t bound) = 0;

  std::uint32_t small(std::uint32_t bound) { return static_cast<std::uint32_t>(below(bound)); }
  // In [low, high].
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    LS_CHECK(low <= high);
    return low + small(high - low + 1);
  }
  // True in `percent` of 100 cases.
  bool chance(std::uint32_t percent) { return below(100) >= 100 - percent; }
  template <class List>
  const auto& pick(const List& list) {
    return list[static_cast<std::size_t>(below(std::size(list)))];
  }
};

class SeededChoices : public Choices {
 public:
  explicit SeededChoices(std::uint64_t seed) : prng_(seed) {}
  std::uint64_t below(std::uint64_t bound) override { return prng_.below(bound); }

 private:
  base::Prng prng_;
};

// One byte a choice (eight where the bound is above 256); 0 once they are used up.
class ByteChoices : public Choices {
 public:
  explicit ByteChoices(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t below(std::uint64_t bound) override {
    LS_CHECK(bound > 0);
    std::uint64_t value = 0;
    const int count = bound <= 256 ? 1 : 8;
    for (int i = 0; i < count && at_ < bytes_.size(); ++i) {
      value = (value << 8) | std::to_integer<std::uint64_t>(bytes_[at_++]);
    }
    return value % bound;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace lockstep::harness
