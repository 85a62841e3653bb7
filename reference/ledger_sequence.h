// One request's rows on the ledger, alone and cold: what is fed, the cells that it leaves in each
// group, and the row hash v that the logits are of (docs/scenario.md, "The ledger model").
#pragma once

#include <cstdint>
#include <vector>

#include "trace/ids.h"
#include "trace/scenario.h"

namespace lockstep::reference {

class LedgerSequence {
 public:
  // `seed`: of the model; `adapter_weights`: 0 without an adapter.
  LedgerSequence(std::uint64_t seed, std::uint64_t adapter_weights,
                 const std::vector<trace::GroupSpec>& groups);
  LedgerSequence(const trace::Scenario& scenario, const trace::RequestSpec& spec);

  // A row at the next position. Its row hash.
  std::uint64_t feed(trace::TokenId token);

  std::uint64_t position() const { return position_; }  // of the next row
  // Value of the cell that group `group` wrote at `position`, which was fed. All are kept.
  std::uint64_t cell(std::size_t group, std::uint64_t position) const {
    return groups_[group].cells[position];
  }
  // Mamba: R after the last row.
  std::uint64_t state(std::size_t group) const { return groups_[group].sum; }

 private:
  struct Group {
    trace::GroupType type = trace::GroupType::FullAttention;
    std::uint64_t reach = 0;        // positions before the row that it reads; 0: attention to all
    std::uint64_t cell_prefix = 0;  // mix's beginning (4, g)
    std::vector<std::uint64_t> conv_prefix;  // (6, d) at d - 1
    std::uint64_t sum = 0;                   // attention: of the cells in reach; mamba: R
    std::vector<std::uint64_t> cells;        // by position
  };
  static std::uint64_t read(const Group& group, std::uint64_t position);
  static void write(Group& group, std::uint64_t position, std::uint64_t cell);

  std::vector<Group> groups_;
  std::uint64_t input_prefix_ = 0;  // (1, seed, weights)
  std::uint64_t position_ = 0;
};

}  // namespace lockstep::reference
