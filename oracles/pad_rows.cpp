// pad_rows: rows that only fill a launch up to a captured size write nowhere.
#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class PadRows : public ServingLaw<PadRows> {
 public:
  using ServingLaw<PadRows>::ServingLaw;
  std::string_view law() const override { return "pad_rows"; }

  Verdict finish(const std::vector<Verdict>&) override {
    Verdict result = verdict(launches_, "launches", "no launch ran");
    result.where = fmt::format("{} pad rows", rows_);
    return result;
  }

  void on(const trace::LaunchMade& made) {
    padded_.emplace_back(made.launch.value, made.padded_to);
  }
  void on(const trace::LaunchRan& ran) {
    ++launches_;
    std::size_t fed = 0;
    for (const trace::RanRows& row : ran.rows) fed += row.tokens.size();
    std::erase_if(padded_, [&](const auto& made) {
      if (made.first == ran.launch.value && made.second > fed) rows_ += made.second - fed;
      return made.first <= ran.launch.value;  // launches run in order
    });
    if (ran.pad_slots.empty()) return;
    fail("writes", ran.rows.empty() ? trace::RequestId{} : ran.rows.front().request, {}, [&] {
      return fmt::format("tick {}: launch {}: its pad rows write {} slots, the first is {}", tick(),
                         ran.launch.value, ran.pad_slots.size(), ran.pad_slots.front());
    });
  }

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> padded_;  // launch, rows; not run yet
  std::uint64_t launches_ = 0, rows_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> pad_rows(ScenarioPointer scenario) {
  return std::make_unique<PadRows>(std::move(scenario));
}

}  // namespace lockstep::oracles
