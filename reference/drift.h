// Drift: how far a subject's values are from the chained reference's, per layer and position, and
// what that does to its logits. Figures, no verdict.
//
// Residual streams are compared relative to their own size at each position and summarised by
// median and worst: a first token's stream can be 100 times the others' and would hide them in a
// mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "trace/ids.h"

namespace lockstep::reference {

// rms(got - want) / rms(want); rms(got) where want is all zero. Sizes agree, not empty.
double relative_rms(std::span<const double> got, std::span<const double> want);
// sum of p log(p / q) over the softmax of `want` (p) and of `got` (q), in nats.
double kl_divergence(std::span<const double> want, std::span<const double> got);
// Ids of the k largest values, largest first, the lower id before an equal one.
std::vector<std::uint32_t> top_k(std::span<const double> values, std::size_t k);

struct LayerDrift {
  double median = 0, worst = 0;  // relative rms over positions
  trace::RowId worst_row;
  std::uint64_t rows = 0;
};

struct LogitDrift {
  double rms = 0, max = 0;         // over all logits of all rows
  double kl_mean = 0, kl_max = 0;  // nats
  std::uint64_t rows = 0;
  std::uint64_t top1_equal = 0;  // rows whose argmax is the reference's
  std::uint64_t top5_equal = 0;  // rows whose five largest are the same set
};

class Drift {
 public:
  void add_residual(std::uint32_t layer, trace::RowId row, std::span<const double> got,
                    std::span<const double> want);
  void add_logits(std::span<const double> got, std::span<const double> want);

  // In the order of layers.
  std::map<std::uint32_t, LayerDrift> layers() const;
  LogitDrift logits() const;

 private:
  struct Residual {
    trace::RowId row;
    double relative = 0;
  };
  std::map<std::uint32_t, std::vector<Residual>> residuals_;
  double squares_ = 0, max_ = 0, kl_sum_ = 0, kl_max_ = 0;
  std::uint64_t count_ = 0, rows_ = 0, top1_ = 0, top5_ = 0;
};

}  // namespace lockstep::reference
