// Session: the chained reference. One request alone, in double: its tokens in order, one KV cache
// of its own, no batch, no pages. It computes the mathematical values, or (the yardstick) repeats
// the roundings that the engine's contracts declare: the distance of the two says what a contract
// costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/model.h"
#include "reference/models/graph.h"
#include "reference/weights.h"
#include "trace/ids.h"

namespace lockstep::reference {

struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;  // row-major

  Matrix() = default;
  Matrix(std::size_t rows_in, std::size_t columns_in)
      : rows(rows_in), columns(columns_in), values(rows_in * columns_in) {}
  std::span<double> row(std::size_t index) { return {&values[index * columns], columns}; }
  std::span<const double> row(std::size_t index) const {
    return {&values[index * columns], columns};
  }
};

// What an engine's contracts round, repeated by the yardstick: f32 results, cells, and for
// positions before `decode_from` (prefill on tensor cores) 16-bit operands, Q and P.
struct DeclaredRoundings {
  model::DType operand_format = model::DType::F16;
  model::DType cell_format = model::DType::F16;
  model::DType probability_format = model::DType::F16;
  std::uint32_t tile_keys = 64;
  trace::Position decode_from = 0;
};

struct SessionOptions {
  // Exact, or F32: weights rounded to float32 first, as every engine's decoder gives them.
  WeightPrecision weights = WeightPrecision::Exact;
  std::optional<DeclaredRoundings> declared = {};  // sets `weights` to F32
  int threads = 0;  // 0: as many as there are cores. Results have the same bits for any number.
};

struct ForwardRequest {
  // Logits for appended tokens [logits_from, count); count: none.
  std::size_t logits_from = 0;
  std::vector<trace::TapPoint> keep = {};  // values to return, of all layers
};

struct ForwardResult {
  Matrix logits;                  // [count - logits_from, vocab]
  std::map<Source, Matrix> kept;  // [count, width]; FinalNorm as logits
};

class Session {
 public:
  // Errors: build_graph's; a weight type that has no decoder. `model` must outlive the Session.
  static base::Result<Session> open(const model::Model& model, const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Appends tokens (each < vocab) to the sequence and computes their rows.
  ForwardResult append(std::span<const trace::TokenId> tokens, const ForwardRequest& request = {});
  // Appends `prompt` and continues with the argmax: `count` tokens, all but the last appended.
  std::vector<trace::TokenId> greedy(std::span<const trace::TokenId> prompt, std::size_t count);
  // Tokens so far.
  trace::Position length() const;
  // Forgets all tokens from `length` on.
  void truncate(trace::Position length);

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::reference
