// The chained double reference beside a run: what margin each token had, and how far the engine
// drifted. Each request alone, from its tokens (those that were fed, so that a flip at a near tie
// hides no later drift).
#pragma once

#include <map>
#include <vector>

#include "base/error.h"
#include "harness/run.h"
#include "harness/subjects/engine_subject.h"
#include "model/model.h"
#include "trace/event.h"

namespace lockstep::harness {

// Collects from the event stream what the comparison needs: tokens, logits, residual streams.
class ChainedComparison {
 public:
  ChainedComparison(const model::Model& model, const trace::Scenario& scenario);

  void on_event(const trace::Event& event);
  // Runs the reference (pure, and with the declared roundings) and sends a TokenReferenced a token.
  base::Result<Drift> compare(const EventSink& sink);

 private:
  struct Row {
    std::vector<float> logits;                             // [vocab], empty: none
    std::map<std::uint32_t, std::vector<float>> residual;  // layer -> [hidden], after the layer
  };
  struct Request {
    std::vector<trace::TokenId> tokens;  // prompt, then what was fed
    std::map<trace::Position, trace::TokenId>
        sampled;  // position of the new token -> engine's choice
    std::map<trace::Position, Row> rows;
  };
  struct Sums;
  void keep(const trace::TapTensor& tap);
  base::Status compare_request(trace::RequestId id, const Request& request, Sums& sums,
                               std::vector<trace::TokenReferenced>& referenced) const;

  const model::Model& model_;
  const trace::Scenario& scenario_;
  std::map<trace::RequestId, Request> requests_;
  // What the engine's contracts declare, seen on the way: tile of prefill attention.
  std::uint32_t tile_keys_ = 64;
};

}  // namespace lockstep::harness
