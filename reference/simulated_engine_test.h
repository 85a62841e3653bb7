// A small engine for the tests of the local check: plain float loops that keep a contract, with
// random structure (lanes, splits, tiles) and approximate instructions pushed near their allowed
// errors; or that break it in one planted way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/prng.h"
#include "model/model.h"
#include "trace/device_info.h"
#include "trace/op_call.h"

namespace lockstep::reference {

enum class Planted : std::uint8_t {
  None,
  EmbedUnscaled,       // embedding without its scale
  NormScale,           // norms 0.1 % large
  NormBf16Sum,         // sum of squares kept in bf16
  NormDropsLast,       // last element not in the sum
  NormEpsilonOutside,  // 1 / (sqrt(mean) + epsilon)
  NormCountLess,       // n - 1
  NormOneMore,         // 1 + w
  GemvScale,           // products 0.1 % large
  GemvBf16Sum,
  GemvDropsLast,
  GemvInputF16,    // x rounded, undeclared
  GemmDropsBlock,  // the last 16 of k
  GemmTruncates,   // operands cut, not rounded
  GemmOtherGeneration,
  RopeNextPosition,
  RopePairing,
  RopeBase,
  RopeBf16Table,
  CellsTruncated,  // KV stores cut, not rounded
  DecodeDropsNewest,
  DecodeFirstKeyLost,
  DecodeWindowWider,
  DecodeWrongHead,
  DecodeBf16Sum,      // l kept in bf16
  DecodeScoreScale,   // 0.1 %
  PrefillSeesFuture,  // mask off by one
  PrefillWindowWider,
  PrefillTruncatesP,
  PrefillValueScale,    // 0.1 %
  PrefillLosesTile,     // first tile not in l
  PrefillStaleRescale,  // O not rescaled when the maximum grows
  GateOtherActivation,
  GateTanhApprox,
  GateConstant,  // 0.0447
  ResidualF16,
  ArgmaxHighestId,  // of the tied ones: the last
  ArgmaxOffByOne,
  ReadsOtherRequest,  // attention reads another request's cells
  ReadsStaleGate,     // the gate reads another row's up
  WrongLayerWeights,  // layer 1 multiplies by layer 0's matrices
};

// x cut toward zero to a 16-bit format (normal range); bits of x rounded to it.
float cut_of(float x, model::DType format);
std::uint16_t narrow_bits_of(model::DType format, float x);
std::vector<std::uint16_t> narrow_row_of(model::DType format, const float* x, std::size_t n);

struct Chunk {
  trace::RequestId request;
  trace::Position first = 0;
  std::vector<trace::TokenId> tokens;
};

class SimulatedEngine {
 public:
  SimulatedEngine(const model::Model& model, const trace::DeviceInfo& device,
                  model::DType operand_format, model::DType cell_format, std::uint64_t seed,
                  Planted planted = Planted::None);

  // One phase of one step: its operations, in order. `tokens`: the chosen token after each chunk.
  std::vector<trace::OpCall> step(trace::LaunchIndex launch, bool prefill,
                                  const std::vector<Chunk>& chunks,
                                  std::vector<trace::TokenId>& tokens);

 private:
  struct Tensor {
    trace::TapPoint point = trace::TapPoint::Embed;
    std::uint32_t layer = 0, width = 0;
    model::DType dtype = model::DType::F32;
    std::vector<trace::RowId> rows;
    std::vector<float> values;
    float* row(std::size_t index) { return values.data() + index * width; }
    const float* row(std::size_t index) const { return values.data() + index * width; }
  };
  using Cells = std::map<trace::RowId, std::vector<float>>;
  struct Sums {  // of one split of decode attention
    float m = 0, l = 0;
    std::vector<float> o;
  };

  bool has(Planted planted) const { return planted_ == planted; }
  Tensor make(trace::TapPoint point, std::uint32_t layer, std::uint32_t width,
              const std::vector<trace::RowId>& rows, bool narrow = false) const;
  trace::TapTensor tap(const Tensor& tensor) const;
  trace::TapTensor cell_tap(trace::TapPoint point, std::uint32_t layer,
                            const std::vector<trace::RowId>& rows, bool read) const;
  void send(trace::Contract contract, std::uint32_t layer, std::vector<trace::TapTensor> reads,
            std::vector<trace::TapTensor> writes);

  float ex2(float x);
  float reciprocal_root(float x);
  float rounded(float x, model::DType format) const;
  std::uint32_t chain_depth(std::size_t n) const;
  float chain(const float* a, const float* b, std::size_t n, bool bf16) const;
  const std::vector<float>& matrix(model::WeightRole role, std::uint32_t layer);
  std::vector<float> norm_vector(model::WeightRole role, std::uint32_t layer);
  void norm_row(const float* x, const std::vector<float>& weight, float* out);

  Tensor embed(const std::vector<Chunk>& chunks);
  Tensor norm(const Tensor& x, model::WeightRole role, std::uint32_t layer, trace::TapPoint out,
              bool narrow);
  Tensor product(const Tensor& x, model::WeightRole role, std::uint32_t layer, trace::TapPoint out);
  void product_rows(const Tensor& x, const std::vector<float>& weights, bool tensor_cores,
                    Tensor& y) const;
  Tensor rope(const Tensor& q, const Tensor& k, const Tensor& v);
  void rotate_row(const float* raw, const std::vector<float>& norm_weight, trace::Position position,
                  std::uint32_t layer, std::uint32_t width, float* out);
  Tensor attention(const Tensor& q);
  float score_factor() const;
  std::vector<trace::Position> visible(trace::Position position, std::uint32_t layer) const;
  void decode_head(const float* q, const trace::RowId& row, std::uint32_t layer, std::uint32_t head,
                   float* out);
  Sums decode_split(const float* q, const std::vector<const float*>& keys,
                    const std::vector<const float*>& values);
  void prefill_head(const float* q, const trace::RowId& row, std::uint32_t layer,
                    std::uint32_t head, float* out);
  Tensor gate(const Tensor& g, const Tensor& up);
  Tensor add(const Tensor& a, const Tensor& b, trace::TapPoint out);
  std::vector<trace::TokenId> argmax(const Tensor& logits);
  Tensor layer(const Tensor& resid, std::uint32_t index);
  const float* cell(const Cells& cells, trace::RowId row) const;

  const model::Model& model_;
  trace::DeviceInfo device_;
  model::DType operand_format_, cell_format_;
  Planted planted_;
  base::Prng prng_;
  std::uint32_t lanes_, tile_keys_, split_keys_;
  std::vector<Cells> keys_, values_;  // a layer
  std::map<std::pair<model::WeightRole, std::uint32_t>, std::vector<float>> matrices_;
  bool prefill_ = false;
  trace::LaunchIndex launch_;
  std::vector<trace::OpCall> calls_;
};

}  // namespace lockstep::reference
