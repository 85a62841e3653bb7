// What one written tap must hold: per operation, from known operands, weights and the contract.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "reference/models/graph.h"
#include "reference/tap_store.h"
#include "trace/device_info.h"
#include "trace/op_call.h"

namespace lockstep::reference {

// What never changes between calls.
struct LocalModel {
  Graph graph;
  trace::DeviceInfo device;
  std::uint64_t seed = 1;
  std::uint32_t replay_one_in = 64;  // outputs of tensor cores
  // Norm weights as kernels take them: RN_f32(w), or RN_f32(1 + w), by tensor name.
  std::map<std::string, std::vector<double>> norm_weights;
  std::map<Source, std::size_t> producers;  // index of the node that writes a value
};
base::Result<LocalModel> make_local_model(const model::Model& model,
                                          const trace::DeviceInfo& device, std::uint64_t seed);
// For calls of one operation: `model` needs only the tensors that it multiplies by; the first of
// them may hold some of its rows only.
base::Result<LocalModel> make_lone_model(const model::Model& model, const trace::DeviceInfo& device,
                                         std::uint64_t seed, const trace::OpCall& call);
// The value that a tap's label stands for: resid_in is the one that the layer reads.
Source source_of(const trace::TapTensor& tap);

using KnownTokens = std::map<trace::RowId, trace::TokenId>;

// One call being judged.
struct LocalCall {
  const LocalModel& model;
  const TapStore& store;
  const KnownTokens& tokens;
  const Node& node;
  const trace::OpCall& call;
};

// Why something could not be computed; empty: it was.
using Reason = std::string;

// Expected values of one of the call's writes. The tap is well formed (point, layer, width, size)
// and has rows.
Reason expect(const LocalCall& local, const trace::TapTensor& write, trace::Expected& expected);

// Outputs of a tensor-core product replayed to the bit: a seeded 1 in `replay_one_in`.
std::vector<trace::ReplaySample> replay_sample(const LocalCall& local,
                                               const trace::TapTensor& write);

// Rows of one operand as doubles, [rows, width], or the reason why not.
Reason gather(const TapStore& store, const Source& source, const std::vector<trace::RowId>& rows,
              std::uint32_t width, std::vector<double>& values);
Reason no_tap(const Source& source, trace::RowId row);

// Attention has a file of its own.
Reason expect_attention(const LocalCall& local, const trace::TapTensor& write,
                        trace::Expected& expected);

}  // namespace lockstep::reference
