// A tiny model's run and the calls that it made, for tests of operations alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "harness/subjects/engine_subject.h"
#include "harness/subjects/op_subject.h"
#include "model/model.h"
#include "model/tiny.h"
#include "trace/op.h"
#include "trace/scenario.h"

namespace lockstep::harness {

struct TinyRun {
  model::Model model;
  trace::Scenario scenario;
  device::DeviceOptions options;
  // The last one met of each kind.
  std::map<std::tuple<trace::Op, bool, std::optional<model::WeightRole>>, trace::OpCall> calls;

  // One of them, cut out.
  RecordedOperation operation(trace::Op op, bool prefill,
                              std::optional<model::WeightRole> weight = {}) const;
};

// Seed 7, a window of 5 where the architecture has windows, a vocabulary of 320; the rest is drawn.
model::TinyOptions tiny_options(model::Arch arch, model::DType weights);

// Two ragged prompts, three tokens each, in pages of 3. `wants` picks the calls that are kept.
TinyRun run_tiny_model(
    const model::TinyOptions& tiny, const char* device, model::DType operands,
    device::ApproximationMode approximation = device::ApproximationMode::Nominal,
    const std::function<bool(const model::Model&, const trace::OpCall&)>& wants = {});

}  // namespace lockstep::harness
