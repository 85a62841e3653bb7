// run: Scenario -> events -> verdicts. The one path of all numeric commands.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "model/model.h"
#include "oracles/verdict.h"
#include "trace/device_info.h"
#include "trace/scenario.h"

namespace lockstep::harness {

enum class Taps : std::uint8_t {
  None,    // tokens only
  Logits,  // logits of sampled rows: drift and token identity, no local laws
  Ops,     // every operation
};

struct RunOptions {
  device::DeviceOptions device;
  Taps taps = Taps::Ops;
  bool further_runs = true;  // batch_invariance: alone and in chunks
  // What the bounds and the replay take for the device; nothing: what it is. (A test runs one
  // generation against the rules of another: mma_replay must say so.)
  std::optional<trace::DeviceInfo> judged_as = {};
  // One line of progress, replaced by the next; may be empty.
  std::function<void(const std::string&)> progress = {};
};

// End-to-end figures of one run beside the chained double reference; no verdict.
struct Drift {
  // Relative rms of the residual stream after each layer: |engine - reference| / |reference| per
  // position, then the median and the largest over positions.
  std::vector<double> layer_median, layer_worst;
  double logits_rms = 0, logits_max = 0;
  double kl_mean = 0;  // KL(reference || engine), nats, mean over tokens
  std::uint64_t tokens = 0, top1_equal = 0, top5_equal = 0;
  double sigma = 0;  // yardstick: rms logit distance of the declared roundings
};

struct RequestOutput {
  std::vector<trace::TokenId> tokens;  // the engine's choices
  std::string finish_reason;           // "length", "stop", "error", "refused: kv_capacity", ""
};

struct RunOutcome {
  std::vector<RequestOutput> outputs;  // a request each
  std::vector<oracles::Verdict> verdicts;
  std::optional<Drift> drift;
  std::uint64_t warp_instructions = 0, launches = 0;
};

// Runs `scenario` on its device and judges it.
base::Result<RunOutcome> run(const model::Model& model, const trace::Scenario& scenario,
                             const RunOptions& options);

}  // namespace lockstep::harness
