// Sums run along: a full group's and a window's in one step per row, a recurrent state's in
// conv_width. ledger_sequence_test.cpp holds them against the definition's sums.
#include "reference/ledger_sequence.h"

#include <algorithm>

#include "base/check.h"
#include "reference/ledger_mix.h"

namespace lockstep::reference {
namespace {

std::uint64_t weights_of(const trace::Scenario& scenario, const trace::RequestSpec& spec) {
  if (!spec.adapter) return 0;
  LS_CHECK(*spec.adapter < scenario.adapters.size());
  return scenario.adapters[*spec.adapter].weights;
}

}  // namespace

LedgerSequence::LedgerSequence(std::uint64_t seed, std::uint64_t adapter_weights,
                               const std::vector<trace::GroupSpec>& groups)
    : groups_(groups.size()), input_prefix_(mix(std::uint64_t{1}, seed, adapter_weights)) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups_[g];
    group.type = groups[g].type;
    group.cell_prefix = absorb(first(LedgerHash::Cell), g);
    switch (group.type) {
      case trace::GroupType::FullAttention:
        break;
      case trace::GroupType::SlidingWindow:
        LS_CHECK(groups[g].window > 0, "a query sees itself");
        group.reach = groups[g].window - 1;
        break;
      case trace::GroupType::Mamba:
        LS_CHECK(groups[g].conv_width > 0);
        group.reach = groups[g].conv_width - 1;
        for (std::uint64_t d = 1; d <= group.reach; ++d) {
          group.conv_prefix.push_back(absorb(first(LedgerHash::ConvValue), d));
        }
        break;
    }
  }
}

LedgerSequence::LedgerSequence(const trace::Scenario& scenario, const trace::RequestSpec& spec)
    : LedgerSequence(scenario.ledger.seed, weights_of(scenario, spec), scenario.engine.groups) {}

std::uint64_t LedgerSequence::read(const Group& group, std::uint64_t position) {
  if (group.type != trace::GroupType::Mamba) return group.sum;
  std::uint64_t sum = group.sum;
  const std::uint64_t reach = std::min(group.reach, position);
  for (std::uint64_t d = 1; d <= reach; ++d) {
    sum += absorb(group.conv_prefix[d - 1], group.cells[position - d]);
  }
  return sum;
}

void LedgerSequence::write(Group& group, std::uint64_t position, std::uint64_t cell) {
  group.cells.push_back(cell);
  switch (group.type) {
    case trace::GroupType::FullAttention:
      group.sum += cell;
      break;
    case trace::GroupType::SlidingWindow:
      // The next row, position + 1, reads [position + 1 - reach, position].
      group.sum += cell;
      if (position >= group.reach) group.sum -= group.cells[position - group.reach];
      break;
    case trace::GroupType::Mamba:
      group.sum = absorb(absorb(first(LedgerHash::State), group.sum), cell);
      break;
  }
}

std::uint64_t LedgerSequence::feed(trace::TokenId token) {
  constexpr std::uint64_t kNoMedia = 0;
  const std::uint64_t input = absorb(absorb(absorb(input_prefix_, token), position_), kNoMedia);
  std::uint64_t row = absorb(first(LedgerHash::Row), input);
  for (const Group& group : groups_) row = absorb(row, read(group, position_));
  for (Group& group : groups_) write(group, position_, absorb(group.cell_prefix, row));
  ++position_;
  return row;
}

}  // namespace lockstep::reference
